"""The common part of group members: coordinator lookup, offset fetch and commit.

An unanswered commit may still arrive, so the member commits nothing else in its generation: it
must join again, and the coordinator fences older generations.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from barnabas.base.errors import BarnabasError, ErrorCode, PeerGone
from barnabas.base.ids import TopicPartition, by_topic
from barnabas.base.randomness import Random
from barnabas.client.metadata import fields
from barnabas.client.retries import Address
from barnabas.sim.checkers.history import (
    NO_OFFSET,
    Commit,
    OperationHistory,
    OperationOutcome,
    Owned,
    Recall,
    Recalled,
)
from barnabas.sim.clients.client_connections import Connections, topics_to_commit
from barnabas.wire.apis import ApiKey

ANSWERS_WITHIN_S: Final = 8.0
_E = ErrorCode
_FORGOTTEN: Final = (
    _E.unknown_member_id,
    _E.fenced_instance_id,
    _E.illegal_generation,
    _E.fenced_member_epoch,
    _E.stale_member_epoch,
)
# Errors after which nothing was committed: the member is fenced, or the group rebalances.
_REFUSED: Final = (*_FORGOTTEN, _E.rebalance_in_progress)


class MustJoin(BarnabasError):
    """The member is fenced, the group rebalances, or the coordinator is not found."""


class Membership:
    """One member and its coordinator; used by one task.

    After MustJoin the member is outside of the group and must call `join`.
    """

    def __init__(
        self,
        name: str,
        group: str,
        bootstrap: Sequence[Address],
        random: Random,
        history: OperationHistory,
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
        """Drop the member id without leaving; the old member's session times out."""
        self._member_id, self.owned = "", None

    async def recall(
        self, wanted: tuple[TopicPartition, ...] | None = None
    ) -> dict[TopicPartition, int]:
        """Committed offsets of these or of all owned partitions. Raises MustJoin"""
        owned = self._owned().partitions if wanted is None else wanted
        operation = self._history.begin(self.connections.name, Recall(self.group, owned))
        topics = tuple(
            fields(name=topic, partition_indexes=tuple(numbers))
            for topic, numbers in by_topic(owned).items()
        )
        try:
            answer = await self._ask(
                ApiKey.OFFSET_FETCH, groups=(fields(group_id=self.group, topics=topics),)
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
            self._history.end(operation, OperationOutcome.UNKNOWN, why=str(must))
            raise
        recalled = {
            at: offsets[at].committed_offset if at in offsets else NO_OFFSET for at in owned
        }
        self._history.end(operation, OperationOutcome.OK, Recalled(tuple(recalled.items())))
        return recalled

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets. Raises MustJoin if the commit was rejected or its outcome is unknown"""
        owned = self._owned()
        asked = Commit(self.group, owned.member, owned.generation, tuple(offsets.items()))
        operation = self._history.begin(self.connections.name, asked)
        try:
            answer = await self._ask(
                ApiKey.OFFSET_COMMIT,
                group_id=self.group,
                generation_id_or_member_epoch=owned.generation,
                member_id=owned.member,
                topics=topics_to_commit(offsets),
            )
        except MustJoin as must:
            self._history.end(operation, OperationOutcome.UNKNOWN, why=str(must))
            raise
        errors = [p.error_code for topic in answer.topics for p in topic.partitions]
        if all(error is _E.none for error in errors):
            self._history.end(operation, OperationOutcome.OK)
            return
        outcome = (
            OperationOutcome.FAILED
            if all(e in _REFUSED for e in errors)
            else OperationOutcome.UNKNOWN
        )
        worst = next(error for error in errors if error is not _E.none)
        self._history.end(operation, outcome, why=worst.name)
        self._check(worst)

    # -- the coordinator -----------------------------------------------------

    def _owned(self) -> Owned:
        if self.owned is None:
            raise MustJoin("not a member")
        return self.owned

    async def _ask(self, key: ApiKey, **given: object) -> Any:
        try:
            address = await self._find()
            return await self.connections.ask_at(address, key, fields(**given), ANSWERS_WITHIN_S)
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
            self.forget()
        elif error is not _E.rebalance_in_progress:
            self._coordinator = None
        raise MustJoin(error.name)
