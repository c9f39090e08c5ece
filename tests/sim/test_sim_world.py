"""The real broker in a simulated world: it starts, serves, dies, comes back, and is looked at."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from barnabas.base.ids import TopicPartition
from barnabas.log.log import Log
from barnabas.sim.checkers.final_read import read_all
from barnabas.sim.checkers.history import History, Outcome, Send
from barnabas.sim.clients.admin_client import Admin
from barnabas.sim.clients.producer_client import Producer
from barnabas.sim.faults.fault_kinds import KINDS, Fault
from barnabas.sim.faults.fault_plan import Faults
from barnabas.sim.faults.scripted_faults import MIN_INSYNC
from barnabas.sim.sim_run import run
from barnabas.sim.workloads.workloads import Reading
from barnabas.sim.world.seed_settings import broker_stream, setting_of
from barnabas.sim.world.sim_world import LOOK_S, World

AT = TopicPartition("orders", 0)


@pytest.fixture
def world() -> Iterator[World]:
    with World(setting_of(7)) as world:
        play(world, world.start())
        yield world
    assert world.broken == []


def play(world: World, work: Coroutine[Any, Any, Any]) -> Any:
    return world.loop.run_until_complete(world.loop.spawn(None, work))


def until(world: World, condition: Callable[[], bool]) -> None:
    assert play(world, world.until(condition, 60)), world.onlooker.what_is_missing()


def is_whole(world: World) -> bool:
    return world.onlooker.what_is_missing() is None


def produce(world: World, batches: int) -> History:
    """Make a topic, and send to it with acks=all from a host of their own."""
    history, random = History(world.loop.time), broker_stream(7, "test")

    async def work() -> None:
        admin = Admin("admin", world.setting.bootstrap, random, history)
        producer = Producer("producer", world.setting.bootstrap, random, history, acks=-1)
        await admin.create("orders", 1, 3)
        for _ in range(batches):
            assert await producer.send(AT, [3])

    world.loop.run_until_complete(world.loop.spawn(world.client("client"), work()))
    return history


def test_three_brokers_serve_in_virtual_time(world: World) -> None:
    history = produce(world, 10)
    until(world, lambda: is_whole(world))
    sent = [operation for operation, _ in history.of(Send)]
    assert [operation.outcome for operation in sent] == [Outcome.OK] * 10
    final = world.loop.run_until_complete(world.loop.spawn(world.client("reader"), read_all(world)))
    (end,) = final.partitions
    assert [value for _, value in end.records] == list(range(1, 31))
    assert sorted(end.replicas) == [0, 1, 2]
    assert len(set(end.replicas.values())) == 1


def test_a_cluster_is_not_whole_while_a_broker_stops(world: World) -> None:
    produce(world, 1)
    until(world, lambda: is_whole(world))
    world.machines[0].stop()
    assert world.machines[0].broker is not None
    assert world.onlooker.what_is_missing() == "broker-0 is about to stop"
    until(world, lambda: not world.machines[0].is_stopping)
    until(world, lambda: is_whole(world))


def test_a_broker_that_is_killed_loses_nothing_and_comes_back(world: World) -> None:
    produce(world, 5)
    leader = next(iter(world.onlooker.partitions())).state
    assert leader is not None
    victim = world.machines[leader.leader]
    victim.kill()
    assert not victim.is_running
    until(
        world, lambda: AT in {each.topic_partition for each in led_by_others(world, leader.leader)}
    )
    victim.start()
    until(world, lambda: is_whole(world))
    assert victim.broker is not None
    log = victim.broker.logs.get(AT)
    assert log is not None
    assert log.log_end_offset == 15


def led_by_others(world: World, broker: int) -> list[Any]:
    return [
        each
        for each in world.onlooker.partitions()
        if each.state is not None and each.state.leader not in (-1, broker)
    ]


def test_a_power_failure_takes_what_was_not_flushed_and_others_have_it(world: World) -> None:
    produce(world, 5)
    until(world, lambda: is_whole(world))
    victim = world.machines[0]
    assert world.onlooker.may_lose(victim)
    victim.power_off()
    # It may still count as in sync, but has nothing that could be relied on.
    assert not world.onlooker.is_in_sync(victim)
    victim.start()
    until(world, lambda: is_whole(world))
    assert world.onlooker.is_in_sync(victim)


def test_a_topic_that_was_deleted_does_not_come_back_with_the_power(world: World) -> None:
    history = produce(world, 5)
    until(world, lambda: is_whole(world))
    # What is there now is on the medium: only the deletion could be forgotten.
    for partition_log in logs(world):
        disk, folder = partition_log.disk, partition_log.folder
        for path in ("", folder, *(f"{folder}/{name}" for name in disk.list(folder))):
            disk.sync(path)
    admin = Admin("admin", world.setting.bootstrap, broker_stream(7, "deleting"), history)
    world.loop.run_until_complete(world.loop.spawn(world.client("admin"), admin.delete("orders")))
    until(world, lambda: not list(world.onlooker.partitions()))
    for machine in world.machines:
        machine.power_off()
        machine.start()
    until(world, lambda: is_whole(world))
    assert logs(world) == []


def logs(world: World) -> list[Log]:
    return [each for machine in world.machines if machine.broker for each in machine.broker.logs]


def test_a_broker_that_stops_by_itself_is_started_again(world: World) -> None:
    world.machines[1].stop()
    until(world, lambda: not world.machines[1].is_running)
    until(world, lambda: is_whole(world))


def test_a_broker_that_is_told_to_stop_hands_over_first(world: World) -> None:
    produce(world, 1)
    world.machines[0].is_taken_down = True
    world.machines[0].stop()
    until(world, lambda: not world.machines[0].is_running)
    assert all(
        each.state is not None and each.state.leader > 0 for each in world.onlooker.partitions()
    )
    world.machines[0].start()
    until(world, lambda: is_whole(world))


def test_two_leaders_of_one_epoch_would_be_seen(world: World) -> None:
    produce(world, 1)
    world.look()
    ((key, broker),) = [(k, b) for k, b in world.onlooker._leaders.items() if k[0] == AT]
    world.onlooker._leaders[key] = (broker + 1) % 3
    (seen,) = world.onlooker.broken_laws()
    assert "both lead orders-0" in seen
    world.onlooker._leaders[key] = broker


def test_a_leader_without_what_was_committed_would_be_seen(world: World) -> None:
    produce(world, 2)
    until(world, lambda: is_whole(world))
    world.look()
    ((key, (most, epoch)),) = [(k, v) for k, v in world.onlooker._committed.items() if k[0] == AT]
    assert most == 6
    world.onlooker._committed[key] = most + 1, epoch - 1
    (seen,) = world.onlooker.broken_laws()
    assert "without all that was committed: it has 6 of 7" in seen
    world.onlooker._committed[key] = most, epoch


def test_the_world_is_looked_at_when_a_fault_begins_and_when_it_ends(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[float] = []
    monkeypatch.setattr(world, "look", lambda: looked.append(world.loop.time()))

    async def lasting(*_: object) -> bool:
        await asyncio.sleep(LOOK_S / 2)
        return True

    fault = Fault("lasting", 1, lasting)
    began = world.loop.time()
    play(world, Faults(world, [fault])._befall(fault))
    assert min(looked) < began + LOOK_S / 10
    assert max(looked) >= began + LOOK_S / 2
    assert len(looked) >= 2


def test_an_ordeal_waits_for_other_faults_and_leaves_them_alone(world: World) -> None:
    produce(world, 1)
    until(world, lambda: is_whole(world))
    world.network.slow("broker-0", "broker-1", 5_000)
    world.disturbances += 1
    play(world, Faults(world, [MIN_INSYNC])._befall(MIN_INSYNC))
    assert world.injected[MIN_INSYNC.kind] == 0
    assert not any(line.what == "all faults end" for line in world.story.lines)
    world.disturbances -= 1
    play(world, Faults(world, [MIN_INSYNC])._befall(MIN_INSYNC))
    assert world.injected[MIN_INSYNC.kind] == 1
    assert any(line.what == "all faults end" for line in world.story.lines)


@pytest.mark.parametrize("fault", KINDS, ids=[each.kind for each in KINDS])
def test_every_kind_of_fault_happens_ends_and_leaves_the_cluster_whole(fault: Any) -> None:
    with World(setting_of(11)) as world:
        play(world, world.start())
        produce(world, 3)
        until(world, lambda: is_whole(world))

        async def befall() -> None:
            for _ in range(3):
                await Faults(world, [fault])._befall(fault)
                world.heal()
                await world.until(lambda: is_whole(world), 60)

        play(world, befall())
        until(world, lambda: is_whole(world))
        assert world.injected[fault.kind] > 0
        assert world.broken == []


def test_an_exception_that_nobody_catches_breaks_the_run() -> None:
    with World(setting_of(3)) as world:
        world.loop.call_soon(lambda: 1 // 0, context=world.client("client").context)
        play(world, asyncio.sleep(1))
    assert len(world.broken) == 1
    assert "ZeroDivisionError" in world.broken[0]


def test_faults_and_clients_that_fail_themselves_are_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(*_: object) -> bool:
        raise ValueError("a bug")

    monkeypatch.setattr(Reading, "run", broken)
    report = run(setting_of(7, 3.0), kinds=[Fault("broken", 1, broken)])
    assert report.broken == (
        "a fault could not be injected: ValueError('a bug')",
        "reader-0 has a bug: ValueError('a bug')",
    )
