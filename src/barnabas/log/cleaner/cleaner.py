"""One pass of compaction over one log: it maps the keys, then rewrites the segments.

The loop creates a Cleaning. Its iterators are work for a thread: each step reads, and maybe
writes, about one buffer, and yields the number of bytes. Between steps the owner is on the loop
again, where it can throttle the pass, or stop it if the log has dropped it.

    map_keys      the dirty part of the log into the offset map, as far as that has room
    clean(group)  segments into `.cleaned` ones, which a Swap puts in their place; in the order
                  of the log, so that no tombstone goes before the record that it deletes
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from barnabas.config.topic_config import TopicConfig
from barnabas.disk.disk import Disk
from barnabas.log.cleaner.cleaned_segments import CleanedSegments
from barnabas.log.cleaner.cleaned_transactions import CleanedTransactions
from barnabas.log.cleaner.offset_map import OffsetMap
from barnabas.log.cleaner.record_filter import FilterStatistics, RecordFilter
from barnabas.log.producers.producer_state import LastRecord
from barnabas.log.segment.segment import LOG, Segment
from barnabas.log.segment.transaction_index import AbortedTransaction, decode_aborted
from barnabas.wire.records.batch import MAGIC, BatchHeader, check_crc, headers, read_header
from barnabas.wire.records.record_slices import slice_records
from barnabas.wire.records.records import corrupt

_MAX_RELATIVE: Final = 2**31 - 1


@dataclass(slots=True)
class CleaningStatistics:
    """The statistics of one pass so far."""

    bytes_read: int = 0
    bytes_written: int = 0
    map_utilization: float = 0.0
    records: FilterStatistics = field(default_factory=FilterStatistics)


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """The state of the log when a pass begins, as the loop sees it."""

    disk: Disk
    directory: str
    config: TopicConfig
    segments: Sequence[Segment]  # those that may be cleaned, from the first of the log
    first_dirty_offset: int
    first_dirty_position: int  # at or before it, in the segment that holds it
    first_uncleanable_offset: int  # where the first segment begins that may not be cleaned
    transaction_indexes: Sequence[str]  # of all segments: markers may lie beyond
    last_records: Mapping[int, LastRecord]
    now_ms: int


class Cleaning:
    """The pass itself. `end_offset` is up to where it cleans, known once the keys are mapped."""

    def __init__(self, plan: CleaningPlan, offset_map: OffsetMap, buffer_bytes: int) -> None:
        self.plan = plan
        self.end_offset = plan.first_dirty_offset
        self.statistics = CleaningStatistics()
        self.cleaned: CleanedSegments | None = None
        self._map = offset_map
        self._buffer_bytes = buffer_bytes
        self._aborted: list[AbortedTransaction] = []
        self._transactions = CleanedTransactions(())
        self._filter: RecordFilter | None = None

    # Mapping

    def map_keys(self) -> Iterator[int]:
        """Note the last offset of each key from the first dirty offset on.

        Raises  BrokerError(corrupt_message, unsupported_compression_type), DiskFault
        """
        plan = self.plan
        for path in plan.transaction_indexes:
            self._aborted += decode_aborted(plan.disk.load(path) or b"")
        start = plan.first_dirty_offset
        transactions = CleanedTransactions(e for e in self._aborted if e.last_offset >= start)
        position = plan.first_dirty_position
        for segment in plan.segments:
            if segment.end_offset > start:
                for batches, size in self._chunks(segment, position):
                    if not all(self._map_batch(transactions, *batch) for batch in batches):
                        return
                    yield size
                self.end_offset = segment.end_offset
                position = 0

    def _map_batch(
        self, transactions: CleanedTransactions, header: BatchHeader, batch: memoryview
    ) -> bool:
        """True if all keys fit the map; `end_offset` is past those that did."""
        can_discard = transactions.can_discard(header, batch.tobytes)
        if not header.is_control and not can_discard:
            put, start = self._map.put, self.plan.first_dirty_offset
            for record in slice_records(batch, header)[1]:
                offset, key = record.offset, record.key
                if key is not None and offset >= start and not put(key, offset):
                    self.end_offset = offset
                    return False
        self.end_offset = max(self.end_offset, header.next_offset)
        return True

    # Cleaning

    def groups(self) -> list[list[Segment]]:
        """The segments to clean, after the keys are mapped; each group becomes one segment."""
        plan = self.plan
        self.statistics.map_utilization = self._map.utilization
        self._transactions = CleanedTransactions(self._aborted)
        self._filter = RecordFilter(
            self._map,
            self.end_offset,
            self._transactions,
            plan.last_records,
            plan.now_ms,
            plan.config.delete_retention_ms,
        )
        self.statistics.records = self._filter.statistics
        reached = [segment for segment in plan.segments if segment.base_offset < self.end_offset]
        return group_segments(reached, plan.config)

    def clean(self, group: Sequence[Segment]) -> Iterator[int]:
        """Write the records of a group that stay; `cleaned` holds them, flushed, when this ends.

        Raises  BrokerError(corrupt_message, unsupported_compression_type), DiskFault
        """
        plan = self.plan
        assert self._filter is not None, "keys are mapped first"
        last_kept = base_offset = group[0].base_offset
        cleaned = CleanedSegments(plan.disk, plan.directory, plan.config, base_offset, plan.now_ms)
        self.cleaned = cleaned
        for segment in group:
            for batches, size in self._chunks(segment, 0):
                kept = [left for batch in batches if (left := self._filter.apply(*batch))]
                cleaned.add_aborted(self._transactions.take_kept())
                for left in kept:
                    cleaned.append(left)
                    last_kept = segment.base_offset
                written = sum(map(len, kept))
                self.statistics.bytes_read += size
                self.statistics.bytes_written += written
                yield size + written
        cleaned.finish(group, last_kept)

    def take_cleaned(self) -> list[Segment]:
        """Return the segments that `clean` wrote, for the log to swap in."""
        assert self.cleaned is not None, "a group is cleaned first"
        segments, self.cleaned = self.cleaned.segments, None
        return segments

    def discard(self) -> None:
        """Remove the cleaned files that were not swapped into the log."""
        if self.cleaned is not None:
            self.cleaned.discard()

    def _chunks(
        self, segment: Segment, position: int
    ) -> Iterator[tuple[list[tuple[BatchHeader, memoryview]], int]]:
        """The batches from `position` on, about a buffer of them at a time, and their size."""
        # A second open file: the segment's own belongs to the loop.
        file = self.plan.disk.open(segment.path(LOG))
        while position < segment.size:
            left = segment.size - position
            chunk = memoryview(file.read(position, min(self._buffer_bytes, left)))
            size = read_header(chunk).size
            if len(chunk) < size <= left:
                chunk = memoryview(file.read(position, size))
            batches = [
                (header, _checked(chunk[at : at + header.size], header, segment, position + at))
                for at, header in headers(chunk)
            ]
            if not batches:
                raise corrupt(f"{segment.path(LOG)} ends within the batch at byte {position}")
            size = sum(header.size for header, _ in batches)
            yield batches, size
            position += size


def _checked(batch: memoryview, header: BatchHeader, segment: Segment, position: int) -> memoryview:
    if header.magic != MAGIC or not check_crc(batch):
        raise corrupt(f"{segment.path(LOG)} is damaged in the batch at byte {position}")
    return batch


def group_segments(segments: Sequence[Segment], config: TopicConfig) -> list[list[Segment]]:
    """Group consecutive segments that fit one segment by bytes, index entries and offsets."""
    groups: list[list[Segment]] = []
    size = entries = 0
    for segment in segments:
        more = max(segment.offset_index.entries, segment.time_index.entries)
        if (
            groups
            and size + segment.size <= config.segment_bytes
            and entries + more < segment.time_index.max_entries
            and segment.end_offset - groups[-1][0].base_offset <= _MAX_RELATIVE
        ):
            groups[-1].append(segment)
            size, entries = size + segment.size, entries + more
        else:
            groups.append([segment])
            size, entries = segment.size, more
    return groups
