"""What a shard needs to know of any kind of group, and of the side that serves the newer kind."""

from collections.abc import Collection, Mapping, MutableMapping
from typing import Protocol

from barnabas.base.errors import ErrorCode
from barnabas.coordinator.result import CoordinatorRecord, CoordinatorResult, Now, Waiter
from barnabas.groups.classic.classic_messages import (
    CommitClaim,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeaveRequest,
    ListedGroup,
    SyncReply,
    SyncRequest,
)
from barnabas.groups.consumer.consumer_messages import (
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    DescribedConsumerGroup,
)
from barnabas.groups.records.group_records import GroupRecord


class ShardGroup(Protocol):
    """A group, classic or of the consumer protocol. Checks answer `none` if all is well."""

    @property
    def group_id(self) -> str: ...

    @property
    def is_empty(self) -> bool:
        """Whether it has no members; it may have offsets."""

    def check_commit(self, claim: CommitClaim) -> ErrorCode:
        """Whether the claim entitles to commit offsets of the group."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Whether the offsets may be asked for by that member, or by nobody in particular."""

    def check_offset_delete(self) -> ErrorCode:
        """Whether single offsets may be deleted, but for topics that are subscribed to."""

    def check_delete(self) -> ErrorCode:
        """Whether the group may be deleted."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member wants the topic, so that its offsets are to be kept."""

    def unused_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """Since when an offset of that commit serves nobody; None while it is to be kept."""

    def listed(self) -> ListedGroup:
        """A line about it."""

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        """What removes it from the log, but for its offsets."""


class ConsumerSide(Protocol):
    """Serves groups of the consumer protocol, and classic members of theirs.

    A group is given as it stands in the shard, where it is changed by replaying only: `replay`
    puts it into `groups`, replaces an empty group of the other kind, and takes it away. Where a
    classic group stands already, an empty one gave way to it: what removes that is passed over.
    """

    def replay(self, groups: MutableMapping[str, ShardGroup], record: GroupRecord) -> None:
        """Take in a record that is neither a classic group's nor an offset's."""

    def consumer_heartbeat(
        self, group: ShardGroup | None, request: ConsumerHeartbeatRequest, now: Now
    ) -> CoordinatorResult[ConsumerHeartbeatReply]:
        """To any kind of group, or to one that does not exist."""

    def describe(self, group: ShardGroup | None, group_id: str) -> DescribedConsumerGroup: ...

    def on_topics_changed(
        self, groups: Mapping[str, ShardGroup], changed: Collection[str]
    ) -> None: ...

    def join(
        self, group: ShardGroup, request: JoinRequest, new_id: str, waiter: Waiter, now: Now
    ) -> CoordinatorResult[JoinReply]: ...

    def sync(
        self, group: ShardGroup, request: SyncRequest, waiter: Waiter, now: Now
    ) -> CoordinatorResult[SyncReply]: ...

    def heartbeat(
        self, group: ShardGroup, request: HeartbeatRequest, now: Now
    ) -> CoordinatorResult[ErrorCode]: ...

    def leave(
        self, group: ShardGroup, request: LeaveRequest, now: Now
    ) -> CoordinatorResult[LeaveReply]: ...

    def on_loaded(self, group: ShardGroup, now: Now) -> CoordinatorResult[None]: ...

    def on_timer(
        self, group: ShardGroup, key: tuple[str, ...], now: Now
    ) -> CoordinatorResult[None]: ...
