"""An open file of the log on its shortest ways: appended to at its end, read where it is cached."""

import errno
import mmap
import os
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from barnabas.base.errors import DiskFault
from barnabas.base.twins import use_compiled
from barnabas.disk.page_cache import copy_if_cached, is_cached, map_from
from barnabas.disk.resident import LEAST, MOST_BYTES, Resident

Buffer = bytes | bytearray | memoryview

# Below this a copy is cheaper than a new mapping (10 to 20 us)...
_MAP_FROM: Final = 128 * 1024
# ...unless this much lies behind, which the same reader is likely to want next.
_MAP_AHEAD: Final = 1024 * 1024
# The kernel reads ahead about this much at once: one byte tells of its neighbours.
_PROBE_EVERY: Final = 128 * 1024


class OpenFile:
    """A file by its descriptor, with one mapping from where it was last read to its end.

    From `_read_from` to `_read_to` lies all that was read of it since it is among the `_resident`
    ones; `_read_to` is 0 if it is not. What was read from `_fresh_from` on has not been given back
    yet; `_is_fresh` if it is among those to do so. `_is_hot` if another read than the one who is
    ahead of all, and was at `_noted_at`: most likely the same as that one before.
    """

    __slots__ = (
        "__weakref__",
        "_descriptor",
        "_folder",
        "_fresh_from",
        "_handed_out",
        "_is_fresh",
        "_is_hot",
        "_noted_at",
        "_read_from",
        "_read_to",
        "_resident",
        "_start",
        "_view",
        "size",
    )

    def __init__(self, folder: str, descriptor: int, resident: Resident) -> None:
        self._folder = folder
        self._descriptor = descriptor
        self._resident = resident
        self.size = os.fstat(descriptor).st_size
        self._view, self._start = memoryview(b""), 0
        self._read_from = self._read_to = self._fresh_from = self._noted_at = 0
        self._is_fresh = self._is_hot = False
        # Mappings that someone may still hold a slice of, and where in the file they end.
        self._handed_out: weakref.WeakKeyDictionary[mmap.mmap, int] = weakref.WeakKeyDictionary()

    def append(self, data: Buffer, /) -> None:
        """Write all of `data` at the end, in one system call; after a DiskFault, none of it."""
        try:
            written = os.pwrite(self._descriptor, data, self.size)
            if written != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self.size)
            raise DiskFault(self._folder, error) from error
        self.size += written

    def warm(self, position: int, size: int, /) -> memoryview | None:
        """The bytes if the page cache has them, else None."""
        end = position + size
        start = self._start
        try:
            if position < start or end > start + len(self._view):
                if size < _MAP_FROM and self.size - end < _MAP_AHEAD:
                    return copy_if_cached(self._descriptor, position, size)
                mapped, start = map_from(self._descriptor, position, self.size)
                self._handed_out[mapped] = self.size
                self._view, self._start = memoryview(mapped), start
            for probe in range(position, end, _PROBE_EVERY):
                if not is_cached(self._descriptor, probe):
                    return None
        except OSError as error:
            raise DiskFault(self._folder, error) from error
        if end > self._read_to:
            self._note(position, end)
        elif position < self._noted_at:
            self._is_hot = True
            if position < self._read_from:
                self._read_from = position
        return self._view[position - start : end - start]

    def _note(self, position: int, end: int) -> None:
        """Count what was not read before; a reader that goes on may begin a bit before the end."""
        resident = self._resident
        if not self._read_to:
            resident.files.append(weakref.ref(self))
            self._read_from = self._fresh_from = position
        elif position < self._read_from:
            self._read_from = position
        if not self._is_fresh:
            self._is_fresh = True
            resident.fresh.append(weakref.ref(self))
            resident.fresh_bytes += LEAST
        resident.fresh_bytes += end - max(position, self._read_to)
        self._read_to, self._noted_at = end, position
        if resident.fresh_bytes > MOST_BYTES:
            resident.give_back()

    if TYPE_CHECKING:

        def give_back(self) -> None: ...

        def let_go(self) -> Iterator[int]: ...


use_compiled(globals(), "barnabas.disk._open_file", "OpenFile")
