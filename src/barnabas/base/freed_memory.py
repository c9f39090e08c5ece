"""Memory that was freed, returned to the system: the C library keeps much of it for later."""

import os
from collections.abc import Callable
from functools import cache
from typing import Final

_STATM: Final = "/proc/self/statm"


def return_freed_memory() -> None:
    """Return what glibc keeps. A no-op with other C libraries.

    Whoever allocates from the arena that is being trimmed waits: 50 ms for 165 MB in small parts.
    """
    if (trim := _malloc_trim()) is not None:
        trim(0)


class OwnMemory:
    """The memory of this process."""

    def used(self) -> int | None:
        """The resident bytes without mapped files; None where nothing says it."""
        try:
            with open(_STATM, "rb", buffering=0) as statm:
                _, resident, shared, *_ = map(int, statm.read().split())
        except OSError:
            return None
        return (resident - shared) * os.sysconf("SC_PAGE_SIZE")

    def give_back(self) -> None:
        """See `return_freed_memory`."""
        return_freed_memory()


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    import ctypes  # few brokers need it

    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim
