"""Memory that was freed, returned to the system: the C library keeps much of it for later."""

from collections.abc import Callable
from functools import cache


def return_freed_memory() -> None:
    """Return what glibc keeps. A no-op with other C libraries.

    Whoever allocates from the arena that is being trimmed waits: 50 ms for 165 MB in small parts.
    """
    if (trim := _malloc_trim()) is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    import ctypes  # few brokers need it

    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim
