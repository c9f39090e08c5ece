"""What the page cache has of a file: read without ever waiting for the disk, or mapped."""

import errno
import mmap
import os
from typing import Final

_PROBE: Final = [bytearray(1)]
_NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)


def map_from(descriptor: int, position: int, file_size: int) -> tuple[mmap.mmap, int]:
    """The file from `position` on, or a little before it, as memory; and where that begins."""
    start = position - position % mmap.ALLOCATIONGRANULARITY
    length = file_size - start
    return mmap.mmap(descriptor, length, access=mmap.ACCESS_READ, offset=start), start


def is_cached(descriptor: int, position: int) -> bool:
    """Whether the byte there can be read without waiting for the disk."""
    try:
        return os.preadv(descriptor, _PROBE, position, _NOWAIT) == 1
    except OSError as error:
        return _cannot_tell(error)


def copy_if_cached(descriptor: int, position: int, size: int) -> memoryview | None:
    """So many bytes, if they can be read without waiting for the disk."""
    copy = bytearray(size)
    try:
        cached = os.preadv(descriptor, [copy], position, _NOWAIT)
    except OSError as error:
        cached = os.preadv(descriptor, [copy], position) if _cannot_tell(error) else 0
    return memoryview(copy) if cached == size else None


def _cannot_tell(error: OSError) -> bool:
    """Whether the file system does not know of reads without waiting, as those in memory."""
    if error.errno not in (errno.EAGAIN, errno.EOPNOTSUPP):
        raise error
    return error.errno == errno.EOPNOTSUPP
