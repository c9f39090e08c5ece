"""Every kind of fault: its victim, its effect, and its end."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from barnabas.sim.world.machine import Machine, logs_in
from barnabas.sim.world.sim_disk import FAILING
from barnabas.sim.world.sim_world import SimWorld

BIT_ROT: Final = "bit rot"
STOPS_WITHIN_S: Final = 60.0
CAUGHT_UP_WITHIN_S: Final = 120.0
LONGEST_JUMP_MS: Final = 600_000


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault. `act` returns when it has ended; False if there was no victim."""

    kind: str
    weight: int
    act: Callable[[SimWorld, Random], Awaitable[bool]]
    befalls_brokers: bool = True


# -- processes and machines --------------------------------------------------


def _victim(world: SimWorld, random: Random) -> Machine | None:
    """A serving broker: often the controller, which matters most."""
    serving = [each for each in world.machines if each.broker is not None and not each.is_paused]
    if not serving:
        return None
    if random.random() < 0.3:
        controller = world.observer.controller
        serving = [each for each in serving if each.broker_id == controller] or serving
    return random.choice(serving)


async def _kill(world: SimWorld, random: Random) -> bool:
    if (victim := _victim(world, random)) is None:
        return False
    world.trace.add(victim.name, "is killed")
    victim.kill()
    await asyncio.sleep(_down_s(random))
    victim.start()
    return True


async def _kill_and_unregister(world: SimWorld, random: Random) -> bool:
    """A supervisor closes the session of the dead process, at the latest when it starts again."""
    if (victim := _victim(world, random)) is None:
        return False
    down_s = _down_s(random)
    seen_s = min(down_s, random.choice([0.0, random.uniform(0, 0.5), down_s]))
    world.trace.add(victim.name, f"is killed, its supervisor sees it after {seen_s:.2f} s")
    victim.kill()
    await asyncio.sleep(seen_s)
    if world.ensemble.servers.reach(victim.name):
        world.ensemble.expire(victim.name)
    await asyncio.sleep(down_s - seen_s)
    victim.start()
    return True


def _down_s(random: Random) -> float:
    return random.choice([0.1, 1.0, random.uniform(0, 12)])


async def _lose_power(world: SimWorld, random: Random, *, rots: bool = False) -> bool:
    victim = _victim(world, random)
    # With bit rot, flushed records may be lost, too.
    is_delicate = rots or not world.settings.flushes_each
    if victim is None or (is_delicate and not _may_lose(world, victim)):
        return False
    world.is_delicate |= is_delicate
    world.trace.add(victim.name, "loses power")
    victim.power_off()
    if rots and (rotten := _rot_somewhere(victim, random)) is not None:
        world.trace.add(victim.name, f"a bit has rotted in {rotten}")
    await asyncio.sleep(random.choice([0.5, random.uniform(0, 12)]))
    world.trace.add(victim.name, "has power again")
    victim.start()
    if is_delicate:
        await world.until(lambda: world.observer.is_in_sync(victim), CAUGHT_UP_WITHIN_S)
        world.is_delicate = False
    return True


def _may_lose(world: SimWorld, victim: Machine) -> bool:
    # Where one replica is enough, an administrator may leave a partition to the victim meanwhile.
    if world.settings.is_sole:
        return False
    return world.disturbances == 1 and world.observer.may_lose(victim)


async def _rot(world: SimWorld, random: Random) -> bool:
    return await _lose_power(world, random, rots=True)


def _rot_somewhere(victim: Machine, random: Random) -> str | None:
    """Flip a bit in the last segment of some log, which a broker scans after a crash. As in
    Kafka, earlier segments are trusted because they were flushed."""
    disk = victim.disks[random.choice(list(victim.disks))]
    segments = [
        f"{folder}/{names[-1]}"
        for folder in logs_in(disk)
        if (names := [name for name in disk.list(folder) if name.endswith(".log")])
    ]
    return disk.rot(random.choice(segments)) if segments else None


async def _restart(world: SimWorld, random: Random) -> bool:
    if (victim := _victim(world, random)) is None:
        return False
    await _stop_and_start(world, victim, random.uniform(0, 5))
    return True


async def _stop_and_start(world: SimWorld, victim: Machine, down_s: float) -> None:
    world.trace.add(victim.name, "is asked to stop")
    victim.is_taken_down = True
    victim.stop()
    await world.until(lambda: not victim.is_running, STOPS_WITHIN_S)
    await asyncio.sleep(down_s)
    victim.start()


async def _pause(world: SimWorld, random: Random) -> bool:
    if (victim := _victim(world, random)) is None:
        return False
    lasts_s = random.uniform(0.2, 3 * world.settings.session_timeout_s)
    world.trace.add(victim.name, f"stands still for {lasts_s:.1f} s")
    victim.pause()
    await asyncio.sleep(lasts_s)
    if victim.is_paused:
        world.trace.add(victim.name, "goes on")
        victim.resume()
    return True


# -- the network -------------------------------------------------------------


def _two(world: SimWorld, random: Random) -> tuple[str, str]:
    """Two hosts, at least one of them a broker."""
    one = random.choice(world.machines).name
    others = [each.name for each in world.machines if each.name != one]
    return one, random.choice([*others, *others, *(each.name for each in world.clients)])


async def _cut(world: SimWorld, random: Random, *, both: bool) -> bool:
    """Partition one broker from another, from all brokers, or also from all clients."""
    one, other = _two(world, random)
    others = [other]
    if random.random() < 0.4:
        others = [each.name for each in world.machines if each.name != one]
    if random.random() < 0.2:
        others += [each.name for each in world.clients]
    cut = dict.fromkeys(others)
    outward = random.random() < 0.5
    how = "do not hear each other" if both else "hear only one side"
    world.trace.add("network", f"{one} and {', '.join(cut)} {how}")
    for name in cut:
        world.network.cut(*((one, name) if outward else (name, one)), both=both)
    await asyncio.sleep(random.choice([random.uniform(0.1, 2), random.uniform(1, 20)]))
    world.trace.add("network", f"{one} and {', '.join(cut)} hear each other again")
    for name in cut:
        world.network.join(one, name)
    return True


async def _cut_both_ways(world: SimWorld, random: Random) -> bool:
    return await _cut(world, random, both=True)


async def _cut_one_way(world: SimWorld, random: Random) -> bool:
    return await _cut(world, random, both=False)


async def _slow_link(world: SimWorld, random: Random) -> bool:
    one, other = _two(world, random)
    bytes_per_s = random.choice([500, 5_000, 50_000])
    world.trace.add("network", f"{one} and {other} have only {bytes_per_s} bytes/s")
    world.network.slow(one, other, bytes_per_s)
    await asyncio.sleep(random.uniform(1, 15))
    world.network.join(one, other)
    return True


async def _lose_packets(world: SimWorld, random: Random) -> bool:
    one, other = _two(world, random)
    share = random.choice([0.02, 0.1, 0.4])
    world.trace.add("network", f"{one} and {other} lose {share:.0%} of what they send")
    world.network.lose(one, other, share)
    await asyncio.sleep(random.uniform(1, 15))
    world.network.join(one, other)
    return True


async def _reset(world: SimWorld, random: Random) -> bool:
    one, other = _two(world, random)
    broken = world.network.reset(one, other)
    if broken:
        world.trace.add("network", f"{broken} connections of {one} and {other} are reset")
    return broken > 0


# -- the coordination tree ---------------------------------------------------


async def _expire(world: SimWorld, random: Random) -> bool:
    if (victim := _victim(world, random)) is None:
        return False
    world.trace.add(victim.name, "its session is expired")
    world.ensemble.expire(victim.name)
    return True


async def _disconnect(world: SimWorld, random: Random) -> bool:
    if (victim := _victim(world, random)) is None:
        return False
    world.trace.add(victim.name, "its connection to the tree breaks")
    world.ensemble.disconnect(victim.name)
    return True


async def _cut_from_tree(world: SimWorld, random: Random) -> bool:
    if (victim := _victim(world, random)) is None:
        return False
    lasts_s = random.uniform(0.2, 2.5 * world.settings.session_timeout_s)
    world.trace.add(victim.name, f"does not reach the tree for {lasts_s:.1f} s")
    world.ensemble.cut(victim.name)
    await asyncio.sleep(lasts_s)
    world.ensemble.heal(victim.name)
    return True


async def _stop_tree(world: SimWorld, random: Random) -> bool:
    lasts_s = random.uniform(0.2, 2 * world.settings.session_timeout_s)
    world.trace.add("tree", f"serves nobody for {lasts_s:.1f} s")
    world.ensemble.stop()
    await asyncio.sleep(lasts_s)
    world.ensemble.start()
    return True


# -- disks and clocks --------------------------------------------------------


async def _fill_disk(world: SimWorld, random: Random) -> bool:
    if (victim := _victim(world, random)) is None:
        return False
    folder = random.choice(list(victim.disks))
    world.trace.add(victim.name, f"its disk {folder} is full")
    victim.disks[folder].is_full = True
    await asyncio.sleep(random.uniform(0.5, 8))
    await _repair(world, victim)
    return True


async def _fail_disk(world: SimWorld, random: Random) -> bool:
    if (victim := _victim(world, random)) is None:
        return False
    folder, operation = random.choice(list(victim.disks)), random.choice(FAILING)
    world.trace.add(victim.name, f"its disk {folder} fails at the next {operation}")
    victim.disks[folder].fail_next(operation, random.choice([1, 1, 3]))
    await asyncio.sleep(random.uniform(0.5, 8))
    await _repair(world, victim)
    return True


async def _repair(world: SimWorld, victim: Machine) -> None:
    """Repair the disks, and restart a broker that has an offline log directory."""
    victim.mend()
    if victim.broker is not None and victim.broker.logs.offline:
        await _stop_and_start(world, victim, 0)


async def _slow_disk(world: SimWorld, random: Random) -> bool:
    if (victim := _victim(world, random)) is None:
        return False
    most_ms = random.choice([50, 400, 3_000])
    world.trace.add(victim.name, f"its disks take up to {most_ms} ms")
    victim.offload.most_ms = most_ms
    await asyncio.sleep(random.uniform(1, 10))
    victim.mend()
    return True


async def _jump(world: SimWorld, random: Random) -> bool:
    victim = random.choice(world.machines)
    by_ms = random.choice([-1, 1]) * random.choice([50, 5_000, LONGEST_JUMP_MS])
    world.trace.add(victim.name, f"its clock is set by {by_ms} ms")
    victim.clock.jump(by_ms)
    return True


KINDS: Final = (
    Fault("broker killed", 3, _kill),
    Fault("broker killed and unregistered", 3, _kill_and_unregister),
    Fault("power lost", 8, _lose_power),
    Fault("broker stopped and started", 4, _restart),
    Fault("broker paused", 5, _pause),
    Fault("partition", 5, _cut_both_ways),
    Fault("one-way partition", 4, _cut_one_way),
    Fault("slow link", 2, _slow_link),
    Fault("packets lost", 2, _lose_packets),
    Fault("connections reset", 2, _reset),
    Fault("session expired", 4, _expire),
    Fault("connection to the tree lost", 2, _disconnect),
    Fault("cut off from the tree", 4, _cut_from_tree),
    Fault("tree unavailable", 2, _stop_tree),
    Fault("disk full", 2, _fill_disk),
    Fault("disk error", 2, _fail_disk),
    Fault("slow disk", 2, _slow_disk),
    Fault("clock set", 2, _jump, befalls_brokers=False),
    Fault(BIT_ROT, 8, _rot),
)
