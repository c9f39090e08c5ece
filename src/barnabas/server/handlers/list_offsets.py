"""ListOffsets (2): the earliest and latest offset of a partition, or the one of a timestamp.

Version notes. Version 0 is another API: see `list_offsets_v0`. The offset of the largest timestamp
can be asked for from version 7, the earliest local offset from 8; the last tiered one, from 9, is
never there. Before version 5 OFFSET_NOT_AVAILABLE was not known, and is sent as
LEADER_NOT_AVAILABLE.

Replicas get offsets of the whole log, consumers those of committed records. A new leader's high
watermark may lag behind the one that the leader before returned to consumers, until its followers
have reached the start of its epoch; until then it returns no offset that may yet go back.
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
from barnabas.base.ids import Offset
from barnabas.base.turns import Turns
from barnabas.replication.reading import Reading
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE

CONSUMER: Final = -1
DEBUGGING: Final = -2  # followers answer this one, too

OFFSET_NOT_AVAILABLE_SINCE: Final = 5

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5

# From which version on each special timestamp means something.
_SINCE: Final = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}

NOT_FOUND: Final = (-1, -1)


async def handle(broker: Broker, request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    turns = Turns()
    named: Counter[tuple[str, int]] = Counter()
    async for topic in turns.each(request.topics):
        async for asked in turns.each(topic.partitions):
            named[topic.name, asked.partition_index] += 1
    return ListOffsetsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            [
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        [
                            _failed(asked, ErrorCode.invalid_request)
                            if named[topic.name, asked.partition_index] > 1
                            else _partition(broker, topic.name, asked, request, call.version)
                            async for asked in turns.each(topic.partitions)
                        ]
                    ),
                )
                async for topic in turns.each(request.topics)
            ]
        ),
    )


def _partition(
    broker: Broker,
    topic: str,
    asked: ListOffsetsPartition,
    request: ListOffsetsRequest,
    version: int,
) -> ListOffsetsPartitionResponse:
    try:
        if asked.timestamp < 0 and version < _SINCE.get(asked.timestamp, version + 1):
            raise BrokerError(ErrorCode.unsupported_version)
        reading, epoch_start = replica(broker, topic, asked.partition_index, request.replica_id)
        reading.check_epoch(asked.current_leader_epoch)
        upto = reading.log.log_end_offset
        if request.replica_id == CONSUMER:
            committed = reading.high_watermark
            upto = reading.last_stable_offset if request.isolation_level == 1 else committed
            if epoch_start > committed and _may_go_back(reading, asked.timestamp, upto):
                raise BrokerError(_not_available(version))
        timestamp, offset = _find(reading, asked.timestamp, upto)
    except BrokerError as e:
        return _failed(asked, e.code)
    except DiskFault as fault:
        broker.failures.disk_failed(fault)
        return _failed(asked, ErrorCode.kafka_storage_error)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=ErrorCode.none,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=_epoch(reading, asked.timestamp, offset),
    )


def replica(broker: Broker, topic: str, partition: int, replica_id: int) -> tuple[Reading, Offset]:
    """The replica that answers, and the start of the leader's epoch, below which all is known."""
    follower = broker.replicas.follower(topic, partition)
    if replica_id == DEBUGGING and follower is not None:
        return Reading(follower.log, follower.high_watermark, follower.epoch), Offset(0)
    leader = broker.replicas.leader(topic, partition)
    return leader.reading, leader.epoch_start_offset


def _may_go_back(reading: Reading, timestamp: int, upto: Offset) -> bool:
    """True if the answer for a consumer is bounded by a high watermark that lags."""
    if timestamp in (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED):
        return False
    return timestamp == LATEST or _find(reading, timestamp, upto) == NOT_FOUND


def _not_available(version: int) -> ErrorCode:
    if version >= OFFSET_NOT_AVAILABLE_SINCE:
        return ErrorCode.offset_not_available
    return ErrorCode.leader_not_available


def _failed(asked: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    timestamp, offset = NOT_FOUND
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, error_code=code, timestamp=timestamp, offset=offset
    )


def _epoch(reading: Reading, timestamp: int, offset: int) -> int:
    """The epoch that wrote the offset; at the end of the log that is the leader's own."""
    if timestamp == LATEST or offset >= reading.log.log_end_offset:
        return reading.leader_epoch
    return reading.log.epochs.epoch_for_offset(offset)


def _find(reading: Reading, timestamp: int, upto: Offset) -> tuple[int, int]:
    """Timestamp and offset, as they are sent; (-1, -1) if there is none below `upto`."""
    log = reading.log
    if timestamp == LATEST:
        return -1, upto
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset
    if timestamp == LATEST_TIERED:
        return NOT_FOUND
    if timestamp == MAX_TIMESTAMP:
        found = log.max_timestamp_offset()
    else:
        found = log.offset_for_timestamp(timestamp)
    if found is None or found.offset >= upto:
        return NOT_FOUND
    return found.timestamp, found.offset
