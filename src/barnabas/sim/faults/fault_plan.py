"""The faults of one run: kinds, times, and which may overlap.

Each fault picks its victim when it starts, lasts a while and ends by itself; faults may overlap.
Guarantees hold under all of them, with one condition: a power failure loses unflushed records. It
therefore hits a broker only while all committed records are on another live in-sync replica, and
no other broker is hit until the broker has caught up.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from barnabas.sim.faults.fault_kinds import BIT_ROT, KINDS, Fault
from barnabas.sim.faults.late_requests import LATE_REQUEST
from barnabas.sim.world.sim_world import SimWorld

FIRST_AFTER_S: Final = 1.5
EPOCH_BUMP: Final = 2  # the transaction.version with an epoch for each transaction
# Time between the starts of two faults.
APART_S: Final = (0.1, 3.0)


class FaultPlan:
    """Starts faults at times and of kinds that the seed decides."""

    def __init__(self, world: SimWorld, kinds: Sequence[Fault] = KINDS) -> None:
        self._world = world
        self._random = world.chance("faults")
        rots = world.settings.bits_rot
        self._kinds = [each for each in kinds if rots or each.kind != BIT_ROT]
        # Without an epoch for each transaction a late EndTxn may end a later one, as in Kafka 3.9.
        if world.settings.has_transactions and world.settings.transaction_version >= EPOCH_BUMP:
            self._kinds.append(LATE_REQUEST)
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self, duration_s: float) -> None:
        """Inject faults for `duration_s`; then cancel those in progress."""
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
        # Counted first, and uncounted without a victim: a cancelled fault has happened.
        world.injected[fault.kind] += 1
        world.loop.call_soon(world.look)  # after the fault's immediate effect
        try:
            if not await fault.act(world, self._random):
                world.injected[fault.kind] -= 1
        finally:
            world.disturbances -= fault.befalls_brokers
        world.look()
