"""Lets the page cache drop a file, and looks whether it did, so that a read is one of the disk."""

import ctypes
import mmap
import os
from pathlib import Path
from typing import Final

MOST_CACHED: Final = 0.05


class StillCached(Exception):
    """The page cache holds what it was asked to drop, so that little would come from the disk."""


def forget(path: Path) -> None:
    """What is not on the medium yet is brought there first. Raises StillCached."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        if (share := cached_share(descriptor)) > MOST_CACHED:
            raise StillCached(f"the page cache keeps {share:.0%} of {path.name}")
    finally:
        os.close(descriptor)


def cached_share(descriptor: int) -> float:
    """How much of a file is in the page cache; nothing of an empty one, or of one in an index's
    size, of which whoever has it mapped keeps some pages for good. Raises OSError."""
    size = os.fstat(descriptor).st_size
    if size < 1024 * mmap.PAGESIZE:
        return 0.0
    pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    # A copy on write: ctypes gives the address only of what could be written to.
    with mmap.mmap(descriptor, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        failed = ctypes.CDLL(None).mincore(ctypes.byref(start), ctypes.c_size_t(size), pages)
        del start
    if failed:
        raise OSError("mincore tells nothing about the page cache here")
    return sum(page & 1 for page in pages) / len(pages)
