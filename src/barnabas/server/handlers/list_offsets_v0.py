"""ListOffsets (2) version 0, of Kafka 0.8: where segments begin, up to so many before a time.

The times are those of the segments' files. Later versions find records by their own timestamps:
see `list_offsets`.
"""

from itertools import dropwhile

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.turns import Turns
from barnabas.replication.reading import Reading
from barnabas.server.broker import Broker
from barnabas.server.handlers.list_offsets import CONSUMER, EARLIEST, LATEST, replica
from barnabas.server.requests.dispatch import Call
from barnabas.wire.old_schemas import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)


async def handle(broker: Broker, _: object, call: Call) -> ListOffsetsResponse:
    sent: ListOffsetsRequest = call.sent
    turns = Turns()
    return ListOffsetsResponse(
        topics=tuple(
            [
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        [
                            _partition(broker, topic.name, asked, sent.replica_id)
                            async for asked in turns.each(topic.partitions)
                        ]
                    ),
                )
                async for topic in turns.each(sent.topics)
            ]
        )
    )


def _partition(
    broker: Broker, topic: str, asked: ListOffsetsPartition, replica_id: int
) -> ListOffsetsPartitionResponse:
    code = ErrorCode.none
    offsets: tuple[int, ...] = ()
    try:
        if asked.timestamp < EARLIEST:
            raise BrokerError(ErrorCode.unsupported_version)
        reading, _ = replica(broker, topic, asked.partition_index, replica_id)
        offsets = _offsets_before(reading, asked, broker.clock.now_ms())
        if replica_id == CONSUMER:
            offsets = _committed(offsets, reading.high_watermark)
    except BrokerError as e:
        code = e.code
    except DiskFault as fault:
        broker.failures.disk_failed(fault)
        code = ErrorCode.kafka_storage_error
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, error_code=code, old_style_offsets=offsets
    )


def _offsets_before(reading: Reading, asked: ListOffsetsPartition, now_ms: int) -> tuple[int, ...]:
    """The first offsets of the segments up to the time that is asked for, the latest first."""
    log = reading.log
    begins = [(max(s.base_offset, log.log_start_offset), s.modified_ms) for s in log.segments]
    if log.segments[-1].size:
        begins.append((log.log_end_offset, now_ms))
    if asked.timestamp == EARLIEST:
        del begins[1:]
    elif asked.timestamp != LATEST:
        while begins and begins[-1][1] > asked.timestamp:
            del begins[-1]
    found = [offset for offset, _ in reversed(begins)]
    return tuple(found[: max(asked.max_num_offsets, 0)])


def _committed(offsets: tuple[int, ...], high_watermark: int) -> tuple[int, ...]:
    """The same for a consumer: the high watermark stands for all that lies beyond it."""
    rest = tuple(dropwhile(lambda offset: offset > high_watermark, offsets))
    return offsets if len(rest) == len(offsets) else (high_watermark, *rest)
