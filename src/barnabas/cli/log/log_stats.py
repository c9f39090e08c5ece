"""Statistics of a broker's logs: batches, records, codecs, timestamps, producers, keys."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from barnabas.base.errors import BrokerError
from barnabas.cli.log.log_files import BrokerDir
from barnabas.cli.log.segment_dump import SegmentBatch, codec_name, read_batches
from barnabas.cli.show import show_bytes, show_time
from barnabas.wire.records.batch import HEADER_SIZE, BatchHeader
from barnabas.wire.records.compression import Codec, decompress
from barnabas.wire.records.records import read_records

_INDEXES: Final = (".index", ".timeindex", ".txnindex")


@dataclass(slots=True)
class LogStats:
    """Statistics of one partition or of all; those that need `deep` are None without it."""

    name: str
    segments: int = 0
    size: int = 0
    index_bytes: int = 0
    batches: int = 0
    records: int = 0
    unreadable_batches: int = 0
    codecs: Counter[str] = field(default_factory=Counter)  # batches
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    producers: set[int] = field(default_factory=set)
    packed_bytes: int = 0
    unpacked_bytes: int | None = None
    keys: set[int] | None = None  # hashes, to save memory
    tombstones: int | None = None

    def note(self, header: BatchHeader) -> None:
        self.batches += 1
        self.records += header.record_count
        self.codecs[codec_name(header.codec)] += 1
        if header.codec != Codec.NONE:
            self.packed_bytes += header.size - HEADER_SIZE
        if header.producer_id >= 0:
            self.producers.add(header.producer_id)
        if header.max_timestamp >= 0:
            self._reach(header.max_timestamp)
            has_first = not header.has_delete_horizon and not header.log_append_time
            if has_first and header.base_timestamp >= 0:
                self._reach(header.base_timestamp)

    def _reach(self, timestamp: int) -> None:
        if self.first_timestamp is None or timestamp < self.first_timestamp:
            self.first_timestamp = timestamp
        if self.last_timestamp is None or timestamp > self.last_timestamp:
            self.last_timestamp = timestamp

    def note_inside(self, header: BatchHeader, data: bytes) -> None:
        """Raises  BrokerError, nothing counted, if the batch cannot be read"""
        records = read_records(data)
        if header.codec != Codec.NONE:
            unpacked = decompress(header.codec, memoryview(data)[HEADER_SIZE:])
            self.unpacked_bytes = (self.unpacked_bytes or 0) + len(unpacked)
        keys = self.keys if self.keys is not None else set()
        if not header.is_control:
            keys.update(hash(record.key) for record in records if record.key is not None)
            gone = sum(record.value is None and record.key is not None for record in records)
            self.tombstones = (self.tombstones or 0) + gone
        self.keys = keys

    @property
    def average_batch(self) -> int | None:
        return round(self.size / self.batches) if self.batches else None

    @property
    def ratio(self) -> float | None:
        """Uncompressed size divided by compressed size, of the compressed batches."""
        if self.unpacked_bytes is None or not self.packed_bytes:
            return None
        return round(self.unpacked_bytes / self.packed_bytes, 2)

    def as_json(self) -> dict[str, Any]:
        return {
            "partition": self.name,
            "segments": self.segments,
            "bytes": self.size,
            "index_bytes": self.index_bytes,
            "batches": self.batches,
            "records": self.records,
            "unreadable_batches": self.unreadable_batches,
            "average_batch_bytes": self.average_batch,
            "batches_by_codec": dict(sorted(self.codecs.items())),
            "compression_ratio": self.ratio,
            "first_timestamp": self.first_timestamp,
            "last_timestamp": self.last_timestamp,
            "producers": len(self.producers),
            "keys": None if self.keys is None else len(self.keys),
            "tombstones": self.tombstones,
        }

    def row(self, deep: bool) -> list[object]:
        """The cells of a table, in the order of `columns`."""
        inside = [
            None if self.ratio is None else f"{self.ratio}x",
            None if self.keys is None else len(self.keys),
            self.tombstones,
        ]
        return [
            self.name,
            self.segments,
            self.records,
            self.batches,
            show_bytes(self.size),
            None if self.average_batch is None else show_bytes(self.average_batch),
            ", ".join(f"{codec} {count}" for codec, count in sorted(self.codecs.items())) or None,
            *(inside if deep else ()),
            _time(self.first_timestamp),
            _time(self.last_timestamp),
            len(self.producers),
            show_bytes(self.index_bytes),
        ]


def columns(deep: bool) -> list[str]:
    inside = ("RATIO", "KEYS", "TOMBSTONES") if deep else ()
    before = ("PARTITION", "SEGMENTS", "RECORDS", "BATCHES", "SIZE", "PER BATCH", "CODECS")
    return [*before, *inside, "FROM", "TO", "PRODUCERS", "INDEXES"]


def _time(timestamp: int | None) -> str | None:
    return None if timestamp is None else show_time(timestamp)


def count_partition(
    directory: BrokerDir,
    deep: bool,
    advance: Callable[[int], None],
    on_unreadable: Callable[[OSError], None],
) -> LogStats:
    """Read all segments of a partition, as far as they are readable.

    Unreadable files are skipped and reported to `on_unreadable`.
    """
    stats = LogStats(directory.path.name)
    for suffix in (".log", *_INDEXES):
        for path in directory.files(suffix):
            try:
                if suffix == ".log":
                    _count_segment(path, stats, deep, advance)
                else:
                    # The preallocated end of an active index is sparse.
                    stats.index_bytes += len(path.read_bytes().rstrip(b"\0"))
            except FileNotFoundError:
                pass  # deleted by retention of a running broker
            except OSError as error:
                error.filename = error.filename or str(path)
                on_unreadable(error)
    return stats


def _count_segment(path: Path, stats: LogStats, deep: bool, advance: Callable[[int], None]) -> None:
    with path.open("rb") as file:
        stats.segments += 1
        for found in read_batches(file, path.stat().st_size):
            if not isinstance(found, SegmentBatch):
                continue
            stats.size += found.header.size
            stats.note(found.header)
            if deep:
                try:
                    stats.note_inside(found.header, found.data)
                except BrokerError:
                    stats.unreadable_batches += 1
            advance(found.header.size)


def total(all_stats: Sequence[LogStats]) -> LogStats:
    """The sum over all partitions; a key in two partitions counts twice, a producer once."""
    summed = LogStats("total")
    for each in all_stats:
        summed.segments += each.segments
        summed.size += each.size
        summed.index_bytes += each.index_bytes
        summed.batches += each.batches
        summed.records += each.records
        summed.unreadable_batches += each.unreadable_batches
        summed.packed_bytes += each.packed_bytes
        summed.codecs.update(each.codecs)
        summed.producers |= each.producers
        for timestamp in (each.first_timestamp, each.last_timestamp):
            if timestamp is not None:
                summed._reach(timestamp)
    summed.unpacked_bytes = _sum(each.unpacked_bytes for each in all_stats)
    summed.tombstones = _sum(each.tombstones for each in all_stats)
    if any(each.keys is not None for each in all_stats):
        summed.keys = {hash((each.name, key)) for each in all_stats for key in each.keys or ()}
    return summed


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
