"""Scripted faults: sequences in which only one safeguard prevents a broken law.

Each script targets one rule of base/safeguards.py. Random faults would take many hours to find
most of them. With the rule enabled, a script must break no law, like any other fault. Scripts run
one at a time: the next starts when the cluster has recovered.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.sim.clients.admin_client import Admin
from barnabas.sim.faults.fault_kinds import Fault
from barnabas.sim.workloads.admin_workload import CONFIG
from barnabas.sim.world.cluster_observer import ObservedPartition
from barnabas.sim.world.machine import Machine
from barnabas.sim.world.seed_settings import broker_stream
from barnabas.sim.world.sim_world import SimWorld

# Time limit for each condition that a script waits for; after it, the script ends.
COMES_WITHIN_S: Final = 20.0
LOOK_S: Final = 0.01
TOPIC: Final = "ordeal"

Act = Callable[[SimWorld, Random], Awaitable[bool]]


def _alone(act: Act) -> Act:
    """A script that runs alone: it starts when no other fault is active and the cluster is
    healthy, and heals everything at its end. Without such a moment it does nothing."""

    async def acts(world: SimWorld, random: Random) -> bool:
        if world.is_delicate:
            return False
        world.is_delicate = True
        try:
            if not await _comes(lambda: world.disturbances == 1 and _is_healthy(world)):
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


async def _comes(condition: Callable[[], bool], within_s: float = COMES_WITHIN_S) -> bool:
    """Wait for a condition with a fine resolution; return whether it held in time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not condition():
        if loop.time() > deadline:
            return False
        await asyncio.sleep(LOOK_S)
    return True


def _partition(world: SimWorld, random: Random) -> ObservedPartition | None:
    """A partition of a client's topic with three replicas."""
    found = [
        seen
        for seen in world.observer.partitions()
        if not seen.topic_partition.topic.startswith("__") and len(seen.replicas) == 3
    ]
    return random.choice(found) if found else None


def _seen(world: SimWorld, at: TopicPartition) -> ObservedPartition | None:
    """The partition in the tree; None if it was deleted."""
    found = (seen for seen in world.observer.partitions() if seen.topic_partition == at)
    return next(found, None)


def _leader(world: SimWorld, at: TopicPartition) -> int:
    seen = _seen(world, at)
    return -1 if seen is None or seen.state is None else seen.state.leader


def _others(world: SimWorld, *but: Machine) -> list[Machine]:
    return [machine for machine in world.machines if machine not in but]


# -- epoch truncation --------------------------------------------------------


async def _two_leaders_die(world: SimWorld, random: Random) -> bool:
    """A leader dies; a follower learns of the next leader but cannot fetch; that one dies, too."""
    seen = _partition(world, random)
    if seen is None or seen.state is None:
        return False
    at, first = seen.topic_partition, world.machines[seen.state.leader]
    second, third = (world.machines[each] for each in seen.replicas if each != first.broker_id)
    world.trace.add("ordeal", f"{at} loses its leaders {first.name} and {second.name}")
    world.network.cut(third.name, second.name, both=False)
    # Wait until the follower's high watermark is behind the leader's.
    await _comes(lambda: _committed(first, at) > _committed(third, at) >= 0, 5)
    await asyncio.sleep(LOOK_S)
    first.kill()
    before = _end(third, at)
    if await _comes(lambda: _leader(world, at) == second.broker_id):
        # With truncation by leader epochs, it has nothing to truncate.
        await _comes(lambda: _end(third, at) < before, random.uniform(0.1, 3.0))
        second.kill()
        await _comes(lambda: _leader(world, at) == third.broker_id)
    await asyncio.sleep(random.uniform(0, 2))
    return True


def _committed(machine: Machine, at: TopicPartition) -> int:
    """The high watermark of a broker's replica; -1 without one."""
    replica = None if machine.broker is None else machine.broker.replicas.get(at)
    return -1 if replica is None else replica.high_watermark


def _end(machine: Machine, at: TopicPartition) -> int:
    """The log end offset of a broker's replica; -1 without one."""
    log = None if machine.broker is None else machine.broker.logs.get(at)
    return -1 if log is None else log.log_end_offset


# -- the version of the in-sync replicas -------------------------------------


async def _deposed_unheard(world: SimWorld, random: Random) -> bool:
    """A partition is reassigned away from its leader, which gets no request and keeps running."""
    seen = _partition(world, random)
    controller = world.observer.controller
    if seen is None or seen.state is None or seen.state.leader == controller:
        return False
    at, old = seen.topic_partition, world.machines[seen.state.leader]
    others = [machine.broker_id for machine in _others(world, old)]
    random.shuffle(others)
    world.trace.add("ordeal", f"{at} is moved away from {old.name}, which does not hear of it")
    world.network.cut(f"broker-{controller}", old.name, both=False)
    await _administer(world, lambda admin: admin.reassign(at, tuple(others)))
    if await _comes(lambda: _leader(world, at) not in (-1, old.broker_id)):
        await asyncio.sleep(random.uniform(4, 8))
    world.network.heal()
    await _administer(world, lambda admin: admin.reassign(at, tuple(map(int, seen.replicas))))
    return True


async def _administer(
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


# -- the controller's epoch --------------------------------------------------


async def _order_of_the_past(world: SimWorld, random: Random) -> bool:
    """A past controller's StopReplica arrives after its topic was created again.

    The request reaches one broker only then; the controller does not know yet that it was replaced.
    """
    controller = world.observer.controller
    if controller is None:
        return False
    old = world.machines[controller]
    deaf, other = random.sample(_others(world, old), 2)
    replicas = (deaf.broker_id, other.broker_id)
    if not await _make(world, replicas):
        return False
    world.trace.add("ordeal", f"{deaf.name} does not hear {old.name}, which deletes {TOPIC}")
    world.network.cut(old.name, deaf.name)
    await _administer(world, lambda admin: admin.delete(TOPIC))
    world.ensemble.cut(old.name)
    if await _comes(lambda: not _exists(world)) and await _make(world, replicas, but=old):
        await asyncio.sleep(random.uniform(0.5, 2))
        world.trace.add("ordeal", f"{deaf.name} hears {old.name} again")
        world.network.join(old.name, deaf.name)
        await asyncio.sleep(random.uniform(3, 5))
    return True


async def _make(world: SimWorld, replicas: tuple[int, ...], but: Machine | None = None) -> bool:
    """Create a topic with one partition on these brokers; return whether that worked."""
    at = TopicPartition(TOPIC, 0)
    await _administer(world, lambda admin: admin.create(TOPIC, 1, len(replicas), CONFIG), but)
    await _administer(world, lambda admin: admin.reassign(at, replicas), but)
    return await _comes(lambda: _is_settled(world, at, replicas))


def _exists(world: SimWorld) -> bool:
    return any(seen.topic_partition.topic == TOPIC for seen in world.observer.partitions())


def _is_settled(world: SimWorld, at: TopicPartition, replicas: tuple[int, ...]) -> bool:
    seen = _seen(world, at)
    if seen is None or seen.state is None:
        return False
    in_sync = seen.state.isr
    return not seen.is_moving and sorted(seen.replicas) == sorted(in_sync) == sorted(replicas)


# -- min.insync.replicas -----------------------------------------------------


async def _alone_and_then_dark(world: SimWorld, random: Random) -> bool:
    """A leader is partitioned from all followers, appends records, and loses power.

    All that it had before was flushed, so no committed record is lost.
    """
    seen = _partition(world, random)
    if seen is None or seen.state is None:
        return False
    lone = world.machines[seen.state.leader]
    world.trace.add("ordeal", f"{lone.name} is left alone, and then loses power")
    for other in _others(world, lone):
        world.network.cut(lone.name, other.name)
    if await _comes(lambda: _is_alone(world, lone)):
        for disk in lone.disks.values():
            disk.write_back()
        # With the rule enabled, a leader alone in the ISR commits nothing.
        before = _all_committed(lone)
        await _comes(lambda: _all_committed(lone) > before + random.randrange(2, 12), 5)
        lone.power_off()
        await asyncio.sleep(random.uniform(0, 2))
    return True


def _is_alone(world: SimWorld, lone: Machine) -> bool:
    """Whether the broker's leaders all have an ISR of only this broker."""
    if lone.broker is None:
        return False
    return all(leader.isr == (lone.broker_id,) for leader in lone.broker.replicas)


def _all_committed(machine: Machine) -> int:
    """The sum of the high watermarks of the broker's leaders."""
    return sum(leader.high_watermark for leader in machine.broker.replicas) if machine.broker else 0


EPOCH_TRUNCATION: Final = Fault("two leaders die", 1, _alone(_two_leaders_die))
ISR_VERSION: Final = Fault("leader deposed unheard", 1, _alone(_deposed_unheard))
CONTROLLER_EPOCH: Final = Fault("order of a past controller", 1, _alone(_order_of_the_past))
MIN_INSYNC: Final = Fault("lone leader loses power", 1, _alone(_alone_and_then_dark))
