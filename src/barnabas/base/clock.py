"""Wall-clock time, as a seam: the simulation brings a clock of its own."""

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the wall-clock time, which may jump; durations come from the event loop."""

    def now_ms(self) -> int: ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
