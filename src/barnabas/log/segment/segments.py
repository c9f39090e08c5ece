"""The segments of one log, in order; the last, the active one, is appended to."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from barnabas.base.errors import BrokerError
from barnabas.base.randomness import Random
from barnabas.config.topic_config import TopicConfig
from barnabas.disk.disk import Disk
from barnabas.log.producers.producer_state import CompletedTransaction
from barnabas.log.segment.file_slice import NOTHING, FileSlice
from barnabas.log.segment.segment import SEGMENT_FILES, SNAPSHOT, Segment, TimestampOffset
from barnabas.log.segment.transaction_index import AbortedTransaction
from barnabas.wire.records.batch import BatchHeader

DELETED: Final = ".deleted"


class Segments:
    """At least one segment. Base offsets rise; nothing is known to lie between two of them."""

    def __init__(self, disk: Disk, segments: Sequence[Segment]) -> None:
        self._disk = disk
        self._all = list(segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._all)

    @property
    def active(self) -> Segment:
        return self._all[-1]

    @property
    def first(self) -> Segment:
        return self._all[0]

    def add(self, segment: Segment) -> None:
        """Append `segment`, which becomes the active one."""
        self._all.append(segment)

    def number_of(self, offset: int) -> int:
        """The index of the segment for `offset`: the last that begins at or before it, or 0."""
        after = bisect_right(self._all, offset, key=lambda segment: segment.base_offset)
        return max(after - 1, 0)

    def holding(self, offset: int) -> Segment:
        """The segment that holds `offset`, if any does."""
        return self._all[self.number_of(offset)]

    def locate(self, offset: int, max_bytes: int, upto: int, minimum_one: bool) -> FileSlice:
        """As Segment.locate, in the first segment that has something at or beyond `offset`."""
        for segment in self._all[self.number_of(offset) :]:
            extent = segment.locate(offset, max_bytes, upto, minimum_one)
            if extent is not None:
                return extent
        return NOTHING

    def produced(self, from_offset: int) -> Iterator[tuple[BatchHeader, Callable[[], bytes]]]:
        """Each batch with a producer id from `from_offset` on: its header, a way to the rest."""
        for segment in self._all[self.number_of(from_offset) :]:
            with suppress(BrokerError):  # skip the rest of a damaged segment
                for position, header in segment.headers_for(from_offset):
                    if header.producer_id >= 0:
                        yield header, FileSlice(segment.file, position, header.size).load

    def note_aborted(self, completed: CompletedTransaction, *, lacking_only: bool = False) -> None:
        """Add an aborted transaction to the transaction index of its marker's segment.

        `lacking_only`: only if that segment has lost its index.
        """
        segment = self._all[self.number_of(completed.last_offset)]
        if completed.aborted and (segment.lacks_aborted or not lacking_only):
            segment.note_aborted(AbortedTransaction(*completed[:4]))

    def aborted(self, offset: int, upto: int, extent: FileSlice) -> list[AbortedTransaction]:
        """The aborted transactions that reach into an extent read from `offset`, by first offset.

        The marker of one may lie in a later segment: the search ends where the marker of an entry
        left the last stable offset at the end of the extent, or beyond.
        """
        found: list[AbortedTransaction] = []
        bound = upto
        for segment in self._all[self.number_of(offset) :]:
            if segment.is_read_from(extent):
                bound = min(bound, segment.offset_bound(extent.position + extent.size))
            for entry in segment.aborted:
                if entry.last_offset >= offset and entry.first_offset < bound:
                    found.append(entry)
                if entry.last_stable_offset >= bound:
                    return sorted(found, key=_first_offset)
        return sorted(found, key=_first_offset)

    @property
    def aborted_upto(self) -> int:
        """The offset of the last marker of an aborted transaction; -1 if there is none.

        It may lie anywhere in a segment whose transaction index cannot be read.
        """
        for segment in reversed(self._all):
            try:
                if segment.aborted:
                    return segment.aborted[-1].last_offset
            except BrokerError:
                return segment.end_offset
        return -1

    def find_timestamp(self, timestamp: int, from_offset: int) -> TimestampOffset | None:
        """The first record at or after `from_offset` whose time is `timestamp` or later."""
        for segment in self._all:
            if segment.max_timestamp >= timestamp:
                found = segment.find_timestamp(timestamp, from_offset)
                if found:
                    return found
        return None

    def detach(self, which: slice) -> list[str]:
        """Drop the oldest or newest segments; return their renamed files, for a Removal.

        It renames from the outside in: a crash midway leaves no gap between those that stay.
        """
        paths = []
        for segment in self._all[which] if which.stop else reversed(self._all[which]):
            segment.close()
            paths += mark_deleted(self._disk, segment, (*SEGMENT_FILES, SNAPSHOT))
        del self._all[which]
        return paths

    def replace(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Put `new` in the place of `old`, which are consecutive segments."""
        at = self._all.index(old[0])
        self._all[at : at + len(old)] = new


def _first_offset(entry: AbortedTransaction) -> int:
    return entry.first_offset


def mark_deleted(disk: Disk, segment: Segment, suffixes: Sequence[str]) -> list[str]:
    """Rename the files of a dropped segment to `.deleted`; return them, for a Removal."""
    paths = []
    for path in map(segment.path, suffixes):
        if disk.status(path):
            disk.rename(path, path + DELETED)
            paths.append(path + DELETED)
    return paths


def new_segment(
    disk: Disk, directory: str, base_offset: int, config: TopicConfig, random: Random, now_ms: int
) -> Segment:
    """An empty segment with its files."""
    jitter_ms = draw_jitter_ms(config, random)
    segment = Segment(disk, directory, base_offset, config, now_ms, jitter_ms=jitter_ms)
    segment.create(config.segment_bytes if config.preallocate else 0)
    return segment


def draw_jitter_ms(config: TopicConfig, random: Random) -> int:
    """A part of `segment.jitter.ms`, so that segments begun together do not all roll together."""
    return random.below(min(config.segment_jitter_ms, config.segment_ms))
