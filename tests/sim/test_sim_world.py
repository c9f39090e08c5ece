"""Real brokers in a simulated world: start, faults, recovery, observation."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from barnabas.base.ids import TopicPartition
from barnabas.log.log import Log
from barnabas.sim.checkers.history import OperationHistory, OperationOutcome, Send
from barnabas.sim.clients.admin_client import Admin
from barnabas.sim.clients.producer_client import Producer
from barnabas.sim.faults.fault_kinds import KINDS, Fault
from barnabas.sim.faults.fault_plan import FaultPlan
from barnabas.sim.faults.scripted_faults import MIN_INSYNC
from barnabas.sim.final_read import read_all
from barnabas.sim.sim_run import run
from barnabas.sim.workloads.workloads import ReadingWorkload
from barnabas.sim.world.seed_settings import broker_stream, settings_of
from barnabas.sim.world.sim_world import LOOK_S, SimWorld

AT = TopicPartition("orders", 0)


@pytest.fixture
def world() -> Iterator[SimWorld]:
    with SimWorld(settings_of(7)) as world:
        run_seed(world, world.start())
        yield world
    assert world.broken == []


def run_seed(world: SimWorld, work: Coroutine[Any, Any, Any]) -> Any:
    return world.loop.run_until_complete(world.loop.spawn(None, work))


def until(world: SimWorld, condition: Callable[[], bool]) -> None:
    assert run_seed(world, world.until(condition, 60)), world.observer.why_unhealthy()


def is_healthy(world: SimWorld) -> bool:
    return world.observer.why_unhealthy() is None


def produce(world: SimWorld, batches: int) -> OperationHistory:
    """Create a topic and send to it with acks=all, from a client host."""
    history, random = OperationHistory(world.loop.time), broker_stream(7, "test")

    async def work() -> None:
        admin = Admin("admin", world.settings.bootstrap, random, history)
        producer = Producer("producer", world.settings.bootstrap, random, history, acks=-1)
        await admin.create("orders", 1, 3)
        for _ in range(batches):
            assert await producer.send(AT, [3])

    world.loop.run_until_complete(world.loop.spawn(world.client("client"), work()))
    return history


def test_three_brokers_serve_in_virtual_time(world: SimWorld) -> None:
    history = produce(world, 10)
    until(world, lambda: is_healthy(world))
    sent = [operation for operation, _ in history.of(Send)]
    assert [operation.outcome for operation in sent] == [OperationOutcome.OK] * 10
    final = world.loop.run_until_complete(world.loop.spawn(world.client("reader"), read_all(world)))
    (end,) = final.partitions
    assert [value for _, value in end.records] == list(range(1, 31))
    assert sorted(end.replicas) == [0, 1, 2]
    assert len(set(end.replicas.values())) == 1


def test_a_cluster_is_unhealthy_while_a_broker_stops(world: SimWorld) -> None:
    produce(world, 1)
    until(world, lambda: is_healthy(world))
    world.machines[0].stop()
    assert world.machines[0].broker is not None
    assert world.observer.why_unhealthy() == "broker-0 is stopping"
    until(world, lambda: not world.machines[0].is_stopping)
    until(world, lambda: is_healthy(world))


def test_a_killed_broker_loses_no_record(world: SimWorld) -> None:
    produce(world, 5)
    leader = next(iter(world.observer.partitions())).state
    assert leader is not None
    victim = world.machines[leader.leader]
    victim.kill()
    assert not victim.is_running
    until(
        world, lambda: AT in {each.topic_partition for each in led_by_others(world, leader.leader)}
    )
    victim.start()
    until(world, lambda: is_healthy(world))
    assert victim.broker is not None
    log = victim.broker.logs.get(AT)
    assert log is not None
    assert log.log_end_offset == 15


def led_by_others(world: SimWorld, broker: int) -> list[Any]:
    return [
        each
        for each in world.observer.partitions()
        if each.state is not None and each.state.leader not in (-1, broker)
    ]


def test_a_power_failure_loses_unflushed_records_that_other_replicas_have(world: SimWorld) -> None:
    produce(world, 5)
    until(world, lambda: is_healthy(world))
    victim = world.machines[0]
    assert world.observer.may_lose(victim)
    victim.power_off()
    # It may still count as in sync, but has nothing that could be relied on.
    assert not world.observer.is_in_sync(victim)
    victim.start()
    until(world, lambda: is_healthy(world))
    assert world.observer.is_in_sync(victim)


def test_a_deleted_topic_does_not_reappear_after_a_power_failure(world: SimWorld) -> None:
    history = produce(world, 5)
    until(world, lambda: is_healthy(world))
    # The files of now are durable: only the deletion could be forgotten.
    for partition_log in logs(world):
        disk, folder = partition_log.disk, partition_log.directory
        for path in ("", folder, *(f"{folder}/{name}" for name in disk.list(folder))):
            disk.sync(path)
    admin = Admin("admin", world.settings.bootstrap, broker_stream(7, "deleting"), history)
    world.loop.run_until_complete(world.loop.spawn(world.client("admin"), admin.delete("orders")))
    until(world, lambda: not list(world.observer.partitions()))
    for machine in world.machines:
        machine.power_off()
        machine.start()
    until(world, lambda: is_healthy(world))
    assert logs(world) == []


def logs(world: SimWorld) -> list[Log]:
    return [each for machine in world.machines if machine.broker for each in machine.broker.logs]


def test_a_broker_that_stops_by_itself_is_restarted(world: SimWorld) -> None:
    world.machines[1].stop()
    until(world, lambda: not world.machines[1].is_running)
    until(world, lambda: is_healthy(world))


def test_a_stopping_broker_hands_over_leadership_first(world: SimWorld) -> None:
    produce(world, 1)
    world.machines[0].is_taken_down = True
    world.machines[0].stop()
    until(world, lambda: not world.machines[0].is_running)
    assert all(
        each.state is not None and each.state.leader > 0 for each in world.observer.partitions()
    )
    world.machines[0].start()
    until(world, lambda: is_healthy(world))


def test_two_leaders_of_one_epoch_are_detected(world: SimWorld) -> None:
    produce(world, 1)
    world.look()
    ((key, broker),) = [(k, b) for k, b in world.observer._leaders.items() if k[0] == AT]
    world.observer._leaders[key] = (broker + 1) % 3
    (seen,) = world.observer.broken_laws()
    assert "both lead orders-0" in seen
    world.observer._leaders[key] = broker


def test_a_leader_without_committed_records_is_detected(world: SimWorld) -> None:
    produce(world, 2)
    until(world, lambda: is_healthy(world))
    world.look()
    ((key, (most, epoch)),) = [(k, v) for k, v in world.observer._committed.items() if k[0] == AT]
    assert most == 6
    world.observer._committed[key] = most + 1, epoch - 1
    (seen,) = world.observer.broken_laws()
    assert "without all committed records: it has 6 of 7" in seen
    world.observer._committed[key] = most, epoch


def test_laws_are_checked_when_a_fault_starts_and_ends(
    world: SimWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[float] = []
    monkeypatch.setattr(world, "look", lambda: looked.append(world.loop.time()))

    async def lasting(*_: object) -> bool:
        await asyncio.sleep(LOOK_S / 2)
        return True

    fault = Fault("lasting", 1, lasting)
    began = world.loop.time()
    run_seed(world, FaultPlan(world, [fault])._befall(fault))
    assert min(looked) < began + LOOK_S / 10
    assert max(looked) >= began + LOOK_S / 2
    assert len(looked) >= 2


def test_a_scripted_fault_waits_for_other_faults_to_end(world: SimWorld) -> None:
    produce(world, 1)
    until(world, lambda: is_healthy(world))
    world.network.slow("broker-0", "broker-1", 5_000)
    world.disturbances += 1
    run_seed(world, FaultPlan(world, [MIN_INSYNC])._befall(MIN_INSYNC))
    assert world.injected[MIN_INSYNC.kind] == 0
    assert not any(line.what == "all faults end" for line in world.trace.lines)
    world.disturbances -= 1
    run_seed(world, FaultPlan(world, [MIN_INSYNC])._befall(MIN_INSYNC))
    assert world.injected[MIN_INSYNC.kind] == 1
    assert any(line.what == "all faults end" for line in world.trace.lines)


@pytest.mark.parametrize("fault", KINDS, ids=[each.kind for each in KINDS])
def test_the_cluster_recovers_from_every_kind_of_fault(fault: Any) -> None:
    with SimWorld(settings_of(11)) as world:
        run_seed(world, world.start())
        produce(world, 3)
        until(world, lambda: is_healthy(world))

        async def befall() -> None:
            for _ in range(3):
                await FaultPlan(world, [fault])._befall(fault)
                world.heal()
                await world.until(lambda: is_healthy(world), 60)

        run_seed(world, befall())
        until(world, lambda: is_healthy(world))
        assert world.injected[fault.kind] > 0
        assert world.broken == []


def test_an_uncaught_exception_fails_the_run() -> None:
    with SimWorld(settings_of(3)) as world:
        world.loop.call_soon(lambda: 1 // 0, context=world.client("client").context)
        run_seed(world, asyncio.sleep(1))
    assert len(world.broken) == 1
    assert "ZeroDivisionError" in world.broken[0]


def test_failures_of_faults_and_clients_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(*_: object) -> bool:
        raise ValueError("a bug")

    monkeypatch.setattr(ReadingWorkload, "run", broken)
    report = run(settings_of(7, 3.0), kinds=[Fault("broken", 1, broken)])
    assert report.broken == (
        "a fault could not be injected: ValueError('a bug')",
        "reader-0 failed: ValueError('a bug')",
    )
