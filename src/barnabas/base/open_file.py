"""An open file of the log on its shortest ways: appended to at its end, read where it is cached."""

import errno
import mmap
import os
import weakref
from contextlib import suppress
from typing import Any, Final

from barnabas.base.errors import DiskFault
from barnabas.base.page_cache import copy_if_cached, is_cached, map_from
from barnabas.base.twins import use_compiled

Buffer = bytes | bytearray | memoryview

# Below this a copy is cheaper than a new mapping (10 to 20 us)...
_MAP_FROM: Final = 128 * 1024
# ...unless this much lies behind, which the same reader is likely to want next.
_MAP_AHEAD: Final = 1024 * 1024
# The kernel reads ahead about this much at once: one byte tells of its neighbours.
_PROBE_EVERY: Final = 128 * 1024


class OpenFile:
    """A file by its descriptor, with one mapping from where it was last read to its end.

    `_read_from` and `_read_to` are around all that was handed out of it since it last was among
    `_resident`, the files of which some may be in this process's memory.
    """

    __slots__ = (
        "__weakref__",
        "_descriptor",
        "_folder",
        "_handed_out",
        "_read_from",
        "_read_to",
        "_resident",
        "_start",
        "_view",
        "size",
    )

    def __init__(self, folder: str, descriptor: int, resident: list[weakref.ref[Any]]) -> None:
        self._folder = folder
        self._descriptor = descriptor
        self._resident = resident
        self.size = os.fstat(descriptor).st_size
        self._view, self._start = memoryview(b""), 0
        self._read_from = self._read_to = 0
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
        if not self._read_to:
            self._resident.append(weakref.ref(self))
            self._read_from = position
        self._read_from = min(self._read_from, position)
        self._read_to = max(self._read_to, end)
        return self._view[position - start : end - start]


use_compiled(globals(), "barnabas.base._open_file", "OpenFile")
