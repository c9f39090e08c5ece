"""Vectored system calls: several buffers written at once, and a read that never waits.

`system_calls.pyx` is the compiled version: the same calls without lists of iovecs in between.
"""

import errno
import os
from collections.abc import Sequence
from typing import Final

from barnabas.base.buffers import BufferSlice

Buffer = bytes | bytearray | memoryview

MOST_PARTS: Final = 1024  # IOV_MAX of Linux: the limit of one call
_PROBE: Final = [bytearray(1)]
_NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)


def write_slices(descriptor: int, slices: Sequence[BufferSlice], position: int) -> int:
    """Write the slices one behind the other at `position`; return how many bytes were written."""
    parts = [each.view[each.at : each.at + each.size] for each in slices]
    return os.pwritev(descriptor, parts, position)


def write_buffer(descriptor: int, data: Buffer, position: int) -> int:
    """Write the buffer at `position`; return how many bytes were written."""
    return os.pwrite(descriptor, data, position)


def send_parts(descriptor: int, parts: list[Buffer]) -> int:
    """Send what the socket accepts without waiting; return the number of bytes.

    0 if the connection is broken: the event loop finds out by itself.
    """
    try:
        return os.writev(descriptor, parts[:MOST_PARTS])
    except OSError:
        return 0


def is_cached(descriptor: int, position: int) -> bool:
    """Return whether the byte there can be read without waiting for the disk."""
    try:
        return os.preadv(descriptor, _PROBE, position, _NOWAIT) == 1
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EOPNOTSUPP):
            raise
        return error.errno == errno.EOPNOTSUPP  # tmpfs cannot say, and never waits
