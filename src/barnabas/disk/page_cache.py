"""Reads of a file from the page cache, without waiting for the disk, and mappings of it."""

import errno
import mmap
import os
from typing import Final

from barnabas.disk.inode import Inode, Mapping

# Below this a copy is cheaper than a new mapping (10 to 20 us).
WORTH_MAPPING: Final = 128 * 1024

_NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)


def map_from(descriptor: int, position: int, file_size: int, inode: Inode) -> tuple[mmap.mmap, int]:
    """The file from `position` on, or a little before it, as memory; and where that begins."""
    start = position - position % mmap.ALLOCATIONGRANULARITY
    length = file_size - start
    mapping = Mapping(descriptor, length, access=mmap.ACCESS_READ, offset=start)
    mapping.inode, mapping.end = inode, file_size
    inode.add_mapping(mapping)
    return mapping, start


def copy_if_cached(descriptor: int, position: int, size: int) -> memoryview | None:
    """Return `size` bytes if all of them can be read without waiting for the disk."""
    copy = bytearray(size)
    try:
        cached = os.preadv(descriptor, [copy], position, _NOWAIT)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EOPNOTSUPP):
            raise
        is_known = error.errno == errno.EAGAIN  # tmpfs cannot say, and never waits
        cached = 0 if is_known else os.preadv(descriptor, [copy], position)
    return memoryview(copy) if cached == size else None
