"""A member of a classic group: joins, is given partitions, tells how far it has read, and leaves.

What the group's leader assigns is only relayed by the coordinator, so it is written as plain text.
"""

from struct import Struct
from typing import Any, Final

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.client.metadata import fields
from barnabas.sim.checkers.history import Outcome, Own, Owned
from barnabas.sim.clients.client_connections import partitions, topics
from barnabas.sim.clients.group_membership import Membership, MustJoin
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import duration

SESSION_MS: Final = 3_000
REBALANCE_MS: Final = 3_000
PROTOCOL: Final = "text"
_VERSION_COUNT: Final = Struct(">hi")
_LENGTH: Final = Struct(">h")
_NO_USER_DATA: Final = b"\xff\xff\xff\xff"
_E = ErrorCode


class Member(Membership):
    """One that joins each generation anew."""

    async def join(self) -> Owned:
        """Become a member of the next generation. Raises MustJoin"""
        self.owned = None
        operation = self._history.begin(self.connections.name, Own(self.group))
        try:
            joined = await self._join()
            assignments = await self._assigned(joined)
            synced = await self._ask(
                ApiKey.SYNC_GROUP,
                group_id=self.group,
                generation_id=joined.generation_id,
                member_id=self._member_id,
                protocol_type="consumer",
                protocol_name=PROTOCOL,
                assignments=assignments,
            )
            self._check(synced.error_code)
        except MustJoin as must:
            self._history.end(operation, Outcome.UNKNOWN, why=str(must))
            raise
        partitions = _read_assignment(synced.assignment)
        self.owned = Owned(self._member_id, joined.generation_id, partitions)
        self._history.end(operation, Outcome.OK, self.owned)
        return self.owned

    async def _join(self) -> Any:
        while True:
            joined = await self._ask(
                ApiKey.JOIN_GROUP,
                group_id=self.group,
                session_timeout=duration(SESSION_MS),
                rebalance_timeout=duration(REBALANCE_MS),
                member_id=self._member_id,
                protocol_type="consumer",
                protocols=(fields(name=PROTOCOL, metadata=self._subscription()),),
            )
            self._member_id = joined.member_id or self._member_id
            if joined.error_code is not _E.member_id_required:
                self._check(joined.error_code)
                return joined

    def _subscription(self) -> bytes:
        """To all topics, as far as this member knows them; in version 0 of Kafka's form."""
        names = [topic.encode() for topic in topics(self.connections)]
        listed = b"".join(_LENGTH.pack(len(name)) + name for name in names)
        return _VERSION_COUNT.pack(0, len(names)) + listed + _NO_USER_DATA

    async def _assigned(self, joined: Any) -> tuple[Any, ...]:
        """What each member is to read, if this one leads the group: partitions in turn."""
        if joined.leader != self._member_id:
            return ()
        if not await self.connections.refresh():
            raise MustJoin("the topics are not known")
        known = [f"{at.topic} {at.partition}" for at in partitions(self.connections)]
        members = sorted(member.member_id for member in joined.members)
        return tuple(
            fields(member_id=member, assignment="\n".join(known[n :: len(members)]).encode())
            for n, member in enumerate(members)
        )

    async def heartbeat(self) -> None:
        """Raises MustJoin, also if the group is about to have another generation"""
        owned = self._owned()
        answer = await self._ask(
            ApiKey.HEARTBEAT,
            group_id=self.group,
            generation_id=owned.generation,
            member_id=owned.member,
        )
        self._check(answer.error_code)

    async def leave(self) -> None:
        """Tell the group that this member goes; if that is not heard, it finds out by itself."""
        member, self.owned = fields(member_id=self._member_id), None
        try:
            await self._ask(ApiKey.LEAVE_GROUP, group_id=self.group, members=(member,))
        except MustJoin:
            return
        finally:
            self.forget()


def _read_assignment(text: bytes) -> tuple[TopicPartition, ...]:
    found = (line.split() for line in text.decode().splitlines())
    return tuple(TopicPartition(topic, int(partition)) for topic, partition in found)
