"""Failover during a topic deletion: the dead replicas of the topic are left to the deletion."""

import asyncio

from barnabas.controller.context import Context, PartitionReplica
from barnabas.controller.decide.steps import MoveReplicas
from barnabas.controller.handle.failover import _initial_steps
from barnabas.controller.states import ReplicaState
from tests.controller.contexts import T0, brokers, leading, one


def found() -> Context:
    return one((1, 2), leading(1, (1, 2)), live=(1,))


def moved(context: Context, to: ReplicaState) -> list[PartitionReplica]:
    """The replicas that are notified of their leader, or leave the ISR."""
    steps = asyncio.run(_initial_steps(context, ()))
    return [
        each
        for step in steps
        if isinstance(step, MoveReplicas) and step.to is to
        for each in step.replicas
    ]


def test_a_dead_replica_of_a_topic_under_deletion_is_left_to_the_deletion() -> None:
    one_alive, other_dead = (PartitionReplica(T0, broker) for broker in brokers(1, 2))
    assert moved(found(), ReplicaState.OFFLINE) == [other_dead]
    going = found()
    going.apply_deleting(["t"])
    assert moved(going, ReplicaState.OFFLINE) == []
    # Its broker must report a failed log directory: the replica cannot be deleted then.
    assert moved(going, ReplicaState.ONLINE) == [one_alive]


def test_a_topic_whose_deletion_waits_for_a_reassignment_is_treated_as_any_other() -> None:
    moving = found()
    moving.apply_deleting(["t"])
    moving.apply_ineligible(["t"], "it is being reassigned")
    assert moved(moving, ReplicaState.OFFLINE) == [PartitionReplica(T0, brokers(2)[0])]
