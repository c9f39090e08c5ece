"""The end of an index: the number of its entries, and the append of the next one.

Compiled as it is: `index_end.pxd` has the types.
"""

from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Final

from barnabas.base import buffers

OFFSET_ENTRY: Final = Struct(">ii")  # offset - base, position
TIME_ENTRY: Final = Struct(">qi")  # timestamp, offset - base

_OFFSET_SIZE = OFFSET_ENTRY.size
_TIME_SIZE = TIME_ENTRY.size


class IndexEnd:
    """The end of either index; up to `_ready` bytes of `_view` may be written."""

    __slots__ = (
        "_latest",
        "_latest_of",
        "_ready",
        "_view",
        "base_offset",
        "entries",
        "max_entries",
    )

    def __init__(self, base_offset: int, max_entries: int, entries: int) -> None:
        self.base_offset = base_offset
        self.max_entries = max_entries
        self.entries = entries
        self._view = memoryview(b"")
        self._ready = 0
        # The last timestamp while the index has this many entries.
        self._latest = -1
        self._latest_of = 0

    if TYPE_CHECKING:

        def _make_ready(self, position: int) -> None: ...

        @property
        def last(self) -> tuple[int, int]: ...

    def add_offset(self, offset: int, position: int) -> bool:
        """Append an entry to an offset index; return whether the index is full."""
        at = self._next_position(_OFFSET_SIZE)
        buffers.put_int(self._view, at, offset - self.base_offset)
        buffers.put_int(self._view, at + 4, position)
        self.entries += 1
        return self.entries >= self.max_entries

    def add_time(self, timestamp: int, offset: int) -> bool:
        """Append an entry to a time index, unless the last one's timestamp is as late.

        Return whether the index is full: one place is kept.
        """
        if self._latest_of != self.entries:
            self._latest = self.last[0]
            self._latest_of = self.entries
        if timestamp > self._latest:
            at = self._next_position(_TIME_SIZE)
            buffers.put_int(self._view, at + 8, offset - self.base_offset)
            buffers.put_long(self._view, at, timestamp)
            self.entries += 1
            self._latest = timestamp
            self._latest_of = self.entries
        return self.entries >= self.max_entries - 1

    def last_position_upto(self, position: int) -> int:
        """The greatest position at or before this one in a mapped offset index, or 0."""
        low = 0
        high = self.entries
        if high * _OFFSET_SIZE > len(self._view):
            raise StructError(f"{len(self._view)} bytes are not {high} entries")
        while low < high:
            middle = (low + high) // 2
            if position < buffers.int_at(self._view, middle * _OFFSET_SIZE + 4):
                high = middle
            else:
                low = middle + 1
        return buffers.int_at(self._view, (low - 1) * _OFFSET_SIZE + 4) if low else 0

    def _next_position(self, size: int) -> int:
        """The position of the next entry, in memory that may be written."""
        at = self.entries * size
        if at + size > self._ready:
            self._make_ready(at)
        return at
