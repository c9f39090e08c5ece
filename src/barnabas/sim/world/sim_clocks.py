"""The wall clock of a simulated host: it runs a little fast or slow, and jumps."""

import asyncio
from typing import Final

from barnabas.base.randomness import Random

# When the simulated world began, so that timestamps look like timestamps: 14 November 2023.
EPOCH_MS: Final = 1_700_000_000_000
# The most that a crystal errs, in millionths, and what such clocks differ by from the start.
DRIFT_PPM: Final = 500
OFFSET_MS: Final = 250


class SimClock:
    """Tells the time as this host believes it; the host's next life believes the same."""

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
        """Be set forward or back, as after a correction from outside."""
        self._ahead_ms += by_ms


class SimStopwatch:
    """Nanoseconds of virtual time: work takes none, so that no measurement differs between runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __call__(self) -> int:
        return int(self._loop.time() * 1e9)
