"""Clocks: wall-clock time and loop time; the simulation has its own."""

import time
from collections.abc import Callable
from typing import Final, Protocol

# Nanoseconds from an arbitrary start, for durations too short for the loop's time().
Stopwatch = Callable[[], int]

machine_stopwatch: Final[Stopwatch] = time.perf_counter_ns


class MonotonicTime(Protocol):
    """Milliseconds since any moment, which never jump: for durations."""

    def now_ms(self) -> float: ...


class _Loop(Protocol):
    """The clock of an event loop; a protocol, since importing asyncio is slow."""

    def time(self) -> float: ...


class LoopTime:
    """The time of the event loop, which is virtual in a simulation."""

    def __init__(self, loop: _Loop) -> None:
        self._loop = loop

    def now_ms(self) -> float:
        return self._loop.time() * 1000


class Clock(Protocol):
    """Wall-clock time, which may jump; durations come from the event loop."""

    def now_ms(self) -> int: ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
