"""New partitions: the steps that create their replicas and elect their first leaders."""

from collections.abc import Iterable

from barnabas.base.ids import TopicPartition
from barnabas.controller.context import Context
from barnabas.controller.decide.steps import (
    MovePartitions,
    MoveReplicas,
    Steps,
)
from barnabas.controller.states import PartitionState, ReplicaState, Selector


def decide_new_partitions(context: Context, partitions: Iterable[TopicPartition]) -> Steps:
    """Elect the first leaders of partitions that are new in the context.

    Partitions that exist are left out, so a repeated event has no effect. A partition without a
    live replica stays NEW and is tried again when a broker starts.
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
