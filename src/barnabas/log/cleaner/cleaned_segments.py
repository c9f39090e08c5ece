"""The segments that compaction writes for one group of old ones, under names in `.cleaned`."""

from collections.abc import Sequence
from typing import Final

from barnabas.config.topic_config import TopicConfig
from barnabas.disk.disk import Buffer, Disk
from barnabas.log.cleaner.swap import CLEANED
from barnabas.log.segment.segment import (
    LOG,
    OFFSET_INDEX,
    SEGMENT_FILES,
    TIME_INDEX,
    TRANSACTION_INDEX,
    Segment,
)
from barnabas.log.segment.transaction_index import AbortedTransaction, encode_aborted
from barnabas.wire.records.batch import BatchHeader, read_header

_MAX_RELATIVE: Final = 2**31 - 1


class CleanedSegments:
    """The cleaned segments of one group: the first begins where the group does, others follow.

    A batch may grow when it is rewritten, so a group may need more than one segment.
    """

    def __init__(
        self, disk: Disk, directory: str, config: TopicConfig, base_offset: int, now_ms: int
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._config = config
        self._now_ms = now_ms
        self.segments: list[Segment] = []
        self._aborted: list[AbortedTransaction] = []
        self._begin(base_offset)

    def append(self, batch: Buffer) -> None:
        """Write a batch, which follows those before."""
        header = read_header(batch)
        if not self._fits(header):
            self._begin(header.base_offset)
        self.segments[-1].append(batch, [header])

    def add_aborted(self, entries: Sequence[AbortedTransaction]) -> None:
        """Add entries of the transaction index whose markers were appended, or come next."""
        self._aborted += entries

    def finish(self, old: Sequence[Segment], last_kept: int) -> None:
        """Complete all files and fsync them.

        Each segment of `old` that begins beyond offset `last_kept` gets an empty segment in its
        place: after a crash recovery completes the swap by the base offsets that it finds.
        """
        for segment in old[1:]:
            if segment.base_offset > last_kept and segment.size:
                self._begin(segment.base_offset)
        ends = [*(segment.base_offset for segment in self.segments[1:]), old[-1].end_offset]
        for segment, end_offset in zip(self.segments, ends, strict=True):
            segment.end_offset = end_offset
            self._complete(segment)

    def discard(self) -> None:
        """Remove all files; no error if they were renamed meanwhile."""
        for segment in self.segments:
            segment.close()
            for suffix in SEGMENT_FILES:
                self._disk.remove(f"{self._directory}/{segment.base_offset:020}{suffix}{CLEANED}")

    def _begin(self, base_offset: int) -> None:
        segment = Segment(
            self._disk, self._directory, base_offset, self._config, self._now_ms, suffix=CLEANED
        )
        self.segments.append(segment)
        segment.create()

    def _fits(self, header: BatchHeader) -> bool:
        current = self.segments[-1]
        return not current.size or (
            current.size + header.size <= self._config.segment_bytes
            and header.last_offset - current.base_offset <= _MAX_RELATIVE
            and not current.is_full
        )

    def _complete(self, segment: Segment) -> None:
        files = [LOG, OFFSET_INDEX, TIME_INDEX]
        segment.rest()
        entries = [entry for entry in self._aborted if entry.last_offset < segment.end_offset]
        if entries:
            self._aborted = self._aborted[len(entries) :]
            data = encode_aborted(entries)
            self._disk.replace(segment.path(TRANSACTION_INDEX), data, sync=False)
            files.append(TRANSACTION_INDEX)
            segment.forget_aborted()
        for suffix in files:
            self._disk.sync(segment.path(suffix))
        segment.is_dirty = segment.is_index_dirty = False
        segment.close()
