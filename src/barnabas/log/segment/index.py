"""The two sparse indexes of a segment: offset to position, and time to offset.

    .index      int32 offset - base, int32 position of a batch at or before that offset
    .timeindex  int64 timestamp, int32 offset - base: all that is later lies beyond that offset

Entries rise, so a lookup is a binary search in the mapped file. While a segment is written to,
its indexes are as large as they may ever get, sparse, and their unused tail is zeros; `trim`
cuts that off. A file is mapped on first use only: most segments of most partitions rest.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from struct import Struct
from typing import ClassVar, Final

from barnabas.disk.disk import Disk
from barnabas.log.segment.index_end import OFFSET_ENTRY, TIME_ENTRY, IndexEnd

# Disk space is allocated page by page: a full disk is then an error, not a death by SIGBUS,
# and the first write to a page does not wait for the kernel to find a large one (2 ms).
_PAGE: Final = 4096

Sizes = Mapping[str, int]  # of all files in a directory, by name


def file_size_of(disk: Disk, path: str, sizes: Sizes | None) -> int | None:
    """The size of a file, from `sizes` if its directory was read; None if it does not exist."""
    if sizes is not None:
        return sizes.get(path.rpartition("/")[2])
    status = disk.status(path)
    return status.size if status else None


class Index(IndexEnd):
    """Fixed-size entries in one file; `entries` of them count, whatever the size of the file.

    Not thread-safe. After a DiskFault the index must be rebuilt.
    """

    FORMAT: ClassVar[Struct]

    def __init__(
        self, disk: Disk, path: str, base_offset: int, max_bytes: int, sizes: Sizes | None = None
    ) -> None:
        """An index whose file is as `trim` left it, or absent."""
        size, file_size = self.FORMAT.size, file_size_of(disk, path, sizes)
        super().__init__(base_offset, max_bytes // size, (file_size or 0) // size)
        self.path = path
        self._disk = disk
        self._file_size = file_size
        self._is_rebuilt = False  # then the entries are in memory only
        self._odd = file_size is None or file_size % size != 0

    def preallocate(self) -> None:
        """Begin empty, with a file as long as it may get, all zeros."""
        self.close()
        if self.entries:
            self.entries = 0
            self.trim()
        self._resize(self.max_entries * self.FORMAT.size)

    def rebuild(self, most_entries: int) -> None:
        """Begin empty, and collect up to so many entries in memory until `trim` writes them.

        The file is written once, and never cut to nothing: that waits for the disk.
        """
        self.close()
        self.entries = 0
        self._view = memoryview(bytearray(most_entries * self.FORMAT.size))
        self._ready = len(self._view)
        self._is_rebuilt = True

    def trim(self) -> None:
        """Cut the file to its entries; the index can still be read, and appended to again."""
        used = self.entries * self.FORMAT.size
        if self._is_rebuilt and used:
            self._end_with(0, bytes(self._view[:used]))
        self.close()
        if self._file_size != used:
            self._resize(used)

    def _resize(self, size: int) -> None:
        self._disk.resize(self.path, size)
        self._file_size = size

    def _end_with(self, position: int, data: bytes) -> None:
        """Write the last entries, and cut the file behind them."""
        self._disk.end_with(self.path, position, data)
        self._file_size = position + len(data)

    def close(self) -> None:
        self._view = memoryview(b"")
        self._ready = 0
        self._is_rebuilt = False

    def entry(self, number: int) -> tuple[int, ...]:
        size = self.FORMAT.size
        if len(self._view) < (number + 1) * size:
            self._read_or_map()
        return self.FORMAT.unpack_from(self._view, number * size)

    def _read_or_map(self) -> None:
        """Make the entries readable: a short file is read, since a mapping costs more."""
        used = self.entries * self.FORMAT.size
        data = self._disk.load(self.path) if used == self._file_size and used <= _PAGE else None
        if data is not None and len(data) == used:
            self._view = memoryview(data)
            self._ready = 0
        else:
            self._map(used)

    def _make_ready(self, position: int) -> None:
        """Make room for an entry there: map the file, and allocate the entry's disk space."""
        size = self.FORMAT.size
        end = position + size
        if len(self._view) < end or self._view.readonly:
            self._map(max(self.max_entries * size, end))
        end = min(end + _PAGE, len(self._view))
        self._disk.zero(self.path, position, end - position)
        self._ready = end

    def _map(self, size: int) -> None:
        self._view = self._disk.map(self.path, size)
        self._file_size = size

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
        """True if the file can be what `trim` left: no zeros at its end, no position outside."""
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

    def offset_from(self, position: int) -> int | None:
        """The offset of the first entry at or after `position`; None if there is none."""
        if not self.entries:
            return None
        number = bisect_left(range(self.entries), position, key=self._key(1))
        return self.base_offset + self.entry(number)[0] if number < self.entries else None

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

    def complete(self, timestamp: int, offset: int) -> bool:
        """Add the entry that ends an index at rest, and trim it; return whether one was added."""
        is_added = timestamp > self.last[0]
        if is_added and not self._is_rebuilt:
            self.close()
            entry = TIME_ENTRY.pack(timestamp, offset - self.base_offset)
            self._end_with(self.entries * TIME_ENTRY.size, entry)
            self.entries += 1
        elif is_added:
            self.add_time(timestamp, offset)
        self.trim()
        return is_added

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
