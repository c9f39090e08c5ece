"""New partitions: created once, with a leader if any replica is alive."""

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import Context
from barnabas.controller.decide.broker_liveness import decide_brokers_up
from barnabas.controller.decide.new_partitions import decide_new_partitions
from barnabas.controller.decide.steps import (
    MovePartitions,
    MoveReplicas,
)
from barnabas.controller.states import PartitionState, ReplicaState, Selector
from tests.controller.interpreter import Controller, cluster_of, live

P = TopicPartition("t", 0)


def made(brokers: int, *replicas: int) -> Controller:
    """A controller that has just seen a new topic."""
    cluster = cluster_of(brokers, t=[replicas])
    cluster.states.clear()
    cluster.logs.clear()
    controller = Controller(cluster)
    controller.context.apply_initial_states({}, {})
    return controller


def created(context: Context) -> tuple[PartitionState, list[ReplicaState]]:
    replicas = context.replicas_of([P])
    return context.state_of(P), [context.replica_state_of(each) for each in replicas]


def test_a_new_partition_and_its_replicas_are_new_then_online() -> None:
    controller = made(3, 1, 2)
    steps = decide_new_partitions(controller.context, [P])
    replicas = tuple(controller.context.replicas_of([P]))
    assert steps == (
        MovePartitions((P,), PartitionState.NEW),
        MoveReplicas(replicas, ReplicaState.NEW),
        MovePartitions((P,), PartitionState.ONLINE, Selector.OFFLINE),
        MoveReplicas(replicas, ReplicaState.ONLINE),
    )
    controller.perform(steps)
    assert created(controller.context) == (PartitionState.ONLINE, [ReplicaState.ONLINE] * 2)
    assert controller.cluster.isr(P) == (1, 2)


def test_an_existing_partition_is_not_created_again() -> None:
    controller = made(3, 1, 2)
    controller.perform(decide_new_partitions(controller.context, [P]))
    assert decide_new_partitions(controller.context, [P]) == ()


def test_a_partition_without_live_brokers_gets_its_leader_when_one_starts() -> None:
    controller = made(1, 1, 2)
    controller.perform(decide_new_partitions(controller.context, [P]))
    assert controller.context.state_of(P) is PartitionState.NEW
    controller.cluster.live[BrokerId(2)] = 5
    controller.context.apply_brokers(live(controller.cluster.live))
    controller.perform(decide_brokers_up(controller.context, [BrokerId(2)]))
    assert controller.cluster.states[P].state.leader == 2
    assert controller.cluster.isr(P) == (2,)
