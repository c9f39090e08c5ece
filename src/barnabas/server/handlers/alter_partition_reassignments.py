"""AlterPartitionReassignments (45): partitions move to other brokers, or stay after all."""

from itertools import groupby
from typing import Final

from kio.schema.alter_partition_reassignments.v0.request import AlterPartitionReassignmentsRequest
from kio.schema.alter_partition_reassignments.v0.response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.decide.steps import ApiError
from barnabas.controller.events import AlterReassignments
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE

DONE: Final = ApiError(ErrorCode.none)


async def handle(
    broker: Broker, request: AlterPartitionReassignmentsRequest, _: Call
) -> AlterPartitionReassignmentsResponse:
    targets = {
        TopicPartition(topic.name, wanted.partition_index): None
        if wanted.replicas is None
        else tuple(map(BrokerId, wanted.replicas))
        for topic in request.topics
        for wanted in topic.partitions
    }
    try:
        answers = await broker.controller.ask(AlterReassignments(targets))
    except BrokerError as e:
        return AlterPartitionReassignmentsResponse(
            throttle_time=NO_THROTTLE, error_code=e.code, error_message=e.message, responses=()
        )
    return AlterPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic,
                partitions=tuple(
                    ReassignablePartitionResponse(
                        partition_index=partition.partition, error_code=code, error_message=message
                    )
                    for partition in partitions
                    for code, message in [answers[partition] or DONE]
                ),
            )
            for topic, partitions in groupby(sorted(answers), key=lambda each: each.topic)
        ),
    )
