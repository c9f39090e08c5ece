"""Requests about transactions that arrive again, late and out of order.

A client that gets no answer sends its request again on another connection, and TCP may deliver the
first one long after. So each request that reached a broker may reach it, or its successor on the
same machine, a second time: EndTxn, AddPartitionsToTxn and WriteTxnMarkers.
"""

import asyncio
from random import Random
from typing import Final

from barnabas.sim.faults.fault_kinds import Fault
from barnabas.sim.world.request_capture import CapturedRequest
from barnabas.sim.world.seed_settings import PORT
from barnabas.sim.world.sim_world import SimWorld

LATEST_S: Final = 8.0
_ANSWERED_S: Final = 3.0


async def repeat(world: SimWorld, request: CapturedRequest, host: str) -> None:
    """Deliver the request again, from a host of its own; nobody waits for the answer."""
    loop = asyncio.get_running_loop()

    async def deliver() -> None:
        try:
            transport, _ = await loop.create_connection(asyncio.Protocol, request.broker, PORT)
        except OSError:
            return
        assert isinstance(transport, asyncio.Transport)
        transport.write(request.frame)
        await asyncio.sleep(_ANSWERED_S)
        transport.close()

    await world.loop.spawn(world.client(host), deliver())


async def _repeat_one(world: SimWorld, random: Random) -> bool:
    if not world.captured.kept:
        return False
    request = random.choice(list(world.captured.kept))
    late_s = random.choice([0.0, random.uniform(0, 1), random.uniform(0, LATEST_S)])
    await asyncio.sleep(late_s)
    world.trace.add(request.broker, f"{request.key.name} arrives again, {late_s:.1f} s late")
    await repeat(world, request, f"echo-{len(world.clients)}")
    return True


LATE_REQUEST: Final = Fault("request about a transaction repeated late", 12, _repeat_one, False)
