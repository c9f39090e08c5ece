"""One consumer group: members, epochs, target assignment, and the owner of each partition.

It changes by `apply_*` alone, but for the soft state that is marked. Records of a compacted log may
name members that are unknown, or remove members that are gone.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final
from uuid import UUID

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.coordinator.result import CoordinatorRecord
from barnabas.groups.assignors.assignors import EMPTY, Assignment
from barnabas.groups.classic.classic_messages import CommitClaim, ListedGroup
from barnabas.groups.classic.classic_subscription import CONSUMER_PROTOCOL_TYPE
from barnabas.groups.consumer.consumer_member import ConsumerMember, as_assignment, member_state
from barnabas.groups.consumer.consumer_records import group_tombstones
from barnabas.groups.consumer.consumer_regex import TopicRegex
from barnabas.groups.records.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicMetadata,
)

NO_EPOCH: Final = -1

# Compaction may leave a member's assignment before its metadata.
_NOT_YET_KNOWN: Final = ConsumerGroupMemberMetadataValue(
    client_id="", client_host="", subscribed_topic_names=()
)


class ConsumerGroupState(Enum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"  # the newest epoch has no target yet
    RECONCILING = "Reconciling"  # members have not reached the target yet
    STABLE = "Stable"


@dataclass(slots=True)
class ConsumerGroup:
    """`static_members` are member ids by instance id; `owners` are member ids by partition."""

    group_id: str
    group_epoch: int = 0
    assignment_epoch: int = 0  # the group epoch of `targets`
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    targets: dict[str, Assignment] = field(default_factory=dict)
    topics: dict[str, TopicMetadata] = field(default_factory=dict)  # those subscribed to that exist
    owners: dict[UUID, dict[int, str]] = field(default_factory=dict)
    size: int = 0  # the bytes that members take, without their partitions
    _subscribed: Counter[str] = field(default_factory=Counter)  # subscribers by topic
    _regexes: Counter[str] = field(default_factory=Counter)

    # Soft state, only in memory:
    is_stale: bool = True  # topics may have changed since the last look
    is_unresolved: bool = False  # regexes may find more topics, by the rights of a heartbeat
    asked_to_rejoin: dict[str, None] = field(default_factory=dict)  # classic members with a timer
    targets_since_ms: float = -math.inf  # when they were computed, by the loop's clock

    # -- members ---------------------------------------------------------------------------------

    def member(self, member_id: str) -> ConsumerMember:
        """Raises  BrokerError(unknown_member_id)"""
        found = self.members.get(member_id)
        if found is None:
            raise BrokerError(
                ErrorCode.unknown_member_id,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return found

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    @property
    def held_bytes(self) -> int:
        return self.size

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(each.is_reconciled_to(self.assignment_epoch) for each in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self._subscribed or any(
            TopicRegex.of(regex).matches(topic) for regex in self._regexes
        )

    @property
    def has_regexes(self) -> bool:
        return bool(self._regexes)

    def may_want(self, topic: str) -> bool:
        """True if a member may subscribe to the topic: cheap, never wrongly False."""
        return topic in self._subscribed or bool(self._regexes)

    # -- checks ----------------------------------------------------------------------------------

    def check_commit(self, claim: CommitClaim) -> ErrorCode:
        """The error if the claim may not commit offsets; a transaction need not name a member."""
        if claim.generation_id < 0 and not self.members:
            return ErrorCode.none
        if claim.is_transactional and claim.names_nobody:
            return ErrorCode.none
        member = self.members.get(claim.member_id)
        if member is None:
            return ErrorCode.unknown_member_id
        if not (
            claim.is_transactional
            or member.uses_classic_protocol
            or claim.knows_group_id_not_found  # since the version that has member epochs
        ):
            return ErrorCode.unsupported_version
        return _check_epoch(member, claim.generation_id)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        if member_id is None and member_epoch < 0:
            return ErrorCode.none
        member = self.members.get(member_id or "")
        return ErrorCode.unknown_member_id if member is None else _check_epoch(member, member_epoch)

    def check_offset_delete(self) -> ErrorCode:
        return ErrorCode.none

    def check_delete(self) -> ErrorCode:
        return ErrorCode.none if self.is_empty else ErrorCode.non_empty_group

    def unused_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """Offsets of topics without subscriber age from their commit."""
        return commit_timestamp_ms

    def listed(self) -> ListedGroup:
        return ListedGroup(self.group_id, CONSUMER_PROTOCOL_TYPE, self.state.value, "consumer")

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        return group_tombstones(self.group_id, self.members)

    # -- replay ----------------------------------------------------------------------------------

    def apply_member(self, member_id: str, value: ConsumerGroupMemberMetadataValue | None) -> None:
        before = self.members.get(member_id)
        if value is None:
            self._put(before, None)
        elif before is None:
            self._put(None, ConsumerMember(member_id, value))
        else:
            self._put(before, replace(before, metadata=value))

    def apply_current(
        self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        before = self.members.get(member_id)
        if value is None:
            if before is not None:
                gone = ConsumerMember(member_id, before.metadata, NO_EPOCH, NO_EPOCH)
                self._put(before, gone)
        else:
            after = replace(
                before or ConsumerMember(member_id, _NOT_YET_KNOWN),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=member_state(value.state),
                assigned=as_assignment(value.assigned_partitions),
                revoking=as_assignment(value.partitions_pending_revocation),
            )
            self._put(before, after)

    def apply_target(self, member_id: str, target: Assignment | None) -> None:
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target

    def apply_topics(self, topics: tuple[TopicMetadata, ...]) -> None:
        self.topics = {topic.topic_name: topic for topic in topics}
        self.is_stale = False

    def target(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, EMPTY)

    def _put(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        """Replace a member, and update the indexes by instance id, partition and topic."""
        if before is not None:
            self._release(before)
            _count(self._subscribed, before.metadata.subscribed_topic_names, -1)
            _count(self._regexes, _regexes(before), -1)
            self.size -= before.size
            instance_id = before.instance_id
            if instance_id and self.static_members.get(instance_id) == before.member_id:
                del self.static_members[instance_id]
            if after is None:
                del self.members[before.member_id]
                self.asked_to_rejoin.pop(before.member_id, None)
        if after is not None:
            self.members[after.member_id] = after
            for topic_id, partition in _owned(after):
                self.owners.setdefault(topic_id, {})[partition] = after.member_id
            _count(self._subscribed, after.metadata.subscribed_topic_names, 1)
            _count(self._regexes, _regexes(after), 1)
            self.size += after.size
            if after.instance_id:
                self.static_members[after.instance_id] = after.member_id

    def _release(self, member: ConsumerMember) -> None:
        for topic_id, partition in _owned(member):
            owners = self.owners.get(topic_id, {})
            if owners.get(partition) == member.member_id:
                del owners[partition]
                if not owners:
                    del self.owners[topic_id]


def _owned(member: ConsumerMember) -> Iterator[tuple[UUID, int]]:
    for assignment in (member.assigned, member.revoking):
        for topic_id, partitions in assignment.items():
            for partition in partitions:
                yield topic_id, partition


def _regexes(member: ConsumerMember) -> tuple[str, ...]:
    regex = member.metadata.subscribed_topic_regex
    return (regex,) if regex else ()


def _count(counter: Counter[str], names: tuple[str, ...], by: int) -> None:
    for name in names:
        counter[name] += by
        if not counter[name]:
            del counter[name]


def _check_epoch(member: ConsumerMember, epoch: int) -> ErrorCode:
    if epoch == member.epoch:
        return ErrorCode.none
    if member.uses_classic_protocol:
        return ErrorCode.illegal_generation
    return ErrorCode.stale_member_epoch
