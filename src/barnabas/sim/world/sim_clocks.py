"""The clocks of a simulated host: a wall clock with drift and jumps, and a stopwatch."""

import asyncio
from typing import Final

from barnabas.base.randomness import Random

# Start of the simulated time, for realistic timestamps: 14 November 2023.
EPOCH_MS: Final = 1_700_000_000_000
# Maximal drift, in parts per million, and maximal initial offset.
DRIFT_PPM: Final = 500
OFFSET_MS: Final = 250


class SimClock:
    """The wall clock of one host; it continues across restarts."""

    def __init__(self, loop: asyncio.AbstractEventLoop, random: Random) -> None:
        self._loop = loop
        self._began = loop.time()
        self._ahead_ms = float(random.below(2 * OFFSET_MS + 1) - OFFSET_MS)
        self._rate = (random.below(2 * DRIFT_PPM + 1) - DRIFT_PPM) / 1e6

    def now_ms(self) -> int:
        now = self._loop.time()
        drift_s = (now - self._began) * self._rate
        return EPOCH_MS + int((now + drift_s) * 1000 + self._ahead_ms)

    def jump(self, by_ms: int) -> None:
        """Set the clock forward or back, as NTP does."""
        self._ahead_ms += by_ms


class SimStopwatch:
    """Nanoseconds of virtual time: work takes none, so measurements are deterministic."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __call__(self) -> int:
        return int(self._loop.time() * 1e9)
