"""The work of a read task: fetches a range of offsets and decodes its records into columns."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from barnabas.base.errors import BrokerError
from barnabas.spark.source.offset_ranges import OffsetRange
from barnabas.spark.source.partition_fetcher import PartitionFetcher
from barnabas.spark.source.record_decoder import LEAST_LONG, MOST_LONG, ColumnBuffers, Columns
from barnabas.spark.source.source_options import SourceOptions
from barnabas.spark.user_errors import SparkFailure
from barnabas.wire.records.batch import HEADER_SIZE, MAGIC, BatchHeader, check_crc
from barnabas.wire.records.compression import decompress

_ARROW_BYTES: Final = 8 * 1024 * 1024


class TimeRange(NamedTuple):
    """The timestamps to read, in milliseconds; both ends inclusive."""

    earliest: int = LEAST_LONG
    latest: int = MOST_LONG


ALL_TIMES: Final = TimeRange()


def read_range(
    wanted: OffsetRange, options: SourceOptions, times: TimeRange
) -> Iterator[ColumnBuffers]:
    """Yield the records of the range in order, some megabytes at a time.

    Raises  DataLoss if records are lost and `failOnDataLoss` is not false
            SparkFailure if records cannot be fetched or are corrupt
    """
    check_crcs = options.kafka.get("check.crcs", "true").lower() != "false"
    with PartitionFetcher(wanted, options) as fetcher:
        start, columns = wanted.start, _columns(wanted.start, wanted, options, times)
        for batches in fetcher:
            if fetcher.start != start:
                start, columns = fetcher.start, _columns(fetcher.start, wanted, options, times)
            for header, batch in batches:
                _append(columns, header, batch, wanted, check_crcs)
                if columns.size > _ARROW_BYTES:
                    yield columns.take()
            if columns.rows:
                yield columns.take()


def _columns(start: int, wanted: OffsetRange, options: SourceOptions, times: TimeRange) -> Columns:
    return Columns(start, wanted.end, *times, options.include_headers)


def _append(
    columns: Columns, header: BatchHeader, batch: memoryview, at: OffsetRange, check_crcs: bool
) -> None:
    try:
        if header.magic != MAGIC:
            raise ValueError(
                f"it has magic {header.magic}, the format of brokers before Kafka 0.11"
            )
        if check_crcs and not check_crc(batch):
            raise ValueError("its CRC is wrong")
        payload = batch[HEADER_SIZE:]
        log_append_time = header.log_append_time
        columns.append(
            decompress(header.codec, payload) if header.codec else payload,
            header.base_offset,
            header.max_timestamp if log_append_time else header.base_timestamp,
            log_append_time,
            header.record_count,
        )
    except (ValueError, BrokerError) as failure:
        raise SparkFailure(
            f"the batch at offset {header.base_offset} of {at.partition} cannot be read: {failure}"
        ) from None
