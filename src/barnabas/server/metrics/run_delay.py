"""The run delay of threads: how long they were ready to run but had no core, as Linux counts it."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

# Nanoseconds on a core, nanoseconds ready without one, and turns on a core.
_SCHEDSTAT: Final = "schedstat"
_LONGEST_LINE: Final = 128


class RunDelay:
    """Of the thread that makes it, until `close`; and of all threads of its process."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._tasks = proc / "self" / "task"
        self._file: int | None = None
        with suppress(OSError):
            self._file = os.open(proc / "thread-self" / _SCHEDSTAT, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def own_ns(self) -> int | None:
        """None where the system does not count it."""
        if self._file is None:
            return None
        try:
            return _delay_ns(os.pread(self._file, _LONGEST_LINE, 0))
        except OSError:
            return None

    def all_ns(self) -> int:
        """The sum over the threads that there are now."""
        total = 0
        with suppress(OSError):
            for task in self._tasks.iterdir():
                with suppress(OSError):  # the thread has ended
                    total += _delay_ns((task / _SCHEDSTAT).read_bytes()) or 0
        return total


def _delay_ns(line: bytes) -> int | None:
    on_core, delay, _ = (int(each) for each in line.split())
    return delay if on_core else None  # a thread that looks has run
