"""The faults of one run: which, when, and what they must not be together with.

Each fault chooses whom it befalls when its time comes, lasts a while and ends by itself; several
may be under way. All leave the promises standing. Only a power failure could not: what was not
flushed is gone, so it befalls a broker only while all that was promised is on another in-sync
replica that lives, and until the broker has caught up nothing befalls the others.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from barnabas.sim.faults.fault_kinds import BIT_ROT, KINDS, Fault
from barnabas.sim.world.sim_world import World

FIRST_AFTER_S: Final = 1.5
# From one fault to the next.
APART_S: Final = (0.1, 3.0)


class Faults:
    """One after another and side by side, as the seed decides."""

    def __init__(self, world: World, kinds: Sequence[Fault] = KINDS) -> None:
        self._world = world
        self._random = world.chance("faults")
        rots = world.setting.bits_rot
        self._kinds = [each for each in kinds if rots or each.kind != BIT_ROT]
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self, duration_s: float) -> None:
        """Return when the time is over; faults under way end then, as far as they do at once."""
        loop = self._world.loop
        until = loop.time() + duration_s
        await asyncio.sleep(FIRST_AFTER_S)
        while loop.time() < until:
            (fault,) = self._random.choices(self._kinds, [each.weight for each in self._kinds])
            if not (fault.befalls_brokers and self._world.is_delicate):
                self._tasks.append(loop.spawn(None, self._befall(fault)))
            await asyncio.sleep(self._random.uniform(*APART_S))
        for task in self._tasks:
            task.cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                self._world.on_broken(f"a fault could not be injected: {ended!r}")

    async def _befall(self, fault: Fault) -> None:
        world = self._world
        world.disturbances += fault.befalls_brokers
        # Counted first, and taken back: what is cancelled in the middle has happened.
        world.injected[fault.kind] += 1
        world.loop.call_soon(world.look)  # after what the fault does at once
        try:
            if not await fault.act(world, self._random):
                world.injected[fault.kind] -= 1
        finally:
            world.disturbances -= fault.befalls_brokers
        world.look()
