"""Open transactions outlive a move of their partition, a crash and an unclean election."""

from collections.abc import Iterator, Sequence

import pytest

from barnabas.base.ids import TopicPartition
from barnabas.sim.clients.admin_client import Admin
from barnabas.sim.clients.transactional_producer import TransactionalProducer
from barnabas.sim.final_transactions import read_transactions
from barnabas.sim.workloads.transaction_workloads import INPUT, PARTITIONS
from barnabas.sim.world.machine import Machine
from barnabas.sim.world.seed_settings import broker_stream, settings_of
from barnabas.sim.world.sim_world import SimWorld
from tests.sim.test_not_promised import run_on, until

AT = TopicPartition(INPUT, 0)
CLIENT, ADMIN = "payer", "admin"
# The law that an unclean election breaks, as in Kafka: that is what it is for.
UNCLEAN = "without all committed records"


@pytest.fixture
def world() -> Iterator[SimWorld]:
    with SimWorld(settings_of(7)) as world:
        run_on(world, None, world.start())
        yield world
    assert [each for each in world.broken if UNCLEAN not in each] == []


def admin(world: SimWorld) -> Admin:
    return Admin(ADMIN, world.settings.bootstrap, broker_stream(7, ADMIN), world.history)


def make(world: SimWorld, replicas: int, **config: str) -> None:
    named = {name.replace("_", "."): value for name, value in config.items()}
    run_on(world, ADMIN, admin(world).create(INPUT, PARTITIONS, replicas, named))
    until(world, lambda: world.observer.why_unhealthy() is None)


def payer(world: SimWorld) -> TransactionalProducer:
    random = broker_stream(7, CLIENT)
    return TransactionalProducer(CLIENT, world.settings.bootstrap, random, world.history, CLIENT)


def pay(world: SimWorld, producer: TransactionalProducer, values: Sequence[int]) -> None:
    """Begin a transaction, and write to the partition."""

    async def work() -> None:
        producer.begin()
        await producer.send(AT, values)

    run_on(world, CLIENT, work())


def leader(world: SimWorld) -> Machine:
    seen = next(each for each in world.observer.partitions() if each.topic_partition == AT)
    assert seen.state is not None
    return world.machines[seen.state.leader]


def committed(world: SimWorld) -> list[int]:
    """The records of read_committed up to the high watermark: nothing is open any more."""
    until(world, lambda: world.observer.why_unhealthy() is None)
    read = run_on(world, "reader", read_transactions(world))
    return [value for end in read.partitions if end.at == AT for _, value in end.committed]


@pytest.mark.parametrize("commit", [True, False])
def test_a_partition_is_reassigned_amid_a_transaction(world: SimWorld, commit: bool) -> None:
    make(world, replicas=1)
    producer = payer(world)
    run_on(world, CLIENT, producer.init())
    pay(world, producer, [1, 2])
    before = leader(world)
    to = tuple(each.broker_id for each in world.machines if each is not before)
    run_on(world, ADMIN, admin(world).reassign(AT, to))
    until(world, lambda: leader(world) is not before)
    run_on(world, CLIENT, producer.end(commit=commit))
    assert committed(world) == ([1, 2] if commit else [])


@pytest.mark.parametrize("commit", [True, False])
def test_the_only_replica_recovers_amid_a_transaction(world: SimWorld, commit: bool) -> None:
    make(world, replicas=1)
    producer = payer(world)
    run_on(world, CLIENT, producer.init())
    pay(world, producer, [1, 2])
    killed = leader(world)
    killed.kill()
    killed.start()
    run_on(world, CLIENT, producer.end(commit=commit))
    assert committed(world) == ([1, 2] if commit else [])


def test_an_unclean_leader_without_the_transaction_takes_the_next_one(world: SimWorld) -> None:
    make(world, replicas=2, unclean_leader_election_enable="true", min_insync_replicas="1")
    producer = payer(world)
    run_on(world, CLIENT, producer.init())
    first = leader(world)
    seen = next(each for each in world.observer.partitions() if each.topic_partition == AT)
    (second,) = (world.machines[each] for each in seen.replicas if each != first.broker_id)
    _take_down(second)
    until(world, lambda: [*_isr(world)] == [first.broker_id])
    pay(world, producer, [1, 2])
    _take_down(first)
    second.start()
    until(world, lambda: leader(world) is second)
    run_on(world, CLIENT, producer.end(commit=True))
    first.start()
    run_on(world, CLIENT, producer.init())
    pay(world, producer, [3, 4])
    run_on(world, CLIENT, producer.end(commit=True))
    assert committed(world) == [3, 4]


def _isr(world: SimWorld) -> Sequence[int]:
    seen = next(each for each in world.observer.partitions() if each.topic_partition == AT)
    return () if seen.state is None else seen.state.isr


def _take_down(machine: Machine) -> None:
    machine.is_taken_down = True
    machine.kill()
