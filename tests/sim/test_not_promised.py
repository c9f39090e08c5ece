"""What checkers allow since nobody promises it, each shown to happen, so that it is no excuse."""

from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from barnabas.base.ids import TopicPartition
from barnabas.sim.checkers.all_checkers import check
from barnabas.sim.checkers.final_read import read_all
from barnabas.sim.checkers.history import Outcome, Poll, Send
from barnabas.sim.clients.admin_client import Admin
from barnabas.sim.clients.consumer_client import Consumer
from barnabas.sim.clients.producer_client import Producer
from barnabas.sim.world.machine import Machine
from barnabas.sim.world.seed_settings import broker_stream, setting_of
from barnabas.sim.world.sim_world import World

AT = TopicPartition("orders", 0)
CLIENT = "client"


@pytest.fixture
def world() -> Iterator[World]:
    with World(setting_of(7)) as world:
        play(world, None, world.start())
        yield world
    assert world.broken == []


def play(world: World, host: str | None, work: Coroutine[Any, Any, Any]) -> Any:
    """Run to its end, on a host of its own or none."""
    on = None if host is None else world.client(host)
    return world.loop.run_until_complete(world.loop.spawn(on, work))


def until(world: World, condition: Any) -> None:
    assert play(world, None, world.until(condition, 60)), world.onlooker.what_is_missing()


def producer(world: World) -> Producer:
    random = broker_stream(7, "producer")
    return Producer(CLIENT, world.setting.bootstrap, random, world.history, acks=-1)


async def made(world: World, replicas: int) -> None:
    admin = Admin(CLIENT, world.setting.bootstrap, broker_stream(7, "admin"), world.history)
    await admin.create(AT.topic, 1, replicas)


async def healed(world: World) -> None:
    world.heal()


def leader(world: World) -> Machine:
    seen = next(each for each in world.onlooker.partitions() if each.topic_partition == AT)
    assert seen.state is not None
    return world.machines[seen.state.leader]


def end_of(machine: Machine) -> int:
    log = machine.broker.logs.get(AT) if machine.broker else None
    return log.log_end_offset if log else -1


def test_a_broker_that_was_started_again_knows_only_the_last_batch_of_a_producer(
    world: World,
) -> None:
    sending = producer(world)
    play(world, CLIENT, made(world, replicas=1))
    assert play(world, CLIENT, sending.send(AT, [1]))
    alone = leader(world)
    world.network.cut(alone.name, CLIENT, both=False)
    unheard = world.loop.spawn(world.client(CLIENT), sending.send(AT, [1, 1, 1]))
    until(world, lambda: end_of(alone) == 4)
    world.network.reset(alone.name, CLIENT)
    alone.stop()
    until(world, lambda: not alone.is_running)
    play(world, None, healed(world))
    alone.start()
    assert not world.loop.run_until_complete(unheard)
    _, (first, _), *_ = world.history.of(Send)
    assert (first.outcome, first.why) == (Outcome.UNKNOWN, "out_of_order_sequence_number")
    until(world, lambda: world.onlooker.what_is_missing() is None)
    final = play(world, "reader", read_all(world))
    assert len(final.partitions[0].records) == 4, "it was there all the time"
    assert check(world.history, final) == []


def test_a_leader_that_is_cut_off_does_not_know_what_a_member_has_read_from_the_next(
    world: World,
) -> None:
    sending = producer(world)
    play(world, CLIENT, made(world, replicas=3))
    assert play(world, CLIENT, sending.send(AT, [2]))
    until(world, lambda: world.onlooker.what_is_missing() is None)
    reading = Consumer(CLIENT, world.setting.bootstrap, broker_stream(7, "c"), world.history, "g")
    play(world, CLIENT, reading.connections.refresh())
    past = leader(world)
    world.ensemble.cut(past.name)
    for other in world.machines:
        if other is not past:
            world.network.cut(past.name, other.name)
    until(world, lambda: leader(world) is not past)
    while end_of(leader(world)) < 5:
        play(world, CLIENT, sending.send(AT, [1]))
    reading.assign({AT: 5})
    play(world, CLIENT, reading.poll())
    refused = [operation for operation, _ in world.history.of(Poll)]
    assert [operation.why for operation in refused] == ["offset_out_of_range"]
    play(world, None, healed(world))
    until(world, lambda: world.onlooker.what_is_missing() is None)
    assert check(world.history, play(world, "reader", read_all(world))) == []
