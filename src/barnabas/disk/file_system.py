"""The sync of a whole file system: one call where each of many files would need its own."""

import errno
import os
import sys
from collections.abc import Callable
from functools import cache

# Older kernels write everything, too, but do not report what could not be written.
_REPORTS_ERRORS_SINCE = (5, 8)


def sync_file_system(descriptor: int) -> bool:
    """Write all that is unwritten on the file system of an open file to disk; blocks.

    Returns False, and proves nothing, where the kernel has no such call that reports errors.

    Raises  OSError, if something could not be written since the file was opened
    """
    syncfs = _syncfs()
    if syncfs is None:
        return False
    code = syncfs(descriptor)
    if code == errno.ENOSYS:
        return False
    if code:
        raise OSError(code, os.strerror(code))
    return True


@cache
def _syncfs() -> Callable[[int], int] | None:
    """Return Linux's call, which returns an errno or 0."""
    if sys.platform != "linux" or _kernel() < _REPORTS_ERRORS_SINCE:
        return None
    import ctypes  # few brokers need it, and only when they stop

    library = ctypes.CDLL(None, use_errno=True)

    def syncfs(descriptor: int) -> int:
        return ctypes.get_errno() if library.syncfs(descriptor) else 0

    return syncfs


def _kernel() -> tuple[int, ...]:
    parts = os.uname().release.split("-")[0].split(".")[:2]
    return tuple(int(part) if part.isdecimal() else 0 for part in parts)
