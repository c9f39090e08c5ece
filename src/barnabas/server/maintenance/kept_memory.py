"""The memory that large requests leave behind: the broker returns it to the system.

The C library keeps what was freed, in an arena for each thread that decodes requests or reads cold
records, and up to 32 MB in each. Nothing says how much of it is free. So when the broker has grown
by much, what is free is returned; while that gives little, since the memory is in use, the broker
tries it less and less often.
"""

from typing import Final

from barnabas.base.freed_memory import OwnMemory
from barnabas.base.offload import Offload
from barnabas.server.maintenance.background_tasks import BackgroundTasks

LOOKS_EVERY_MS: Final = 4_000
MUCH_BYTES: Final = 16 * 1024 * 1024
MOST_LOOKS_BETWEEN: Final = 32


class KeptMemory:
    """Looks at the memory of this process from `start` to `stop`."""

    def __init__(self, offload: Offload, memory: OwnMemory) -> None:
        self._offload = offload
        self._memory = memory
        self._tasks = BackgroundTasks()
        self._least: int | None = None  # what the broker has needed before it grew
        self._last = 0
        self._looks_between = 1
        self._looks = 0

    def start(self) -> None:
        self._tasks.spawn(self._repeat())

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _repeat(self) -> None:
        while not await self._tasks.stops_within(LOOKS_EVERY_MS):
            await self.look()

    async def look(self) -> None:
        """Return free memory to the system, if the broker has grown and it is time to try."""
        own = self._memory.used()
        if own is None:
            return
        self._least = own if self._least is None else min(self._least, own)
        if abs(own - self._last) >= MUCH_BYTES:
            self._looks_between = 1
        self._last = own
        self._looks += 1
        if own - self._least < MUCH_BYTES or self._looks < self._looks_between:
            return
        self._looks = 0
        await self._offload(self._memory.give_back)
        self._last = self._memory.used() or own
        if own - self._last >= MUCH_BYTES:
            self._looks_between = 1
        else:
            self._looks_between = min(2 * self._looks_between, MOST_LOOKS_BETWEEN)
