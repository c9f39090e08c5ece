"""OffsetForLeaderEpoch (23): the end offset of an epoch, so followers find where logs diverge."""

from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from kio.schema.offset_for_leader_epoch.v4.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import LeaderEpoch
from barnabas.base.turns import Turns
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(
    broker: Broker, request: OffsetForLeaderEpochRequest, _: Call
) -> OffsetForLeaderEpochResponse:
    turns = Turns()
    return OffsetForLeaderEpochResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            [
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=tuple(
                        [
                            _partition(broker, topic.topic, asked)
                            async for asked in turns.each(topic.partitions)
                        ]
                    ),
                )
                async for topic in turns.each(request.topics)
            ]
        ),
    )


def _partition(broker: Broker, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        leader = broker.replicas.leader(topic, asked.partition)
        leader.check_epoch(asked.current_leader_epoch)
    except BrokerError as e:
        return EpochEndOffset(error_code=e.code, partition=asked.partition)
    epoch, end = leader.log.end_offset_for_epoch(LeaderEpoch(asked.leader_epoch))
    return EpochEndOffset(
        error_code=ErrorCode.none, partition=asked.partition, leader_epoch=epoch, end_offset=end
    )
