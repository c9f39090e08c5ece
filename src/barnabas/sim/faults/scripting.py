"""The parts of scripted faults: when they run, what they wait for, and what they look at."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.sim.clients.admin_client import Admin
from barnabas.sim.world.cluster_observer import ObservedPartition
from barnabas.sim.world.machine import Machine
from barnabas.sim.world.seed_settings import broker_stream
from barnabas.sim.world.sim_world import SimWorld

# Time limit for each condition that a script waits for; after it, the script ends.
COMES_WITHIN_S: Final = 20.0
LOOK_S: Final = 0.01

Act = Callable[[SimWorld, Random], Awaitable[bool]]


def alone(act: Act) -> Act:
    """A script that runs alone: it starts when no other fault is active and the cluster is
    healthy, and heals everything at its end. Without such a moment it does nothing."""

    async def acts(world: SimWorld, random: Random) -> bool:
        if world.is_delicate:
            return False
        world.is_delicate = True
        try:
            if not await comes(lambda: world.disturbances == 1 and _is_healthy(world)):
                return False
            try:
                return await act(world, random)
            finally:
                world.heal()
        finally:
            world.is_delicate = False

    return acts


def _is_healthy(world: SimWorld) -> bool:
    return world.observer.why_unhealthy() is None


async def comes(condition: Callable[[], bool], within_s: float = COMES_WITHIN_S) -> bool:
    """Wait for a condition with a fine resolution; return whether it held in time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not condition():
        if loop.time() > deadline:
            return False
        await asyncio.sleep(LOOK_S)
    return True


async def administer(
    world: SimWorld, ask: Callable[[Admin], Awaitable[object]], but: Machine | None = None
) -> None:
    """Send an admin request from a new client host, which does not know the broker `but`."""
    random = broker_stream(world.settings.seed, f"ordeal {len(world.clients)}")
    name = f"admin-{len(world.clients)}"
    known = [each for each in world.settings.bootstrap if but is None or each[0] != but.name]
    admin = Admin(name, known, random, world.history)

    async def asking() -> None:
        await admin.connections.refresh()
        await ask(admin)
        admin.close()

    await world.loop.spawn(world.client(name), asking())


def pick_partition(world: SimWorld, random: Random) -> ObservedPartition | None:
    """A partition of a client's topic with three replicas."""
    found = [
        seen
        for seen in world.observer.partitions()
        if not seen.topic_partition.topic.startswith("__") and len(seen.replicas) == 3
    ]
    return random.choice(found) if found else None


def seen_in_tree(world: SimWorld, at: TopicPartition) -> ObservedPartition | None:
    """The partition in the tree; None if it was deleted."""
    found = (seen for seen in world.observer.partitions() if seen.topic_partition == at)
    return next(found, None)


def leader_of(world: SimWorld, at: TopicPartition) -> int:
    seen = seen_in_tree(world, at)
    return -1 if seen is None or seen.state is None else seen.state.leader


def other_machines(world: SimWorld, *but: Machine) -> list[Machine]:
    return [machine for machine in world.machines if machine not in but]


def high_watermark_of(machine: Machine, at: TopicPartition) -> int:
    """The high watermark of a broker's replica; -1 without one."""
    replica = None if machine.broker is None else machine.broker.replicas.get(at)
    return -1 if replica is None else replica.high_watermark


def log_end_of(machine: Machine, at: TopicPartition) -> int:
    """The log end offset of a broker's replica; -1 without one."""
    log = None if machine.broker is None else machine.broker.logs.get(at)
    return -1 if log is None else log.log_end_offset
