"""Eviction of a file from the page cache, with a check, so that reads come from the disk."""

import ctypes
import mmap
import os
from pathlib import Path
from typing import Final

MOST_CACHED: Final = 0.05


class StillCached(Exception):
    """The page cache still holds the file, so that little would be read from disk."""


def forget(path: Path) -> None:
    """Fsync the file and drop it from the page cache. Raises StillCached."""
    if not hasattr(os, "posix_fadvise"):
        raise StillCached("this system drops no file from its page cache")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        if (share := cached_share(descriptor)) > MOST_CACHED:
            raise StillCached(f"the page cache keeps {share:.0%} of {path.name}")
    finally:
        os.close(descriptor)


def cached_share(descriptor: int) -> float:
    """The cached fraction of a file; 0 for an empty file or one of an index's size, whose mapped
    pages stay cached. Raises OSError."""
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
        raise OSError("mincore does not report the page cache here")
    return sum(page & 1 for page in pages) / len(pages)
