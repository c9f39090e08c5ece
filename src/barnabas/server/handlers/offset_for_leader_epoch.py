"""OffsetForLeaderEpoch (23): where an epoch ended, so that others can tell where they part."""

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
from barnabas.replication.leader import LeaderReplica
from barnabas.server.broker import Broker
from barnabas.server.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


def handle(
    broker: Broker, request: OffsetForLeaderEpochRequest, _: Call
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    _partition(broker, topic.topic, asked) for asked in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _partition(broker: Broker, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        leader = broker.replicas.leader(topic, asked.partition)
        leader.check_epoch(asked.current_leader_epoch)
    except BrokerError as e:
        return EpochEndOffset(error_code=e.code, partition=asked.partition)
    epoch, end = _end(leader, asked.leader_epoch)
    return EpochEndOffset(
        error_code=ErrorCode.none, partition=asked.partition, leader_epoch=epoch, end_offset=end
    )


def _end(leader: LeaderReplica, epoch: int) -> tuple[int, int]:
    """Where `epoch` ended, as if the leader's own had begun in the log when it began to lead.

    The log knows of an epoch only from its first record on. Clients hear of it earlier, with the
    end of the log, and must not take an epoch without records for one whose records were lost.
    """
    written = leader.log.epochs.latest
    if epoch == leader.epoch:
        return epoch, leader.log.log_end_offset
    if written < epoch < leader.epoch:
        return (epoch if written < 0 else written), leader.log.log_end_offset
    return leader.log.end_offset_for_epoch(LeaderEpoch(epoch))
