"""The records of a consumer group, made from its parts."""

from collections.abc import Iterable

from barnabas.coordinator.result import CoordinatorRecord
from barnabas.groups.assignors.assignors import Assignment
from barnabas.groups.consumer.consumer_member import ConsumerMember, as_topic_partitions
from barnabas.groups.records.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadata,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicMetadata,
)
from barnabas.groups.records.group_records import encode


def epoch_record(group_id: str, epoch: int) -> CoordinatorRecord:
    return encode(ConsumerGroupMetadata(group_id, ConsumerGroupMetadataValue(epoch)))


def topics_record(group_id: str, topics: Iterable[TopicMetadata]) -> CoordinatorRecord:
    value = ConsumerGroupPartitionMetadataValue(tuple(topics))
    return encode(ConsumerGroupPartitionMetadata(group_id, value))


def member_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    return encode(ConsumerGroupMemberMetadata(group_id, member.member_id, member.metadata))


def target_epoch_record(group_id: str, epoch: int) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(epoch)
    return encode(ConsumerGroupTargetAssignmentMetadata(group_id, value))


def target_record(group_id: str, member_id: str, target: Assignment) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMemberValue(as_topic_partitions(target))
    return encode(ConsumerGroupTargetAssignmentMember(group_id, member_id, value))


def current_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state.value,
        assigned_partitions=as_topic_partitions(member.assigned),
        partitions_pending_revocation=as_topic_partitions(member.revoking),
    )
    return encode(ConsumerGroupCurrentMemberAssignment(group_id, member.member_id, value))


def member_tombstones(group_id: str, member_id: str) -> tuple[CoordinatorRecord, ...]:
    """In this order: a member's metadata record is the last to go."""
    return (
        encode(ConsumerGroupCurrentMemberAssignment(group_id, member_id)),
        encode(ConsumerGroupTargetAssignmentMember(group_id, member_id)),
        encode(ConsumerGroupMemberMetadata(group_id, member_id)),
    )


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> tuple[CoordinatorRecord, ...]:
    """Those of the members first, those of the group last."""
    members = list(member_ids)
    return (
        *(encode(ConsumerGroupCurrentMemberAssignment(group_id, each)) for each in members),
        *(encode(ConsumerGroupTargetAssignmentMember(group_id, each)) for each in members),
        encode(ConsumerGroupTargetAssignmentMetadata(group_id)),
        *(encode(ConsumerGroupMemberMetadata(group_id, each)) for each in members),
        encode(ConsumerGroupPartitionMetadata(group_id)),
        encode(ConsumerGroupMetadata(group_id)),
    )
