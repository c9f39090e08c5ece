"""Deleting topics: begun when nothing is in the way, retried when it has gone, ended once.

The mark below /admin/delete_topics stands until all of a topic is gone, so a new controller
finds what was being deleted and begins again: replicas that are deleted already say so once more.

A topic waits (is ineligible) while one of its partitions is being moved, and when one of its
replicas cannot be deleted: its broker is down, or answered with an error. The others are deleted
all the same; what failed is tried again when a broker that holds some of the topic comes up.

Whoever has performed any other steps of this file, or those that end a move or follow the coming
and going of brokers, asks `decide_resume` afterwards.
"""

from collections.abc import Iterable, Mapping

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import Context, Replica
from barnabas.controller.decide.reassignments import MOVING, is_moving
from barnabas.controller.decide.steps import (
    BeginDeletion,
    DropDeletion,
    EndTopic,
    MarkEligible,
    MarkIneligible,
    MovePartitions,
    MoveReplicas,
    QueueDeletions,
    Steps,
    TellMetadata,
)
from barnabas.controller.states import PartitionState, ReplicaState


def decide_deletions(context: Context, topics: Iterable[str], enabled: bool) -> Steps:
    """Queue the topics that are marked; take away marks of what is unknown or may not be deleted.

    `topics` are all marks there are. Those that are queued already stay so.
    """
    marked = tuple(topics)
    refused = tuple(topic for topic in marked if not enabled or topic not in context.topics)
    new = tuple(t for t in marked if enabled and t in context.topics and t not in context.deleting)
    moving = tuple(topic for topic in new if is_moving(context, topic))
    return (
        *((DropDeletion(refused),) if refused else ()),
        *((QueueDeletions(new),) if new else ()),
        *((MarkIneligible(moving, MOVING),) if moving else ()),
    )


def decide_resume(context: Context) -> Steps:
    """Take every deletion as far as it can go now: end what is deleted, begin or retry the rest."""
    ended, begun = [], []
    for topic in context.deleting:
        replicas = context.replicas_of(context.partitions_of(topic))
        states = [context.replica_state_of(each) for each in replicas]
        if all(state is ReplicaState.DELETION_SUCCESSFUL for state in states):
            ended.append(topic)
        elif topic not in context.ineligible and ReplicaState.DELETION_STARTED not in states:
            begun.append(topic)
    return (*_ended(context, ended), *_begun(context, begun))


def decide_replicas_deleted(
    context: Context, broker: BrokerId, codes: Mapping[TopicPartition, ErrorCode]
) -> Steps:
    """A broker answered what came of the deletion of its replicas.

    Answers about what is not being deleted (now) are old, or of a partition that moved away.
    """
    deleted: list[Replica] = []
    failed: list[Replica] = []
    for partition, code in codes.items():
        replica = Replica(partition, broker)
        if context.replica_state_of(replica) is ReplicaState.DELETION_STARTED:
            (deleted if code is ErrorCode.none else failed).append(replica)
    topics = tuple(dict.fromkeys(each.topic_partition.topic for each in failed))
    return (
        *_moved(failed, ReplicaState.DELETION_INELIGIBLE),
        *((MarkIneligible(topics, f"broker {broker} could not delete it"),) if failed else ()),
        *_moved(deleted, ReplicaState.DELETION_SUCCESSFUL),
    )


def decide_eligible_after_up(context: Context, brokers: Iterable[BrokerId]) -> Steps:
    """What has replicas on brokers that came up may be tried again, unless it is being moved."""
    up = frozenset(brokers)
    topics = tuple(
        topic
        for topic in context.ineligible
        if not is_moving(context, topic)
        and any(r.broker_id in up for r in context.replicas_of(context.partitions_of(topic)))
    )
    return (MarkEligible(topics),) if topics else ()


def _begun(context: Context, topics: list[str]) -> Steps:
    """Nobody leads the partitions any more; replicas stop, then are deleted where they can be."""
    if not topics:
        return ()
    alive: list[Replica] = []
    dead: list[Replica] = []
    for replica in _replicas(context, topics):
        if context.replica_state_of(replica) is ReplicaState.DELETION_SUCCESSFUL:
            continue
        online = context.is_online(replica.broker_id, replica.topic_partition)
        (alive if online else dead).append(replica)
    halted = tuple(dict.fromkeys(replica.topic_partition.topic for replica in dead))
    return (
        *_partitions_ended(context, tuple(t for t in topics if t not in context.deletion_begun)),
        TellMetadata(None, tuple(p for topic in topics for p in context.partitions_of(topic))),
        *_moved([*alive, *dead], ReplicaState.OFFLINE),
        *_moved(dead, ReplicaState.DELETION_INELIGIBLE),
        *_moved(alive, ReplicaState.DELETION_STARTED),
        *((MarkIneligible(halted, "a replica is offline"),) if halted else ()),
    )


def _partitions_ended(context: Context, topics: tuple[str, ...]) -> Steps:
    if not topics:
        return ()
    partitions = tuple(each for topic in topics for each in context.partitions_of(topic))
    return (
        MovePartitions(partitions, PartitionState.OFFLINE),
        MovePartitions(partitions, PartitionState.NON_EXISTENT),
        BeginDeletion(topics),
    )


def _ended(context: Context, topics: list[str]) -> Steps:
    return (
        *_moved(_replicas(context, topics), ReplicaState.NON_EXISTENT),
        *(EndTopic(topic) for topic in topics),
    )


def _replicas(context: Context, topics: list[str]) -> list[Replica]:
    return context.replicas_of(each for topic in topics for each in context.partitions_of(topic))


def _moved(replicas: list[Replica], to: ReplicaState) -> Steps:
    return (MoveReplicas(tuple(replicas), to),) if replicas else ()
