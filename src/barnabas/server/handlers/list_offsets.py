"""ListOffsets (2): the earliest and latest offset of a partition, or the one of a timestamp.

Version notes. The offset of the largest timestamp can be asked for from version 7, the
earliest local offset from 8; the last tiered one, from 9, is never there.
"""

from collections import Counter
from typing import Final

from kio.schema.list_offsets.v9.request import ListOffsetsPartition, ListOffsetsRequest
from kio.schema.list_offsets.v9.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.replication.leader import LeaderReplica
from barnabas.server.broker import Broker
from barnabas.server.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5

# From which version on each special timestamp means something.
_SINCE: Final = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}

NOT_FOUND: Final = (-1, -1)


def handle(broker: Broker, request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    read_committed = request.isolation_level == 1
    named = Counter(
        (topic.name, asked.partition_index)
        for topic in request.topics
        for asked in topic.partitions
    )
    return ListOffsetsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    _failed(asked, ErrorCode.invalid_request)
                    if named[topic.name, asked.partition_index] > 1
                    else _partition(broker, topic.name, asked, read_committed, call.version)
                    for asked in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _partition(
    broker: Broker, topic: str, asked: ListOffsetsPartition, read_committed: bool, version: int
) -> ListOffsetsPartitionResponse:
    try:
        if asked.timestamp < 0 and version < _SINCE.get(asked.timestamp, version + 1):
            raise BrokerError(ErrorCode.unsupported_version)
        leader = broker.replicas.leader(topic, asked.partition_index)
        leader.check_epoch(asked.current_leader_epoch)
        timestamp, offset = _find(leader, asked.timestamp, read_committed)
    except BrokerError as e:
        return _failed(asked, e.code)
    except DiskFault as fault:
        broker.disk_failed(fault)
        return _failed(asked, ErrorCode.kafka_storage_error)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=ErrorCode.none,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=_epoch(leader, asked.timestamp, offset),
    )


def _failed(asked: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    timestamp, offset = NOT_FOUND
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, error_code=code, timestamp=timestamp, offset=offset
    )


def _epoch(leader: LeaderReplica, timestamp: int, offset: int) -> int:
    """The epoch that wrote the offset; at the end of the log that is the leader's own."""
    if timestamp == LATEST or offset >= leader.log.log_end_offset:
        return leader.epoch
    return leader.log.epochs.epoch_for_offset(offset)


def _find(leader: LeaderReplica, timestamp: int, read_committed: bool) -> tuple[int, int]:
    """Timestamp and offset, as the client is told them; (-1, -1) if there is none."""
    upto = leader.last_stable_offset if read_committed else leader.high_watermark
    if timestamp == LATEST:
        return -1, upto
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, leader.log.log_start_offset
    if timestamp == LATEST_TIERED:
        return NOT_FOUND
    if timestamp == MAX_TIMESTAMP:
        found = leader.log.max_timestamp_offset()
    else:
        found = leader.log.offset_for_timestamp(timestamp)
    if found is None or found.offset >= upto:
        return NOT_FOUND
    return found.timestamp, found.offset
