"""Time, as a seam: the simulation brings clocks of its own."""

import time
from collections.abc import Callable
from typing import Final, Protocol

# Nanoseconds from any beginning, for what takes so little that the loop's time() stands still.
Stopwatch = Callable[[], int]

machine_stopwatch: Final[Stopwatch] = time.perf_counter_ns


class Clock(Protocol):
    """Tells the wall-clock time, which may jump; durations come from the event loop."""

    def now_ms(self) -> int: ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
