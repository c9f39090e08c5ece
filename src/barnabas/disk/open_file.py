"""An open file of the log: appends at its end, and reads from the page cache.

Compiled as it is: `open_file.pxd` has the types.
"""

import errno
import os
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.base import system_calls
from barnabas.base.buffers import BufferSlice
from barnabas.base.errors import DiskFault
from barnabas.disk.inode import Inodes
from barnabas.disk.page_cache import WORTH_MAPPING, copy_if_cached, map_from
from barnabas.disk.resident import LEAST, MOST_BYTES, Resident

Buffer = bytes | bytearray | memoryview

_MAP_FROM = WORTH_MAPPING
# Less is mapped, too, if this much lies behind, which the same reader is likely to want next.
_MAP_AHEAD = 1024 * 1024
# The kernel reads ahead about this much at once: if one byte is cached, its neighbours are too.
_PROBE_EVERY = 128 * 1024

# The number of the current look at the page cache: its findings hold until the next look.
_look = 1


def look_again() -> None:
    """Forget what the page cache was seen to hold. The requests of one socket read share a look."""
    global _look
    _look += 1


class OpenFile:
    """A file by its descriptor, with one mapping from where it was last read to its end.

    `_read_from` to `_read_to` spans all that was read since the file joined `_resident`;
    `_read_to` is 0 while it is not there. The bytes from `_fresh_from` on are still mapped;
    `_is_fresh` says that the file waits to unmap them. `_is_hot` says that a second reader exists,
    behind the first, which was last at `_noted_at`: it probably wants the same bytes.
    """

    __slots__ = (
        "__weakref__",
        "_descriptor",
        "_fresh_from",
        "_inode",
        "_inodes",
        "_is_fresh",
        "_is_hot",
        "_log_dir",
        "_noted_at",
        "_read_from",
        "_read_to",
        "_resident",
        "_seen",
        "_seen_in",
        "_start",
        "_view",
        "size",
    )

    def __init__(self, log_dir: str, descriptor: int, resident: Resident, inodes: Inodes) -> None:
        self._log_dir = log_dir
        self._descriptor = descriptor
        self._resident = resident
        self._inodes = inodes
        status = os.fstat(descriptor)
        self.size = status.st_size
        self._inode = inodes.join(self, status)
        self._view = memoryview(b"")
        self._start = 0
        # The last byte that was found cached, and the number of that look.
        self._seen = self._seen_in = 0
        self._read_from = self._read_to = self._fresh_from = self._noted_at = 0
        self._is_fresh = self._is_hot = False

    def append(self, data: Buffer, /) -> None:
        """Write all of `data` at the end, in one system call; after a DiskFault, none of it."""
        try:
            written = system_calls.write_buffer(self._descriptor, data, self.size)
        except OSError as error:
            raise self._undo(error) from error
        self._on_written(written, len(data))

    def append_slices(self, slices: Sequence[BufferSlice], size: int) -> None:
        """Write several slices, `size` bytes in all, as `append` does."""
        try:
            written = system_calls.write_slices(self._descriptor, slices, self.size)
        except OSError as error:
            raise self._undo(error) from error
        self._on_written(written, size)

    def _on_written(self, written: int, size: int) -> None:
        if written != size:
            error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise self._undo(error) from error
        self.size += written

    def _undo(self, error: OSError) -> DiskFault:
        with suppress(OSError):  # nobody reads bytes behind the end
            os.ftruncate(self._descriptor, self.size)
        return DiskFault(self._log_dir, error)

    def warm(self, position: int, size: int, /) -> memoryview | None:
        """The bytes if the page cache has them, else None."""
        look_again()
        return self.warm_in_look(position, size)

    def warm_in_look(self, position: int, size: int) -> memoryview | None:
        """`warm`, but reuse what the current look has found."""
        end = position + size
        try:
            if position < self._start or end > self._start + len(self._view):
                if size < _MAP_FROM and self.size - end < _MAP_AHEAD:
                    return copy_if_cached(self._descriptor, position, size)
                mapped, start = map_from(self._descriptor, position, self.size, self._inode)
                self._view = memoryview(mapped)
                self._start = start
            if not self._is_warm(position, end):
                return None
        except OSError as error:
            raise DiskFault(self._log_dir, error) from error
        if end > self._read_to:
            self._note(position, end)
        elif position < self._noted_at:
            self._is_hot = True
            if position < self._read_from:
                self._read_from = position
        return self._view[position - self._start : end - self._start]

    def _is_warm(self, position: int, end: int) -> bool:
        if self._seen_in == _look and self._seen <= position and end <= self._seen + _PROBE_EVERY:
            return True
        while position < end:
            if not system_calls.is_cached(self._descriptor, position):
                return False
            self._seen = position
            self._seen_in = _look
            position += _PROBE_EVERY
        return True

    def _note(self, position: int, end: int) -> None:
        """Count the bytes that are read for the first time; reads may overlap a little."""
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
        self._read_to = end
        self._noted_at = position
        if resident.fresh_bytes > MOST_BYTES:
            resident.give_back()

    if TYPE_CHECKING:

        def give_back(self) -> None: ...

        def release_memory(self) -> Iterator[int]: ...
