"""The record batches of a task's rows, ready for the sender."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from barnabas.base.clock import Clock
from barnabas.base.ids import NO_LEADER_EPOCH, NO_PRODUCER_ID
from barnabas.spark.sink.record_encoder import Payload, RecordEncoder, WrongPartition
from barnabas.spark.sink.sink_options import SinkOptions
from barnabas.spark.sink.sink_rows import ArrowBatch, SinkColumns
from barnabas.spark.source.source_options import TopicPartition
from barnabas.spark.user_errors import SparkFailure
from barnabas.wire.records.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC, NO_SEQUENCE
from barnabas.wire.records.compression import Codec, compress

_NO_EPOCH: Final = -1


class SinkBatch(NamedTuple):
    """A batch for one partition; the sender sets its producer id, sequence and CRC."""

    partition: TopicPartition
    batch: bytearray
    record_count: int


def batches(
    rows: Iterable[ArrowBatch],
    columns: SinkColumns,
    options: SinkOptions,
    partition_count: Callable[[str], int],
    clock: Clock,
    first: int,
) -> Iterator[SinkBatch]:
    """Yield the batches of all rows; rows without partition and key start at partition `first`.

    Raises  SparkFailure at a row that names a partition that does not exist
    """
    encoders: dict[str, RecordEncoder] = {}
    for arrow in rows:
        for topic, part in columns.by_topic(arrow):
            if topic not in encoders:
                encoders[topic] = RecordEncoder(partition_count(topic), options.batch_bytes, first)
            try:
                full = encoders[topic].append(*part, clock.now_ms())
            except WrongPartition as wrong:
                raise SparkFailure(
                    f"a row names a partition that topic {topic} does not have: {wrong}"
                ) from None
            for payload in full:
                yield _batch(topic, payload, options.codec)
    for topic, encoder in encoders.items():
        for payload in encoder.take():
            yield _batch(topic, payload, options.codec)


def _batch(topic: str, payload: Payload, codec: Codec) -> SinkBatch:
    records = compress(codec, payload.records) if codec else payload.records
    batch = bytearray(HEADER_SIZE)
    HEADER.pack_into(
        batch,
        0,
        0,
        HEADER_SIZE - LOG_OVERHEAD + len(records),
        NO_LEADER_EPOCH,
        MAGIC,
        0,
        codec,
        payload.record_count - 1,
        payload.base_timestamp,
        payload.max_timestamp,
        NO_PRODUCER_ID,
        _NO_EPOCH,
        NO_SEQUENCE,
        payload.record_count,
    )
    batch += records
    return SinkBatch(TopicPartition(topic, payload.partition), batch, payload.record_count)
