"""The end of an index: how many entries it has, and the next one put behind them."""

from bisect import bisect_right
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Final

from barnabas.base.twins import use_compiled

OFFSET_ENTRY: Final = Struct(">ii")  # offset - base, position
TIME_ENTRY: Final = Struct(">qi")  # timestamp, offset - base


class IndexEnd:
    """Of either index; `entries` count, and up to `_ready` bytes of `_view` may be written."""

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
        # The last timestamp while there are this many entries, so that it need not be read again.
        self._latest, self._latest_of = -1, 0

    if TYPE_CHECKING:

        def _make_ready(self, position: int) -> None: ...

        @property
        def last(self) -> tuple[int, int]: ...

    def add_offset(self, offset: int, position: int) -> bool:
        """Add an entry of an offset index; tells whether it was the last there is room for."""
        self._put(OFFSET_ENTRY, offset - self.base_offset, position)
        return self.entries >= self.max_entries

    def add_time(self, timestamp: int, offset: int) -> bool:
        """Add an entry of a time index, unless the last one's timestamp is as late.

        Tells whether the index is full: one place is kept.
        """
        if self._latest_of != self.entries:
            self._latest, self._latest_of = self.last[0], self.entries
        if timestamp > self._latest:
            self._put(TIME_ENTRY, timestamp, offset - self.base_offset)
            self._latest, self._latest_of = timestamp, self.entries
        return self.entries >= self.max_entries - 1

    def last_position_upto(self, position: int) -> int:
        """Of an offset index that is mapped: the greatest position at or before this one, or 0."""
        view, size, unpack = self._view, OFFSET_ENTRY.size, OFFSET_ENTRY.unpack_from
        if self.entries > len(view) // size:
            raise StructError(f"{len(view)} bytes are not {self.entries} entries")

        def position_of(number: int) -> int:
            found: int = unpack(view, number * size)[1]
            return found

        after = bisect_right(range(self.entries), position, key=position_of)
        return position_of(after - 1) if after else 0

    def _put(self, entry: Struct, first: int, second: int) -> None:
        at = self.entries * entry.size
        if at + entry.size > self._ready:
            self._make_ready(at)
        entry.pack_into(self._view, at, first, second)
        self.entries += 1


use_compiled(globals(), "barnabas.log.segment._index_end", "IndexEnd")
