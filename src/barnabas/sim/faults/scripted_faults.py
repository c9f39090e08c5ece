"""Faults that come in the one order in which a safeguard is all that stands between it and harm.

Each is an ordeal for one rule of base/safeguards.py. Chance alone would find most of them after
many hours; that they do no harm while the rule is in force is checked as for any other fault.
One ordeal at a time: the next begins when all have recovered from the one before.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.sim.clients.admin_client import Admin
from barnabas.sim.faults.fault_kinds import Fault
from barnabas.sim.workloads.admin_workload import CONFIG
from barnabas.sim.world.machine import Machine
from barnabas.sim.world.onlooker import Seen
from barnabas.sim.world.seed_settings import broker_stream
from barnabas.sim.world.sim_world import World

# How long something may take that is waited for; if it does not come, the ordeal is over.
COMES_WITHIN_S: Final = 20.0
LOOK_S: Final = 0.01
TOPIC: Final = "ordeal"

Act = Callable[[World, Random], Awaitable[bool]]


def _alone(act: Act) -> Act:
    """An ordeal with nothing beside it: it begins when no other fault is under way, the cluster is
    whole, and ends with all that it did. If that does not come, nothing happens."""

    async def acts(world: World, random: Random) -> bool:
        if world.is_delicate:
            return False
        world.is_delicate = True
        try:
            if not await _comes(lambda: world.disturbances == 1 and _is_whole(world)):
                return False
            try:
                return await act(world, random)
            finally:
                world.heal()
        finally:
            world.is_delicate = False

    return acts


def _is_whole(world: World) -> bool:
    return world.onlooker.what_is_missing() is None


async def _comes(condition: Callable[[], bool], within_s: float = COMES_WITHIN_S) -> bool:
    """Whether something comes to be in time; noticed almost at once."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not condition():
        if loop.time() > deadline:
            return False
        await asyncio.sleep(LOOK_S)
    return True


def _partition(world: World, random: Random) -> Seen | None:
    """A partition of some topic of the clients, with all its replicas on three brokers."""
    found = [
        seen
        for seen in world.onlooker.partitions()
        if not seen.topic_partition.topic.startswith("__") and len(seen.replicas) == 3
    ]
    return random.choice(found) if found else None


def _seen(world: World, at: TopicPartition) -> Seen | None:
    """None, if somebody has deleted it."""
    found = (seen for seen in world.onlooker.partitions() if seen.topic_partition == at)
    return next(found, None)


def _leader(world: World, at: TopicPartition) -> int:
    seen = _seen(world, at)
    return -1 if seen is None or seen.state is None else seen.state.leader


def _others(world: World, *but: Machine) -> list[Machine]:
    return [machine for machine in world.machines if machine not in but]


# -- epoch truncation --------------------------------------------------------


async def _two_leaders_die(world: World, random: Random) -> bool:
    """A leader dies; of the next one a follower hears only that it leads; then that one dies."""
    seen = _partition(world, random)
    if seen is None or seen.state is None:
        return False
    at, first = seen.topic_partition, world.machines[seen.state.leader]
    second, third = (world.machines[each] for each in seen.replicas if each != first.broker_id)
    world.story.tell("ordeal", f"{at} loses its leaders {first.name} and {second.name}")
    world.network.cut(third.name, second.name, both=False)
    # A follower learns later than clients what is committed, which now are told.
    await _comes(lambda: _committed(first, at) > _committed(third, at) >= 0, 5)
    await asyncio.sleep(LOOK_S)
    first.kill()
    before = _end(third, at)
    if await _comes(lambda: _leader(world, at) == second.broker_id):
        # Where it truncates by leader epochs, it has nothing to truncate.
        await _comes(lambda: _end(third, at) < before, random.uniform(0.1, 3.0))
        second.kill()
        await _comes(lambda: _leader(world, at) == third.broker_id)
    await asyncio.sleep(random.uniform(0, 2))
    return True


def _committed(machine: Machine, at: TopicPartition) -> int:
    """How far a broker knows the partition to be committed."""
    replica = None if machine.broker is None else machine.broker.replicas.get(at)
    return -1 if replica is None else replica.high_watermark


def _end(machine: Machine, at: TopicPartition) -> int:
    """How far a broker's log of the partition reaches."""
    log = None if machine.broker is None else machine.broker.logs.get(at)
    return -1 if log is None else log.log_end_offset


# -- the version of the in-sync replicas -------------------------------------


async def _deposed_unheard(world: World, random: Random) -> bool:
    """A partition is moved away from its leader, which does not hear of it, and lives on."""
    seen = _partition(world, random)
    controller = world.onlooker.controller
    if seen is None or seen.state is None or seen.state.leader == controller:
        return False
    at, old = seen.topic_partition, world.machines[seen.state.leader]
    others = [machine.broker_id for machine in _others(world, old)]
    random.shuffle(others)
    world.story.tell("ordeal", f"{at} is moved away from {old.name}, which does not hear of it")
    world.network.cut(f"broker-{controller}", old.name, both=False)
    await _administer(world, lambda admin: admin.reassign(at, tuple(others)))
    if await _comes(lambda: _leader(world, at) not in (-1, old.broker_id)):
        await asyncio.sleep(random.uniform(4, 8))
    world.network.heal()
    await _administer(world, lambda admin: admin.reassign(at, tuple(map(int, seen.replicas))))
    return True


async def _administer(
    world: World, ask: Callable[[Admin], Awaitable[object]], but: Machine | None = None
) -> None:
    """Let an administrator ask for something, from a machine of their own; not told by `but`."""
    random = broker_stream(world.setting.seed, f"ordeal {len(world.clients)}")
    name = f"admin-{len(world.clients)}"
    known = [each for each in world.setting.bootstrap if but is None or each[0] != but.name]
    admin = Admin(name, known, random, world.history)

    async def asking() -> None:
        await admin.connections.refresh()
        await ask(admin)
        admin.close()

    await world.loop.spawn(world.client(name), asking())


# -- the controller's epoch --------------------------------------------------


async def _order_of_the_past(world: World, random: Random) -> bool:
    """A controller orders a deletion, loses its office, and is heard when the name is in use again.

    What it ordered reaches one broker only then; it does not know yet that it was replaced.
    """
    controller = world.onlooker.controller
    if controller is None:
        return False
    old = world.machines[controller]
    deaf, other = random.sample(_others(world, old), 2)
    replicas = (deaf.broker_id, other.broker_id)
    if not await _make(world, replicas):
        return False
    world.story.tell("ordeal", f"{deaf.name} does not hear {old.name}, which deletes {TOPIC}")
    world.network.cut(old.name, deaf.name)
    await _administer(world, lambda admin: admin.delete(TOPIC))
    world.ensemble.cut(old.name)
    if await _comes(lambda: not _exists(world)) and await _make(world, replicas, but=old):
        await asyncio.sleep(random.uniform(0.5, 2))
        world.story.tell("ordeal", f"{deaf.name} hears {old.name} again")
        world.network.join(old.name, deaf.name)
        await asyncio.sleep(random.uniform(3, 5))
    return True


async def _make(world: World, replicas: tuple[int, ...], but: Machine | None = None) -> bool:
    """Whether a topic of one partition could be made, and brought to these brokers."""
    at = TopicPartition(TOPIC, 0)
    await _administer(world, lambda admin: admin.create(TOPIC, 1, len(replicas), CONFIG), but)
    await _administer(world, lambda admin: admin.reassign(at, replicas), but)
    return await _comes(lambda: _is_settled(world, at, replicas))


def _exists(world: World) -> bool:
    return any(seen.topic_partition.topic == TOPIC for seen in world.onlooker.partitions())


def _is_settled(world: World, at: TopicPartition, replicas: tuple[int, ...]) -> bool:
    seen = _seen(world, at)
    if seen is None or seen.state is None:
        return False
    in_sync = seen.state.isr
    return not seen.is_moving and sorted(seen.replicas) == sorted(in_sync) == sorted(replicas)


# -- min.insync.replicas -----------------------------------------------------


async def _alone_and_then_dark(world: World, random: Random) -> bool:
    """A leader is left alone, takes what clients send, and loses power.

    All that it had until it was alone is on the medium, so nothing that was promised is lost.
    """
    seen = _partition(world, random)
    if seen is None or seen.state is None:
        return False
    lone = world.machines[seen.state.leader]
    world.story.tell("ordeal", f"{lone.name} is left alone, and then loses power")
    for other in _others(world, lone):
        world.network.cut(lone.name, other.name)
    if await _comes(lambda: _is_alone(world, lone)):
        for disk in lone.disks.values():
            disk.write_back()
        # Where the rule is in force, nothing is ever promised by one that is alone.
        before = _all_committed(lone)
        await _comes(lambda: _all_committed(lone) > before + random.randrange(2, 12), 5)
        lone.power_off()
        await asyncio.sleep(random.uniform(0, 2))
    return True


def _is_alone(world: World, lone: Machine) -> bool:
    """Whether nobody is in sync with it any more, wherever it leads; and that it knows."""
    if lone.broker is None:
        return False
    return all(leader.isr == (lone.broker_id,) for leader in lone.broker.replicas)


def _all_committed(machine: Machine) -> int:
    """How many records a broker that leads says are committed."""
    return sum(leader.high_watermark for leader in machine.broker.replicas) if machine.broker else 0


EPOCH_TRUNCATION: Final = Fault("two leaders die", 1, _alone(_two_leaders_die))
ISR_VERSION: Final = Fault("leader deposed unheard", 1, _alone(_deposed_unheard))
CONTROLLER_EPOCH: Final = Fault("order of a past controller", 1, _alone(_order_of_the_past))
MIN_INSYNC: Final = Fault("lone leader loses power", 1, _alone(_alone_and_then_dark))
