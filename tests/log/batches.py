"""Batches, disks and logs for the tests of this directory."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from barnabas.base.ids import LeaderEpoch, Offset, TopicPartition
from barnabas.base.randomness import Random
from barnabas.config.topic_config import TopicConfig
from barnabas.disk.disk import Disk, RealDisk
from barnabas.log.log import Appended, Log
from barnabas.log.producers.producer_state import ProducerStates
from barnabas.log.recovery.log_loader import Opening, open_log
from barnabas.log.segment.file_slice import FileSlice
from barnabas.wire.records.batch import HEADER_SIZE, BatchHeader, headers, read_header, set_crc
from barnabas.wire.records.records import Record, build_batch

NOW = 1_700_000_000_000
PARTITION = TopicPartition("orders", 0)
# Small enough for a test to see every rule at work.
CONFIG = replace(
    TopicConfig(), segment_bytes=4096, segment_index_bytes=1200, index_interval_bytes=200
)


def batch_of(count: int = 1, *, value: bytes = b"value", timestamp: int = NOW) -> memoryview:
    """A batch as a producer sends it; its records are a millisecond apart."""
    records = [Record(n, timestamp + n, b"key", value, ()) for n in range(count)]
    return memoryview(bytearray(build_batch(records)))


def open_partition(
    disk: Disk | Path,
    config: TopicConfig = CONFIG,
    *,
    clean: bool = True,
    recovery_point: int | None = None,
    log_start_offset: int = 0,
    first_dirty_offset: int | None = None,
) -> Log:
    disk = disk if not isinstance(disk, Path) else RealDisk(str(disk))
    disk.make_dir(str(PARTITION))
    return open_log(
        disk,
        Opening(PARTITION, config, clean, recovery_point, log_start_offset, first_dirty_offset),
        producers=ProducerStates(86_400_000),
        random=Random(1),
        now_ms=NOW,
    )


def batch_with_repeated_offset() -> memoryview:
    """Two records with the offset delta 0: Kafka and earlier brokers acknowledge them."""
    batch = batch_of(2, value=b"v")
    second = HEADER_SIZE + 1 + (batch[HEADER_SIZE] >> 1)
    assert batch[second + 3] == 2
    batch[second + 3] = 0
    set_crc(batch)
    return batch


def append(log: Log, batch: memoryview | None = None, *, epoch: int = 0) -> Appended:
    batch = batch if batch is not None else batch_of()
    return log.append(batch, read_header(batch), LeaderEpoch(epoch), NOW)


def fill(log: Log, batches: int, *, count: int = 1, value: bytes = b"value" * 10) -> list[bytes]:
    """Append `batches` batches; returns their bytes as they were written."""
    written = []
    for number in range(batches):
        batch = batch_of(count, value=value, timestamp=NOW + number * 10)
        append(log, batch)
        written.append(bytes(batch))
    return written


def names(log: Log, suffix: str) -> list[str]:
    """Of the log's files that end so."""
    return [name for name in log.disk.list(str(PARTITION)) if name.endswith(suffix)]


def content(extent: FileSlice) -> bytes:
    """The bytes of an extent; both ways to them must agree."""
    data = extent.load()
    warm = extent.warm()
    assert warm is None or bytes(warm) == data
    return data


def read_all(log: Log, from_offset: int | None = None) -> list[bytes]:
    """All batches from an offset on, as a consumer reads them."""
    return [data for _, data in read_batches(log, from_offset)]


def read_batches(log: Log, from_offset: int | None = None) -> Iterator[tuple[BatchHeader, bytes]]:
    offset = log.log_start_offset if from_offset is None else Offset(from_offset)
    while extent := log.locate(offset, 1000, log.log_end_offset, minimum_one=True):
        data = content(extent)
        if not data:
            return
        for position, header in headers(data):
            yield header, data[position : position + header.size]
            offset = Offset(header.next_offset)
