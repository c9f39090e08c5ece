"""A controller that finds a topic half deleted tells nobody that its dead replicas left the ISR."""

from barnabas.controller.context import Context, PartitionReplica
from barnabas.controller.decide.steps import MoveReplicas
from barnabas.controller.handle.failover import _decide_initial_steps
from barnabas.controller.states import ReplicaState
from tests.controller.contexts import T0, brokers, leading, one


def found() -> Context:
    return one((1, 2), leading(1, (1, 2)), live=(1,))


def moved(context: Context, to: ReplicaState) -> list[PartitionReplica]:
    """Who is told of its leader, or leaves the ISR, which the others are told of."""
    steps = _decide_initial_steps(context, ())
    return [
        each
        for step in steps
        if isinstance(step, MoveReplicas) and step.to is to
        for each in step.replicas
    ]


def test_the_dead_replica_of_a_topic_that_goes_is_left_to_its_deletion() -> None:
    one_alive, other_dead = (PartitionReplica(T0, broker) for broker in brokers(1, 2))
    assert moved(found(), ReplicaState.OFFLINE) == [other_dead]
    going = found()
    going.apply_deleting(["t"])
    assert moved(going, ReplicaState.OFFLINE) == []
    # A broker must say if it lies in a folder that has failed: then it cannot be deleted.
    assert moved(going, ReplicaState.ONLINE) == [one_alive]


def test_a_topic_that_has_to_be_moved_before_it_goes_is_treated_as_any_other() -> None:
    moving = found()
    moving.apply_deleting(["t"])
    moving.apply_ineligible(["t"], "it is being moved")
    assert moved(moving, ReplicaState.OFFLINE) == [PartitionReplica(T0, brokers(2)[0])]
