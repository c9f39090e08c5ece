"""DescribeProducers (61): the producers that a partition knows, with their open transactions.

A follower answers, too, from its own log.
"""

from kio.schema.describe_producers.v0.request import DescribeProducersRequest
from kio.schema.describe_producers.v0.response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.base.turns import Turns
from barnabas.log.producers.producer_state import ProducerStates
from barnabas.server.broker import Broker
from barnabas.server.cluster.topic_names import check_topic_name
from barnabas.server.requests.dispatch import Call
from barnabas.wire.records.batch import NO_SEQUENCE
from barnabas.wire.schema import NO_THROTTLE


async def handle(
    broker: Broker, request: DescribeProducersRequest, _: Call
) -> DescribeProducersResponse:
    turns = Turns()
    described: set[TopicPartition] = set()
    return DescribeProducersResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            [
                TopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        [
                            _once(broker, TopicPartition(topic.name, index), described)
                            async for index in turns.each(topic.partition_indexes)
                        ]
                    ),
                )
                async for topic in turns.each(request.topics)
            ]
        ),
    )


def _once(
    broker: Broker, partition: TopicPartition, described: set[TopicPartition]
) -> PartitionResponse:
    """A partition that is named again is refused: it may have many producers."""
    if partition in described:
        return PartitionResponse(
            partition_index=partition.partition,
            error_code=ErrorCode.invalid_request,
            error_message="Found multiple entries for this partition.",
            active_producers=(),
        )
    described.add(partition)
    return _partition(broker, partition)


def _partition(broker: Broker, partition: TopicPartition) -> PartitionResponse:
    code, message = ErrorCode.none, None
    active: tuple[ProducerState, ...] = ()
    try:
        check_topic_name(partition.topic)
        replica = broker.replicas.get(partition)
        if replica is None:
            raise BrokerError(broker.replicas.why_not(*partition))
        active = _active(replica.log.producers)
    except BrokerError as e:
        code, message = e.code, e.message
    return PartitionResponse(
        partition_index=partition.partition,
        error_code=code,
        error_message=message,
        active_producers=active,
    )


def _active(states: ProducerStates) -> tuple[ProducerState, ...]:
    return tuple(
        ProducerState(
            producer_id=producer_id,
            producer_epoch=state.producer_epoch,
            last_sequence=state.batches[-1].last_sequence if state.batches else NO_SEQUENCE,
            last_timestamp=state.last_timestamp,
            coordinator_epoch=state.coordinator_epoch,
            current_txn_start_offset=state.current_txn_first_offset,
        )
        for producer_id, state in states.producers.items()
    )
