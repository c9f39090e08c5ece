"""The two sparse indexes of a segment: offset to position, and time to offset.

    .index      int32 offset - base, int32 position of a batch at or before that offset
    .timeindex  int64 timestamp, int32 offset - base: all that is later lies beyond that offset

Entries rise, so a lookup is a binary search in the mapped file. While a segment is written to,
its indexes are as large as they may ever get, sparse, and their unused tail is zeros; `trim`
cuts that off. A file is mapped on first use only: most segments of most partitions rest.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from struct import Struct
from typing import ClassVar, Final

from barnabas.disk.disk import Disk
from barnabas.log.segment.index_end import OFFSET_ENTRY, TIME_ENTRY, IndexEnd

# Disk space is allocated page by page: a full disk is then an error, not a death by SIGBUS,
# and the first write to a page does not wait for the kernel to find a large one (2 ms).
_PAGE: Final = 4096


class Index(IndexEnd):
    """Fixed-size entries in one file; `entries` of them count, whatever the size of the file.

    Not thread-safe. After a DiskFault the index must be rebuilt.
    """

    FORMAT: ClassVar[Struct]

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int) -> None:
        """An index whose file is as `trim` left it, or absent."""
        status, size = disk.status(path), self.FORMAT.size
        super().__init__(base_offset, max_bytes // size, status.size // size if status else 0)
        self.path = path
        self._disk = disk
        self._odd = status is None or status.size % size != 0

    def preallocate(self) -> None:
        """Begin empty, with a file as long as it may get, all zeros."""
        self.close()
        if self.entries:
            self.entries = 0
            self.trim()
        self._disk.resize(self.path, self.max_entries * self.FORMAT.size)

    def trim(self) -> None:
        """Cut the file to its entries; the index can still be read, and appended to again."""
        self.close()
        self._disk.resize(self.path, self.entries * self.FORMAT.size)

    def close(self) -> None:
        self._view = memoryview(b"")
        self._ready = 0

    def entry(self, number: int) -> tuple[int, ...]:
        size = self.FORMAT.size
        if len(self._view) < (number + 1) * size:
            self._map(self.entries * size)
        return self.FORMAT.unpack_from(self._view, number * size)

    def _make_ready(self, position: int) -> None:
        """Make room for an entry there: map the file, and allocate the entry's disk space."""
        size = self.FORMAT.size
        end = position + size
        if len(self._view) < end:
            self._map(max(self.max_entries * size, end))
        end = min(end + _PAGE, len(self._view))
        self._disk.zero(self.path, position, end - position)
        self._ready = end

    def _map(self, size: int) -> None:
        self._view = self._disk.map(self.path, size)

    def _keep(self, entries: int) -> None:
        """Drop all but the first `entries`, also from the file: its tail must be zeros."""
        if entries < self.entries:
            self.entries = entries
            self.trim()

    def _key(self, field: int) -> Callable[[int], int]:
        """A field of the entry with a given number, for a binary search."""
        self.entry(0)  # maps
        view, size, unpack = self._view, self.FORMAT.size, self.FORMAT.unpack_from

        def key(number: int) -> int:
            found: int = unpack(view, number * size)[field]
            return found

        return key


class OffsetIndex(Index):
    """Where in the `.log` file to begin looking for an offset."""

    FORMAT = OFFSET_ENTRY

    def is_sane(self, log_size: int) -> bool:
        """Whether the file can be what `trim` left: no zeros at its end, no position outside."""
        if self._odd or not self.entries:
            return not self._odd
        relative, position = self.entry(self.entries - 1)
        return relative > 0 and 0 < position < log_size

    @property
    def is_full(self) -> bool:
        return self.entries >= self.max_entries

    def position_for(self, offset: int) -> int:
        """Where a batch begins at or before the one that holds `offset`."""
        if not self.entries:
            return 0
        after = bisect_right(range(self.entries), offset - self.base_offset, key=self._key(0))
        return self.entry(after - 1)[1] if after else 0

    def position_upto(self, position: int) -> int:
        """The greatest known beginning of a batch at or before `position`."""
        if not self.entries:
            return 0
        self.entry(self.entries - 1)  # maps
        return self.last_position_upto(position)

    def truncate_to(self, offset: int) -> None:
        """Keep the entries below `offset`."""
        if self.entries:
            relative = offset - self.base_offset
            self._keep(bisect_left(range(self.entries), relative, key=self._key(0)))


class TimeIndex(Index):
    """From which offset on to look for a timestamp."""

    FORMAT = TIME_ENTRY

    def is_sane(self) -> bool:
        if self._odd or not self.entries:
            return not self._odd
        timestamp, relative = last = self.entry(self.entries - 1)
        return timestamp >= self.entry(0)[0] and relative >= 0 and any(last)

    @property
    def is_full(self) -> bool:
        # The last place is kept for the entry that is added when the segment is rolled.
        return self.entries >= self.max_entries - 1

    @property
    def last(self) -> tuple[int, int]:
        """The greatest timestamp and the offset it goes with, or (-1, base offset)."""
        if not self.entries:
            return -1, self.base_offset
        timestamp, relative = self.entry(self.entries - 1)
        return timestamp, self.base_offset + relative

    def offset_for(self, timestamp: int) -> int:
        """An offset up to which every record is earlier than or at the entry's time <= `timestamp`.

        Every later record lies beyond it, so a search may begin there.
        """
        if not self.entries:
            return self.base_offset
        after = bisect_right(range(self.entries), timestamp, key=self._key(0))
        return self.base_offset + (self.entry(after - 1)[1] if after else 0)

    def truncate_to(self, offset: int) -> None:
        """Keep the entries below `offset`."""
        if self.entries:
            relative = offset - self.base_offset
            self._keep(bisect_left(range(self.entries), relative, key=self._key(1)))
