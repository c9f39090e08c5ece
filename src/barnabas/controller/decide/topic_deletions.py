"""Topic deletion: started, retried, and completed once all replicas are deleted.

The mark below /admin/delete_topics stays until the whole topic is deleted, so a new controller
finds unfinished deletions and starts again: deleting a deleted replica succeeds.

A deletion waits (the topic is ineligible) during a reassignment of the topic, and when a replica
cannot be deleted because its broker is down or responded with an error. The other replicas are
deleted meanwhile; the failed ones are retried when a broker with replicas of the topic starts.

After any other steps of this module, and after a reassignment or a broker change, the caller
performs `decide_resume`.
"""

from collections.abc import Iterable, Mapping

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import Context, PartitionReplica
from barnabas.controller.decide.reassignments import MOVING, is_moving
from barnabas.controller.decide.steps import (
    BeginDeletion,
    CancelDeletions,
    MarkEligible,
    MarkIneligible,
    MovePartitions,
    MoveReplicas,
    QueueDeletions,
    RemoveTopic,
    SendMetadata,
    Steps,
)
from barnabas.controller.states import PartitionState, ReplicaState


def decide_deletions(context: Context, topics: Iterable[str], enabled: bool) -> Steps:
    """Queue marked topics; remove the marks of unknown topics, and all if deletion is disabled.

    `topics` are all existing marks. Topics that are queued already stay queued.
    """
    marked = tuple(topics)
    refused = tuple(topic for topic in marked if not enabled or topic not in context.topics)
    new = tuple(t for t in marked if enabled and t in context.topics and t not in context.deleting)
    moving = tuple(topic for topic in new if is_moving(context, topic))
    return (
        *((CancelDeletions(refused),) if refused else ()),
        *((QueueDeletions(new),) if new else ()),
        *((MarkIneligible(moving, MOVING),) if moving else ()),
    )


def decide_resume(context: Context) -> Steps:
    """Advance every deletion: complete the deleted topics, begin or retry the others."""
    ended, begun = [], []
    for topic in context.deleting:
        replicas = context.replicas_of(context.partitions_of(topic))
        states = [context.replica_state_of(each) for each in replicas]
        if all(state is ReplicaState.DELETION_SUCCESSFUL for state in states):
            ended.append(topic)
        elif topic not in context.ineligible and ReplicaState.DELETION_STARTED not in states:
            begun.append(topic)
    return (*_complete(context, ended), *_begin(context, begun))


def decide_replicas_deleted(
    context: Context, broker: BrokerId, codes: Mapping[TopicPartition, ErrorCode]
) -> Steps:
    """Apply a broker's response to the deletion of its replicas.

    Results of replicas that are not being deleted are ignored: the response is old, or the
    replica was removed by a reassignment.
    """
    deleted: list[PartitionReplica] = []
    failed: list[PartitionReplica] = []
    for partition, code in codes.items():
        replica = PartitionReplica(partition, broker)
        if context.replica_state_of(replica) is ReplicaState.DELETION_STARTED:
            (deleted if code is ErrorCode.none else failed).append(replica)
    topics = tuple(dict.fromkeys(each.topic_partition.topic for each in failed))
    return (
        *_move_replicas(failed, ReplicaState.DELETION_INELIGIBLE),
        *((MarkIneligible(topics, f"broker {broker} could not delete it"),) if failed else ()),
        *_move_replicas(deleted, ReplicaState.DELETION_SUCCESSFUL),
    )


def decide_eligible_after_up(context: Context, brokers: Iterable[BrokerId]) -> Steps:
    """Retry topics with replicas on brokers that started, unless they are being reassigned."""
    up = frozenset(brokers)
    topics = tuple(
        topic
        for topic in context.ineligible
        if not is_moving(context, topic)
        and any(r.broker_id in up for r in context.replicas_of(context.partitions_of(topic)))
    )
    return (MarkEligible(topics),) if topics else ()


def _begin(context: Context, topics: list[str]) -> Steps:
    """Take the partitions offline, stop the replicas, and delete those on live brokers."""
    if not topics:
        return ()
    alive: list[PartitionReplica] = []
    dead: list[PartitionReplica] = []
    for replica in _replicas(context, topics):
        if context.replica_state_of(replica) is ReplicaState.DELETION_SUCCESSFUL:
            continue
        online = context.is_online(replica.broker_id, replica.topic_partition)
        (alive if online else dead).append(replica)
    halted = tuple(dict.fromkeys(replica.topic_partition.topic for replica in dead))
    return (
        *_stop_partitions(context, tuple(t for t in topics if t not in context.deletion_begun)),
        SendMetadata(None, tuple(p for topic in topics for p in context.partitions_of(topic))),
        *_move_replicas([*alive, *dead], ReplicaState.OFFLINE),
        *_move_replicas(dead, ReplicaState.DELETION_INELIGIBLE),
        *_move_replicas(alive, ReplicaState.DELETION_STARTED),
        *((MarkIneligible(halted, "a replica is offline"),) if halted else ()),
    )


def _stop_partitions(context: Context, topics: tuple[str, ...]) -> Steps:
    if not topics:
        return ()
    partitions = tuple(each for topic in topics for each in context.partitions_of(topic))
    return (
        MovePartitions(partitions, PartitionState.OFFLINE),
        MovePartitions(partitions, PartitionState.NON_EXISTENT),
        BeginDeletion(topics),
    )


def _complete(context: Context, topics: list[str]) -> Steps:
    return (
        *_move_replicas(_replicas(context, topics), ReplicaState.NON_EXISTENT),
        *(RemoveTopic(topic) for topic in topics),
    )


def _replicas(context: Context, topics: list[str]) -> list[PartitionReplica]:
    return context.replicas_of(each for topic in topics for each in context.partitions_of(topic))


def _move_replicas(replicas: list[PartitionReplica], to: ReplicaState) -> Steps:
    return (MoveReplicas(tuple(replicas), to),) if replicas else ()
