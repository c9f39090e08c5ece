"""A member of a classic group: joins, is given partitions, tells how far it has read, and leaves.

What the group's leader assigns is only relayed by the coordinator, so it is written as plain text.
A commit of which nothing was heard may still arrive, so nothing else is committed in its
generation: the member has to join again, and the coordinator refuses what is older.
"""

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any, Final

from barnabas.base.errors import BarnabasError, ErrorCode, PeerGone
from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.sim.clients import Address, Connections, partitions, parts, topics
from barnabas.sim.history import (
    NO_OFFSET,
    Commit,
    History,
    Outcome,
    Own,
    Owned,
    Recall,
    Recalled,
)
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import duration

SESSION_MS: Final = 3_000
REBALANCE_MS: Final = 3_000
JOINS_WITHIN_S: Final = 8.0
PROTOCOL: Final = "text"
_VERSION_COUNT: Final = Struct(">hi")
_LENGTH: Final = Struct(">h")
_NO_USER_DATA: Final = b"\xff\xff\xff\xff"
_E = ErrorCode
# With these nothing was written: someone else has taken over, or the group is between two
# generations.
_REFUSED: Final = (
    _E.illegal_generation,
    _E.unknown_member_id,
    _E.fenced_instance_id,
    _E.rebalance_in_progress,
)
_FORGOTTEN: Final = (_E.unknown_member_id, _E.fenced_instance_id, _E.illegal_generation)


class MustJoin(BarnabasError):
    """The member is none any more, or not in this generation, or its coordinator is not found."""


class Member:
    """One member, as far as its coordinator is concerned; one task uses it.

    Whatever raises MustJoin leaves it outside of the group: `join` is what can be done next.
    """

    def __init__(
        self,
        name: str,
        group: str,
        bootstrap: Sequence[Address],
        random: Random,
        history: History,
    ) -> None:
        self.connections = Connections(name, bootstrap, random)
        self.group = group
        self.owned: Owned | None = None
        self._coordinator: Address | None = None
        self._member_id = ""
        self._history = history

    def close(self) -> None:
        self.connections.close()

    def forget(self) -> None:
        """Be another member from now on; the group finds out by itself that the former is gone."""
        self._member_id, self.owned = "", None

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
                protocols=(parts(name=PROTOCOL, metadata=self._subscription()),),
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
            parts(member_id=member, assignment="\n".join(known[n :: len(members)]).encode())
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

    async def recall(self) -> dict[TopicPartition, int]:
        """How far the group has read what this member owns. Raises MustJoin"""
        owned = self._owned().partitions
        operation = self._history.begin(self.connections.name, Recall(self.group, owned))
        topics = tuple(
            parts(name=topic, partition_indexes=tuple(p for t, p in owned if t == topic))
            for topic in dict.fromkeys(at.topic for at in owned)
        )
        try:
            answer = await self._ask(
                ApiKey.OFFSET_FETCH, groups=(parts(group_id=self.group, topics=topics),)
            )
            (found,) = answer.groups
            self._check(found.error_code)
            offsets = {
                TopicPartition(topic.name, partition.partition_index): partition
                for topic in found.topics
                for partition in topic.partitions
            }
            for partition in offsets.values():
                self._check(partition.error_code)
        except MustJoin as must:
            self._history.end(operation, Outcome.UNKNOWN, why=str(must))
            raise
        recalled = {
            at: offsets[at].committed_offset if at in offsets else NO_OFFSET for at in owned
        }
        self._history.end(operation, Outcome.OK, Recalled(tuple(recalled.items())))
        return recalled

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Raises MustJoin, if it was refused, or nobody knows"""
        owned = self._owned()
        asked = Commit(self.group, owned.member, owned.generation, tuple(offsets.items()))
        operation = self._history.begin(self.connections.name, asked)
        topics = tuple(
            parts(
                name=topic,
                partitions=tuple(
                    parts(partition_index=at.partition, committed_offset=offset)
                    for at, offset in offsets.items()
                    if at.topic == topic
                ),
            )
            for topic in dict.fromkeys(at.topic for at in offsets)
        )
        try:
            answer = await self._ask(
                ApiKey.OFFSET_COMMIT,
                group_id=self.group,
                generation_id_or_member_epoch=owned.generation,
                member_id=owned.member,
                topics=topics,
            )
        except MustJoin as must:
            self._history.end(operation, Outcome.UNKNOWN, why=str(must))
            raise
        errors = [p.error_code for topic in answer.topics for p in topic.partitions]
        if all(error is _E.none for error in errors):
            self._history.end(operation, Outcome.OK)
            return
        outcome = Outcome.FAILED if all(e in _REFUSED for e in errors) else Outcome.UNKNOWN
        worst = next(error for error in errors if error is not _E.none)
        self._history.end(operation, outcome, why=worst.name)
        self._check(worst)

    async def leave(self) -> None:
        """Tell the group that this member goes; if that is not heard, it finds out by itself."""
        member, self.owned = parts(member_id=self._member_id), None
        try:
            await self._ask(ApiKey.LEAVE_GROUP, group_id=self.group, members=(member,))
        except MustJoin:
            return
        finally:
            self.forget()

    # -- the coordinator -----------------------------------------------------

    def _owned(self) -> Owned:
        if self.owned is None:
            raise MustJoin("not a member")
        return self.owned

    async def _ask(self, key: ApiKey, **fields: object) -> Any:
        try:
            address = await self._find()
            return await self.connections.ask_at(address, key, parts(**fields), JOINS_WITHIN_S)
        except PeerGone as gone:
            self.owned = self._coordinator = None
            raise MustJoin(str(gone)) from gone

    async def _find(self) -> Address:
        if self._coordinator is None:
            answer = await self.connections.ask_any(
                ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=(self.group,)
            )
            (found,) = answer.coordinators
            if found.error_code is not _E.none:
                raise PeerGone(f"no coordinator: {found.error_code.name}")
            self._coordinator = (found.host, found.port)
        return self._coordinator

    def _check(self, error: ErrorCode) -> None:
        if error is _E.none:
            return
        self.owned = None
        if error in _FORGOTTEN:
            self._member_id = ""
        elif error is not _E.rebalance_in_progress:
            self._coordinator = None
        raise MustJoin(error.name)


def _read_assignment(text: bytes) -> tuple[TopicPartition, ...]:
    found = (line.split() for line in text.decode().splitlines())
    return tuple(TopicPartition(topic, int(partition)) for topic, partition in found)
