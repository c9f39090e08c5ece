"""ListPartitionReassignments (46): which partitions are moving, from where to where."""

from itertools import groupby

from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.controller.events import ListReassignments
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(
    broker: Broker, request: ListPartitionReassignmentsRequest, _: Call
) -> ListPartitionReassignmentsResponse:
    asked = None
    if request.topics is not None:
        asked = tuple(
            TopicPartition(topic.name, index)
            for topic in request.topics
            for index in topic.partition_indexes
        )
    try:
        moving = await broker.controller.ask(ListReassignments(asked))
    except BrokerError as e:
        return ListPartitionReassignmentsResponse(
            throttle_time=NO_THROTTLE, error_code=e.code, error_message=e.message, topics=()
        )
    return ListPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        topics=tuple(
            OngoingTopicReassignment(
                name=topic,
                partitions=tuple(
                    OngoingPartitionReassignment(
                        partition_index=partition.partition,
                        replicas=moving[partition].replicas,
                        adding_replicas=moving[partition].adding,
                        removing_replicas=moving[partition].removing,
                    )
                    for partition in partitions
                ),
            )
            for topic, partitions in groupby(sorted(moving), key=lambda each: each.topic)
        ),
    )
