"""Scripted faults: sequences in which only one safeguard prevents a broken law.

Each script targets one rule of base/safeguards.py. Random faults would take many hours to find
most of them. With the rule enabled, a script must break no law, like any other fault. Scripts run
one at a time: the next starts when the cluster has recovered.
"""

import asyncio
from random import Random
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.sim.faults.fault_kinds import Fault
from barnabas.sim.faults.scripting import (
    LOOK_S,
    administer,
    alone,
    comes,
    high_watermark_of,
    leader_of,
    log_end_of,
    other_machines,
    pick_partition,
    seen_in_tree,
)
from barnabas.sim.workloads.admin_workload import CONFIG
from barnabas.sim.world.machine import Machine
from barnabas.sim.world.sim_world import SimWorld

TOPIC: Final = "ordeal"


# -- epoch truncation --------------------------------------------------------


async def _two_leaders_die(world: SimWorld, random: Random) -> bool:
    """A leader dies; a follower learns of the next leader but cannot fetch; that one dies, too."""
    seen = pick_partition(world, random)
    if seen is None or seen.state is None:
        return False
    at, first = seen.topic_partition, world.machines[seen.state.leader]
    second, third = (world.machines[each] for each in seen.replicas if each != first.broker_id)
    world.trace.add("ordeal", f"{at} loses its leaders {first.name} and {second.name}")
    world.network.cut(third.name, second.name, both=False)
    # Wait until the follower's high watermark is behind the leader's.
    await comes(lambda: high_watermark_of(first, at) > high_watermark_of(third, at) >= 0, 5)
    await asyncio.sleep(LOOK_S)
    first.kill()
    before = log_end_of(third, at)
    if await comes(lambda: leader_of(world, at) == second.broker_id):
        # With truncation by leader epochs, it has nothing to truncate.
        await comes(lambda: log_end_of(third, at) < before, random.uniform(0.1, 3.0))
        second.kill()
        await comes(lambda: leader_of(world, at) == third.broker_id)
    await asyncio.sleep(random.uniform(0, 2))
    return True


# -- the version of the in-sync replicas -------------------------------------


async def _deposed_unheard(world: SimWorld, random: Random) -> bool:
    """A partition is reassigned away from its leader, which gets no request and keeps running."""
    seen = pick_partition(world, random)
    controller = world.observer.controller
    if seen is None or seen.state is None or seen.state.leader == controller:
        return False
    at, old = seen.topic_partition, world.machines[seen.state.leader]
    others = [machine.broker_id for machine in other_machines(world, old)]
    random.shuffle(others)
    world.trace.add("ordeal", f"{at} is moved away from {old.name}, which is cut off")
    world.network.cut(f"broker-{controller}", old.name, both=False)
    await administer(world, lambda admin: admin.reassign(at, tuple(others)))
    if await comes(lambda: leader_of(world, at) not in (-1, old.broker_id)):
        await asyncio.sleep(random.uniform(4, 8))
    world.network.heal()
    await administer(world, lambda admin: admin.reassign(at, tuple(map(int, seen.replicas))))
    return True


# -- the controller's epoch --------------------------------------------------


async def _order_of_the_past(world: SimWorld, random: Random) -> bool:
    """A past controller's StopReplica arrives after its topic was created again.

    The request reaches one broker only then; the controller does not know yet that it was replaced.
    """
    controller = world.observer.controller
    if controller is None:
        return False
    old = world.machines[controller]
    deaf, other = random.sample(other_machines(world, old), 2)
    replicas = (deaf.broker_id, other.broker_id)
    if not await _make(world, replicas):
        return False
    world.trace.add("ordeal", f"{deaf.name} does not hear {old.name}, which deletes {TOPIC}")
    world.network.cut(old.name, deaf.name)
    await administer(world, lambda admin: admin.delete(TOPIC))
    world.ensemble.cut(old.name)
    if await comes(lambda: not _exists(world)) and await _make(world, replicas, but=old):
        await asyncio.sleep(random.uniform(0.5, 2))
        world.trace.add("ordeal", f"{deaf.name} hears {old.name} again")
        world.network.join(old.name, deaf.name)
        await asyncio.sleep(random.uniform(3, 5))
    return True


async def _make(world: SimWorld, replicas: tuple[int, ...], but: Machine | None = None) -> bool:
    """Create a topic with one partition on these brokers; return whether that worked."""
    at = TopicPartition(TOPIC, 0)
    await administer(world, lambda admin: admin.create(TOPIC, 1, len(replicas), CONFIG), but)
    await administer(world, lambda admin: admin.reassign(at, replicas), but)
    return await comes(lambda: _is_settled(world, at, replicas))


def _exists(world: SimWorld) -> bool:
    return any(seen.topic_partition.topic == TOPIC for seen in world.observer.partitions())


def _is_settled(world: SimWorld, at: TopicPartition, replicas: tuple[int, ...]) -> bool:
    seen = seen_in_tree(world, at)
    if seen is None or seen.state is None:
        return False
    in_sync = seen.state.isr
    return not seen.is_moving and sorted(seen.replicas) == sorted(in_sync) == sorted(replicas)


# -- min.insync.replicas -----------------------------------------------------


async def _alone_and_then_dark(world: SimWorld, random: Random) -> bool:
    """A leader is partitioned from all followers, appends records, and loses power.

    All that it had before was flushed, so no committed record is lost.
    """
    seen = pick_partition(world, random)
    if seen is None or seen.state is None:
        return False
    lone = world.machines[seen.state.leader]
    world.trace.add("ordeal", f"{lone.name} is left alone, and then loses power")
    for other in other_machines(world, lone):
        world.network.cut(lone.name, other.name)
    if await comes(lambda: _is_alone(world, lone)):
        for disk in lone.disks.values():
            disk.write_back()
        # With the rule enabled, a leader alone in the ISR commits nothing.
        before = _all_committed(lone)
        await comes(lambda: _all_committed(lone) > before + random.randrange(2, 12), 5)
        lone.power_off()
        await asyncio.sleep(random.uniform(0, 2))
    return True


def _is_alone(world: SimWorld, lone: Machine) -> bool:
    """True if the broker's leaders all have an ISR of only this broker."""
    if lone.broker is None:
        return False
    return all(leader.isr == (lone.broker_id,) for leader in lone.broker.replicas)


def _all_committed(machine: Machine) -> int:
    """The sum of the high watermarks of the broker's leaders."""
    return sum(leader.high_watermark for leader in machine.broker.replicas) if machine.broker else 0


EPOCH_TRUNCATION: Final = Fault("two leaders die", 1, alone(_two_leaders_die))
ISR_VERSION: Final = Fault("leader deposed unheard", 1, alone(_deposed_unheard))
CONTROLLER_EPOCH: Final = Fault("order of a past controller", 1, alone(_order_of_the_past))
MIN_INSYNC: Final = Fault("lone leader loses power", 1, alone(_alone_and_then_dark))
