"""Committed offsets of a shard, with the checks of their groups: commit, fetch, delete, expire.

A commit without member to a group that does not exist creates a simple group, which only has
offsets.
"""

from collections.abc import Iterable, Mapping

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.coordinator.result import (
    CoordinatorRecord,
    CoordinatorResult,
    Effect,
    Now,
    Transaction,
)
from barnabas.groups.classic.classic_group import ClassicGroup
from barnabas.groups.classic.classic_messages import CommitClaim
from barnabas.groups.classic.classic_state import GroupState
from barnabas.groups.classic.classic_turn import ClassicSettings, Turn
from barnabas.groups.offsets.committed_offsets import NO_RETENTION, Offsets
from barnabas.groups.offsets.offset_messages import (
    AskedTopic,
    FetchReply,
    OffsetsReply,
    TopicCommits,
)
from barnabas.groups.shard_group import ShardGroup

_KEEP_ALIVE = (GroupState.STABLE, GroupState.PREPARING_REBALANCE)


class ShardOffsets:
    """Reads the groups of the shard, and changes none of them."""

    def __init__(
        self, groups: Mapping[str, ShardGroup], offsets: Offsets, settings: ClassicSettings
    ) -> None:
        self._groups = groups
        self._offsets = offsets
        self._settings = settings

    def commit(
        self,
        claim: CommitClaim,
        topics: Iterable[TopicCommits],
        now: Now,
        retention_ms: int = NO_RETENTION,
        transaction: Transaction | None = None,
    ) -> CoordinatorResult[OffsetsReply]:
        """A commit counts as a heartbeat of a classic member, but not one of a transaction."""
        group = self._groups.get(claim.group_id)
        error = _check_without_group(claim) if group is None else group.check_commit(claim)
        if error is not ErrorCode.none:
            return CoordinatorResult(OffsetsReply(error=error))
        decided = self._offsets.decide_commit(claim.group_id, topics, now.wall_ms, retention_ms)
        return decided._replace(
            effects=self._keep_alive(group, claim, now), transaction=transaction
        )

    def _keep_alive(
        self, group: ShardGroup | None, claim: CommitClaim, now: Now
    ) -> tuple[Effect, ...]:
        if claim.is_transactional or not isinstance(group, ClassicGroup):
            return ()
        member = group.members.get(claim.member_id)
        if member is None or group.state not in _KEEP_ALIVE:
            return ()
        turn = Turn(group, self._settings, now)
        turn.arm_session(member)
        return tuple(turn.effects)

    def fetch(
        self,
        group_id: str,
        topics: Iterable[AskedTopic] | None,
        member_id: str | None = None,
        member_epoch: int = -1,
        require_stable: bool = False,
    ) -> FetchReply:
        """A group that does not exist has no offsets. `topics` is None for all topics."""
        group = self._groups.get(group_id)
        error = ErrorCode.none if group is None else group.check_fetch(member_id, member_epoch)
        if error is not ErrorCode.none:
            return FetchReply(error=error)
        return self._offsets.fetch(group_id, topics, require_stable)

    def delete(
        self, group_id: str, topics: Iterable[AskedTopic]
    ) -> CoordinatorResult[OffsetsReply]:
        """Delete single offsets, but none of subscribed topics."""
        group = self._groups.get(group_id)
        error = ErrorCode.group_id_not_found if group is None else group.check_offset_delete()
        if group is None or error is not ErrorCode.none:
            return CoordinatorResult(OffsetsReply(error=error))
        return self._offsets.decide_delete(group_id, topics, group.is_subscribed_to)

    def expire(self, now: Now) -> CoordinatorResult[None]:
        """Remove expired offsets, and empty groups that have none left."""
        records: list[CoordinatorRecord] = []
        for group_id, group in self._groups.items():
            expired = self._offsets.decide_expire(group_id, group, now.wall_ms)
            records += expired.records
            if expired.leaves_none and group.is_empty:
                records += group.tombstones()
        return CoordinatorResult(None, tuple(records), is_atomic=False)

    def on_partitions_deleted(
        self, partitions: Iterable[TopicPartition]
    ) -> CoordinatorResult[None]:
        tombstones = self._offsets.decide_partitions_deleted(partitions)
        return CoordinatorResult(None, tombstones, is_atomic=False)


def _check_without_group(claim: CommitClaim) -> ErrorCode:
    if claim.generation_id < 0:
        return ErrorCode.none
    if claim.knows_group_id_not_found and not claim.is_transactional:
        return ErrorCode.group_id_not_found
    return ErrorCode.illegal_generation
