"""Scripted faults of transactions: sequences that one safeguard of transactions makes harmless."""

import asyncio
from itertools import product
from random import Random
from typing import Any, Final

from barnabas.base.ids import TopicPartition
from barnabas.server.transactions.transaction_topic import TRANSACTION_TOPIC
from barnabas.sim.clients.admin_client import Admin
from barnabas.sim.faults.fault_kinds import Fault
from barnabas.sim.faults.late_requests import repeat
from barnabas.sim.faults.scripting import administer, alone, comes, other_machines
from barnabas.sim.world.machine import Machine
from barnabas.sim.world.request_capture import CapturedRequest
from barnabas.sim.world.sim_world import SimWorld
from barnabas.transactions.transaction_state import TransactionState
from barnabas.wire.apis import ApiKey
from barnabas.wire.schema import read_as_sent

ANSWERED_S: Final = 0.02  # an answer reaches its client within this

# -- replicate before answering ----------------------------------------------


async def _dies_ahead(world: SimWorld, random: Random) -> bool:
    """A coordinator is partitioned from its followers when an EndTxn arrives, and dies.

    Its client still hears it, if it answers.
    """
    caught: list[Machine] = []
    others = random.randrange(3)  # how many EndTxn are served before

    def cut_off(request: CapturedRequest) -> None:
        nonlocal others
        others -= request.key is ApiKey.END_TXN
        if others < 0 and not caught:
            machine = next(each for each in world.machines if each.name == request.broker)
            caught.append(machine)
            for other in other_machines(world, machine):
                world.network.cut(machine.name, other.name)

    world.captured.on_captured = cut_off
    is_caught = await comes(lambda: bool(caught), 10)
    world.captured.on_captured = None
    if not is_caught:
        return False
    world.trace.add("ordeal", f"{caught[0].name} has an EndTxn that nobody else has, and dies")
    await asyncio.sleep(ANSWERED_S)
    caught[0].kill()
    await comes(lambda: not _leads_ids(world, caught[0]))
    return True


def _leads_ids(world: SimWorld, machine: Machine) -> bool:
    """True if the tree has the broker as a transaction coordinator, or no coordinator."""
    leaders = [
        -1 if seen.state is None else seen.state.leader
        for seen in world.observer.partitions()
        if seen.topic_partition.topic == TRANSACTION_TOPIC
    ]
    return machine.broker_id in leaders or -1 in leaders


# -- the coordinator's epoch -------------------------------------------------


async def _marker_of_the_past(world: SimWorld, random: Random) -> bool:
    """A marker arrives again, when the next coordinator has ended another transaction.

    It arrives while the producer, in the same epoch, has a later transaction open.
    """
    if not (late := _captured_markers(world)):
        return False
    producer_id = random.choice(late)[1].producer_id
    old = next((each for each in world.machines if _coordinates(each, producer_id)), None)
    if old is None:
        return False
    world.trace.add("ordeal", f"{old.name} stops to coordinate producer {producer_id}")
    if world.settings.is_sole:
        await _move_ids_away(world, old, random)
    else:
        old.is_taken_down = True
        old.stop()

    def harmful() -> list[CapturedRequest]:
        return [request for request, marker in late if _is_amid_next(world, request, marker)]

    if await comes(lambda: bool(harmful())):
        request = harmful()[0]
        world.trace.add("ordeal", f"a marker of {old.name} arrives late at {request.broker}")
        await repeat(world, request, f"echo-{len(world.clients)}")
    return True


async def _move_ids_away(world: SimWorld, old: Machine, random: Random) -> None:
    """Nobody else has what a sole replica has, so another one must copy it first."""
    to = (random.choice(other_machines(world, old)).broker_id,)
    coordinated = [
        seen.topic_partition
        for seen in world.observer.partitions()
        if seen.topic_partition.topic == TRANSACTION_TOPIC and old.broker_id in seen.replicas
    ]

    async def move_all(admin: Admin) -> None:
        for at in coordinated:
            await admin.reassign(at, to)

    await administer(world, move_all)


def _captured_markers(world: SimWorld) -> list[tuple[CapturedRequest, Any]]:
    """The captured requests with a marker for one partition of the clients, and that marker."""
    found = []
    for request in world.captured.kept:
        if request.key is ApiKey.WRITE_TXN_MARKERS:
            markers = _message(request).markers
            topics = [topic for marker in markers for topic in marker.topics]
            if len(topics) == 1 and not topics[0].name.startswith("__"):
                found.append((request, markers[0]))
    return found


def _message(request: CapturedRequest) -> Any:
    """The message behind the size, the API, its version, a number, the client's id and tags."""
    frame = memoryview(request.frame)
    client = 14 + max(0, int.from_bytes(frame[12:14], signed=True))
    return read_as_sent(request.key, int.from_bytes(frame[6:8]), frame[client + 1 :])


def _coordinates(machine: Machine, producer_id: int) -> bool:
    if machine.broker is None:
        return False
    known = machine.broker.transactions.loaded()
    return any(each.producer_id == producer_id for each in known)


def _is_amid_next(world: SimWorld, request: CapturedRequest, marker: Any) -> bool:
    """True if the producer has a transaction open after a marker of a later coordinator."""
    (topic,) = marker.topics
    at = TopicPartition(topic.name, topic.partition_indexes[0])
    machine = next(each for each in world.machines if each.name == request.broker)
    leader = None if machine.broker is None else machine.broker.replicas.get(at)
    if leader is None:
        return False
    producers = leader.log.producers
    state = producers.producers.get(marker.producer_id)
    return (
        state is not None
        and state.coordinator_epoch > marker.coordinator_epoch
        and producers.has_ongoing(marker.producer_id, marker.producer_epoch)
    )


# -- the verification guard --------------------------------------------------


async def _overtaken(world: SimWorld, random: Random) -> bool:
    """Packets of clients are lost: the end of a transaction overtakes a batch of it."""
    world.trace.add("network", "clients lose packets")
    for client, machine in product(world.clients, world.machines):
        world.network.lose(client.name, machine.name, random.uniform(0.1, 0.4))
    await asyncio.sleep(random.uniform(2, 5))
    return True


# -- an epoch for each transaction -------------------------------------------


async def _end_of_the_past(world: SimWorld, random: Random) -> bool:
    """An EndTxn arrives again: amid the next transaction of its epoch, if there is one."""
    found = [each for each in world.captured.kept if each.key is ApiKey.END_TXN]
    if not found:
        return False
    request = random.choice(found)
    await asyncio.sleep(ANSWERED_S)  # its own transaction is over
    await comes(lambda: _is_open_again(world, request), 3)
    world.trace.add(request.broker, "END_TXN arrives again")
    await repeat(world, request, f"echo-{len(world.clients)}")
    return True


def _is_open_again(world: SimWorld, request: CapturedRequest) -> bool:
    ended = _message(request)
    broker = next(each for each in world.machines if each.name == request.broker).broker
    return broker is not None and any(
        (each.transactional_id, each.producer_epoch, each.state)
        == (ended.transactional_id, ended.producer_epoch, TransactionState.ONGOING)
        for each in broker.transactions.loaded()
    )


LATE_END: Final = Fault("EndTxn repeated late", 1, _end_of_the_past, False)
REPLICATE_BEFORE_ANSWER: Final = Fault("coordinator dies ahead", 1, alone(_dies_ahead))
COORDINATOR_EPOCH: Final = Fault("marker of a past coordinator", 1, alone(_marker_of_the_past))
VERIFICATION_GUARD: Final = Fault("batch overtaken by its end", 1, alone(_overtaken))
