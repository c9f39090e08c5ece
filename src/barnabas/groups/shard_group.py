"""The interfaces between a shard and its groups: any group, and consumer groups."""

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


class GroupMember(Protocol):
    @property
    def size(self) -> int:
        """The bytes that the member takes, without its partitions."""


class ShardGroup(Protocol):
    """A group, classic or of the consumer protocol. Checks return `none` if it is allowed."""

    @property
    def group_id(self) -> str: ...

    @property
    def members(self) -> Mapping[str, GroupMember]:
        """Its members by their ids."""

    @property
    def held_bytes(self) -> int:
        """The bytes that its members take."""

    @property
    def is_empty(self) -> bool:
        """True if it has no members; it may have offsets."""

    def check_commit(self, claim: CommitClaim) -> ErrorCode:
        """The error if the claim may not commit offsets of the group, else `none`."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """The error if that member, or a client that is no member, may not fetch the offsets."""

    def check_offset_delete(self) -> ErrorCode:
        """The error if no offsets may be deleted, not even of topics without subscriber."""

    def check_delete(self) -> ErrorCode:
        """The error if the group may not be deleted."""

    def is_subscribed_to(self, topic: str) -> bool:
        """True if a member subscribes to the topic, so its offsets are kept."""

    def unused_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """The time since when an offset of that commit is unused; None while it is in use."""

    def listed(self) -> ListedGroup:
        """The group in a list of groups."""

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        """The tombstones of the group, without those of its offsets."""


class ConsumerSide(Protocol):
    """Serves groups of the consumer protocol, and classic members of theirs.

    A group changes by `replay` alone, which adds it to `groups`, replaces an empty classic group,
    and removes it. If a classic group replaced an empty one, the tombstones of that are ignored.
    """

    def replay(self, groups: MutableMapping[str, ShardGroup], record: GroupRecord) -> None:
        """Apply a record of a consumer group."""

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
