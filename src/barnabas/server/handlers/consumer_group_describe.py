"""ConsumerGroupDescribe (69): consumer groups (KIP-848), their members, assignments and targets."""

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v1.response import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.turns import Turns
from barnabas.coordinator.result import CoordinatorResult
from barnabas.groups.consumer.consumer_messages import (
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedTopic,
)
from barnabas.security.acls import Operation, ResourceType
from barnabas.server.broker import Broker
from barnabas.server.requests.access import Access, operations_if_asked
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(
    broker: Broker, request: ConsumerGroupDescribeRequest, call: Call
) -> ConsumerGroupDescribeResponse:
    turns = Turns()

    async def one(group_id: str) -> DescribedGroup:
        group = _as_seen(await _described(broker, group_id), call.access)
        is_asked = request.include_authorized_operations and group.error is ErrorCode.none
        operations = operations_if_asked(is_asked, call.access, ResourceType.GROUP, group_id)
        return _response(group, operations)

    return ConsumerGroupDescribeResponse(
        throttle_time=NO_THROTTLE,
        groups=tuple(
            [
                await one(group_id)
                # A group that is named twice is in the response once.
                async for group_id in turns.each(dict.fromkeys(request.group_ids))
            ]
        ),
    )


async def _described(broker: Broker, group_id: str) -> DescribedConsumerGroup:
    consumers = broker.groups.consumers
    try:
        return await broker.groups.ask(
            group_id,
            lambda shard, _: CoordinatorResult(
                consumers.describe(shard.groups.get(group_id), group_id)
            ),
        )
    except BrokerError as e:
        return DescribedConsumerGroup(group_id, e.code, e.message)


def _as_seen(group: DescribedConsumerGroup, access: Access) -> DescribedConsumerGroup:
    """As in Kafka 4 (KAFKA-18813), nothing of a group if the client may not describe its topics."""
    topics = {
        topic.topic_name
        for member in group.members
        for topic in (*member.assignment, *member.target_assignment)
    }
    if all(access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic) for topic in sorted(topics)):
        return group
    return DescribedConsumerGroup(
        group.group_id,
        ErrorCode.topic_authorization_failed,
        "The group has described topic(s) that the client is not authorized to describe.",
    )


def _response(group: DescribedConsumerGroup, operations: int) -> DescribedGroup:
    return DescribedGroup(
        error_code=group.error,
        error_message=group.error_message,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=tuple(map(_member, group.members)),
        authorized_operations=operations,
    )


def _member(member: DescribedConsumer) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names,
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(member.assignment),
        target_assignment=_assignment(member.target_assignment),
        member_type=0 if member.uses_classic_protocol else 1,
    )


def _assignment(topics: tuple[DescribedTopic, ...]) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(
                topic_id=topic.topic_id, topic_name=topic.topic_name, partitions=topic.partitions
            )
            for topic in topics
        )
    )
