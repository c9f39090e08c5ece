"""A simulated member of a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

The coordinator only relays assignments, so the group leader writes them as plain text.
"""

from struct import Struct
from typing import Any, Final

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.client.metadata import fields
from barnabas.sim.checkers.history import OperationOutcome, Own, Owned
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


class SimClassicMember(Membership):
    """A member that joins every generation."""

    async def join(self) -> Owned:
        """Join the next generation. Raises MustJoin"""
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
            self._history.end(operation, OperationOutcome.UNKNOWN, why=str(must))
            raise
        partitions = _read_assignment(synced.assignment)
        self.owned = Owned(self._member_id, joined.generation_id, partitions)
        self._history.end(operation, OperationOutcome.OK, self.owned)
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
        """A subscription to all known topics, in version 0 of Kafka's format."""
        names = [topic.encode() for topic in topics(self.connections)]
        listed = b"".join(_LENGTH.pack(len(name)) + name for name in names)
        return _VERSION_COUNT.pack(0, len(names)) + listed + _NO_USER_DATA

    async def _assigned(self, joined: Any) -> tuple[Any, ...]:
        """The assignments, round robin, if this member leads the group; else empty."""
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
        """Send a heartbeat. Raises MustJoin, also while the group rebalances"""
        owned = self._owned()
        answer = await self._ask(
            ApiKey.HEARTBEAT,
            group_id=self.group,
            generation_id=owned.generation,
            member_id=owned.member,
        )
        self._check(answer.error_code)

    async def leave(self) -> None:
        """Leave the group; if the request is lost, the member's session times out."""
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
