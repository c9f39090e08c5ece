"""What it takes to bring new partitions into being."""

from collections.abc import Iterable

from barnabas.base.ids import TopicPartition
from barnabas.controller.context import Context
from barnabas.controller.decide.steps import MovePartitions, MoveReplicas, Selector, Steps
from barnabas.controller.states import PartitionState, ReplicaState


def decide_new_partitions(context: Context, partitions: Iterable[TopicPartition]) -> Steps:
    """Give partitions that the context has just come to know their first leaders.

    Only what does not exist yet is brought into being, so an event that comes twice does nothing
    twice. A partition none of whose replicas lives stays NEW, and is tried again when a broker
    comes up.
    """
    new = tuple(
        each for each in partitions if context.state_of(each) is PartitionState.NON_EXISTENT
    )
    if not new:
        return ()
    replicas = tuple(context.replicas_of(new))
    return (
        MovePartitions(new, PartitionState.NEW),
        MoveReplicas(replicas, ReplicaState.NEW),
        MovePartitions(new, PartitionState.ONLINE, Selector.OFFLINE),
        MoveReplicas(replicas, ReplicaState.ONLINE),
    )
