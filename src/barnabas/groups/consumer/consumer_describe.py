"""The description of a consumer group for ConsumerGroupDescribe."""

from collections.abc import Mapping
from uuid import UUID

from barnabas.groups.assignors.assignors import Assignment
from barnabas.groups.consumer.consumer_group import ConsumerGroup
from barnabas.groups.consumer.consumer_member import ConsumerMember
from barnabas.groups.consumer.consumer_messages import (
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedTopic,
    Topics,
)
from barnabas.groups.consumer.target_assignment import chosen_assignor, names_by_id


def described(
    group: ConsumerGroup, default_assignor: str, topics: Topics
) -> DescribedConsumerGroup:
    """Deleted topics are left out."""
    names = names_by_id(group.topics, topics)
    return DescribedConsumerGroup(
        group.group_id,
        state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=chosen_assignor(group.members.values(), default_assignor),
        members=tuple(
            _described(member, group.target(member.member_id), names)
            for member in group.members.values()
        ),
    )


def _described(
    member: ConsumerMember, target: Assignment, names: Mapping[UUID, str]
) -> DescribedConsumer:
    said = member.metadata
    return DescribedConsumer(
        member.member_id,
        said.instance_id,
        said.rack_id,
        member.epoch,
        said.client_id,
        said.client_host,
        said.subscribed_topic_names,
        said.subscribed_topic_regex,
        _named(member.assigned, names),
        _named(target, names),
        member.uses_classic_protocol,
    )


def _named(assignment: Assignment, names: Mapping[UUID, str]) -> tuple[DescribedTopic, ...]:
    return tuple(
        DescribedTopic(topic_id, names[topic_id], tuple(sorted(partitions)))
        for topic_id, partitions in assignment.items()
        if topic_id in names
    )
