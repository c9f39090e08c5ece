"""The replay of records into the consumer groups of a shard."""

from collections.abc import MutableMapping

from barnabas.groups.consumer.consumer_group import NO_EPOCH, ConsumerGroup
from barnabas.groups.consumer.consumer_member import as_assignment
from barnabas.groups.records.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
)
from barnabas.groups.records.group_records import GroupRecord


def replay(groups: MutableMapping[str, object], record: GroupRecord) -> None:
    """Apply a record of a consumer group: it may create, change or remove the group."""
    found = groups.get(record.group_id)
    group = found if isinstance(found, ConsumerGroup) else None
    if record.value is None:
        if group is not None:
            apply_record(group, record)
            if isinstance(record, ConsumerGroupMetadata):
                del groups[record.group_id]
        return
    if group is None:
        group = ConsumerGroup(record.group_id)
        groups[record.group_id] = group
    apply_record(group, record)


def apply_record(group: ConsumerGroup, record: GroupRecord | None) -> None:
    match record:
        case ConsumerGroupMetadata(_, value):
            group.group_epoch = NO_EPOCH if value is None else value.epoch
        case ConsumerGroupPartitionMetadata(_, value):
            group.apply_topics(() if value is None else value.topics)
        case ConsumerGroupMemberMetadata(_, member_id, value):
            group.apply_member(member_id, value)
        case ConsumerGroupTargetAssignmentMetadata(_, value):
            group.assignment_epoch = NO_EPOCH if value is None else value.assignment_epoch
        case ConsumerGroupTargetAssignmentMember(_, member_id, value):
            target = None if value is None else as_assignment(value.topic_partitions)
            group.apply_target(member_id, target)
        case ConsumerGroupCurrentMemberAssignment(_, member_id, value):
            group.apply_current(member_id, value)
