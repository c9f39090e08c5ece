"""Exceptions that checkers allow because Kafka does not prevent them: each really happens."""

from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from barnabas.base.ids import TopicPartition
from barnabas.sim.checkers.all_checkers import check
from barnabas.sim.checkers.history import OperationOutcome, Poll, Send
from barnabas.sim.clients.admin_client import Admin
from barnabas.sim.clients.consumer_client import Consumer
from barnabas.sim.clients.producer_client import Producer
from barnabas.sim.final_read import read_all
from barnabas.sim.world.machine import Machine
from barnabas.sim.world.seed_settings import broker_stream, settings_of
from barnabas.sim.world.sim_world import SimWorld

AT = TopicPartition("orders", 0)
CLIENT = "client"


@pytest.fixture
def world() -> Iterator[SimWorld]:
    with SimWorld(settings_of(7)) as world:
        run_on(world, None, world.start())
        yield world
    assert world.broken == []


def run_on(world: SimWorld, host: str | None, work: Coroutine[Any, Any, Any]) -> Any:
    """Run work to its end, on a new client host or on none."""
    on = None if host is None else world.client(host)
    return world.loop.run_until_complete(world.loop.spawn(on, work))


def until(world: SimWorld, condition: Any) -> None:
    assert run_on(world, None, world.until(condition, 60)), world.observer.why_unhealthy()


def producer(world: SimWorld) -> Producer:
    random = broker_stream(7, "producer")
    return Producer(CLIENT, world.settings.bootstrap, random, world.history, acks=-1)


async def made(world: SimWorld, replicas: int) -> None:
    admin = Admin(CLIENT, world.settings.bootstrap, broker_stream(7, "admin"), world.history)
    await admin.create(AT.topic, 1, replicas)


async def healed(world: SimWorld) -> None:
    world.heal()


def leader(world: SimWorld) -> Machine:
    seen = next(each for each in world.observer.partitions() if each.topic_partition == AT)
    assert seen.state is not None
    return world.machines[seen.state.leader]


def end_of(machine: Machine) -> int:
    log = machine.broker.logs.get(AT) if machine.broker else None
    return log.log_end_offset if log else -1


def test_a_restarted_broker_knows_only_the_last_batch_of_a_producer(
    world: SimWorld,
) -> None:
    sending = producer(world)
    run_on(world, CLIENT, made(world, replicas=1))
    assert run_on(world, CLIENT, sending.send(AT, [1]))
    alone = leader(world)
    world.network.cut(alone.name, CLIENT, both=False)
    unheard = world.loop.spawn(world.client(CLIENT), sending.send(AT, [1, 1, 1]))
    until(world, lambda: end_of(alone) == 4)
    world.network.reset(alone.name, CLIENT)
    alone.stop()
    until(world, lambda: not alone.is_running)
    run_on(world, None, healed(world))
    alone.start()
    assert not world.loop.run_until_complete(unheard)
    _, (first, _), *_ = world.history.of(Send)
    assert (first.outcome, first.why) == (OperationOutcome.UNKNOWN, "out_of_order_sequence_number")
    until(world, lambda: world.observer.why_unhealthy() is None)
    final = run_on(world, "reader", read_all(world))
    assert len(final.partitions[0].records) == 4, "it was there all the time"
    assert check(world.history, final) == []


def test_a_partitioned_leader_rejects_a_position_of_its_successor(
    world: SimWorld,
) -> None:
    sending = producer(world)
    run_on(world, CLIENT, made(world, replicas=3))
    assert run_on(world, CLIENT, sending.send(AT, [2]))
    until(world, lambda: world.observer.why_unhealthy() is None)
    reading = Consumer(CLIENT, world.settings.bootstrap, broker_stream(7, "c"), world.history, "g")
    run_on(world, CLIENT, reading.connections.refresh())
    past = leader(world)
    world.ensemble.cut(past.name)
    for other in world.machines:
        if other is not past:
            world.network.cut(past.name, other.name)
    until(world, lambda: leader(world) is not past)
    while end_of(leader(world)) < 5:
        run_on(world, CLIENT, sending.send(AT, [1]))
    reading.assign({AT: 5})
    run_on(world, CLIENT, reading.poll())
    refused = [operation for operation, _ in world.history.of(Poll)]
    assert [operation.why for operation in refused] == ["offset_out_of_range"]
    run_on(world, None, healed(world))
    until(world, lambda: world.observer.why_unhealthy() is None)
    assert check(world.history, run_on(world, "reader", read_all(world))) == []
