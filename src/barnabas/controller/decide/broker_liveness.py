"""Broker liveness: decisions when brokers start, fail or shut down, or lose a log directory.

The caller first applies to the context which brokers are live. A broker that bounced (it has a
new broker epoch, and its absence was never seen) went down and came up: the caller leaves it out
of the live brokers while it performs `decide_brokers_down`, then performs `decide_brokers_up`.
Afterwards topic_deletions.py decides which deletions can resume.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, groupby
from typing import NamedTuple

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import Context, LiveBroker, PartitionReplica
from barnabas.controller.decide import reassignments
from barnabas.controller.decide.steps import (
    MarkIneligible,
    MovePartitions,
    MoveReplicas,
    SendMetadata,
    Steps,
    StopReplicas,
)
from barnabas.controller.states import (
    REPLICA_FROM,
    PartitionState,
    ReplicaState,
    Selector,
    may_enter,
)


class BrokerChanges(NamedTuple):
    """The brokers that started, failed or bounced since the context was updated, sorted."""

    new: tuple[BrokerId, ...]
    dead: tuple[BrokerId, ...]
    bounced: tuple[BrokerId, ...]


def decide_broker_changes(context: Context, live: Mapping[BrokerId, LiveBroker]) -> BrokerChanges:
    """Compare the registered brokers with the live brokers of the context."""
    known = context.live
    return BrokerChanges(
        new=tuple(sorted(b for b in live if b not in known)),
        dead=tuple(sorted(b for b in known if b not in live)),
        bounced=tuple(sorted(b for b in live if b in known and live[b].epoch > known[b].epoch)),
    )


def decide_brokers_up(context: Context, brokers: Iterable[BrokerId]) -> Steps:
    """Announce new brokers to all, send them the metadata, then start their replicas.

    They receive metadata before LeaderAndIsr: a follower must know its leader's endpoint.
    Partitions without a leader get one if possible, and reassignments to the new brokers continue.
    """
    new = tuple(brokers)
    others = tuple(b for b in context.live if b not in new)
    moving = reassignments.moving_to(context, new)
    return (
        *((SendMetadata(others, ()),) if others else ()),
        SendMetadata(new, None),
        *_move_replicas(
            context, _not_deleted(context, context.replicas_on(new)), ReplicaState.ONLINE
        ),
        *_elect_leaders(tuple(leaderless(context))),
        *reassignments.decide_resume(context, *moving),
    )


def decide_brokers_down(context: Context, brokers: Iterable[BrokerId]) -> Steps:
    """Elect leaders for the partitions that the brokers led, and take their replicas offline.

    Replicas leave an ISR in the order of `brokers`; the last member of an ISR stays in it.
    """
    turns = {broker: turn for turn, broker in enumerate(brokers)}
    held = groupby(context.replicas_on(turns), lambda replica: replica.topic_partition)
    in_turn = (sorted(each, key=lambda replica: turns[replica.broker_id]) for _, each in held)
    return decide_replicas_offline(context, chain.from_iterable(in_turn))


def decide_replicas_offline(context: Context, replicas: Iterable[PartitionReplica]) -> Steps:
    """Elect new leaders first, as clients wait for them; then remove the replicas from the ISRs.

    The caller has applied which brokers or log directories failed. A topic that is being deleted
    gets no leaders; its deletion halts until the replicas are back.
    """
    offline = list(replicas)
    lost = tuple(_lost_their_leader(context))
    return (
        *((MovePartitions(lost, PartitionState.OFFLINE),) if lost else ()),
        *_elect_leaders((*lost, *leaderless(context))),
        *_move_replicas(context, offline, ReplicaState.OFFLINE),
        *_halt_deletions(context, offline),
        # The live brokers have changed even if no partition has.
        SendMetadata(None, ()),
    )


def decide_controlled_shutdown(context: Context, broker: BrokerId) -> Steps:
    """Elect other leaders for what the broker leads, then stop its followers.

    The caller has applied that the broker is shutting down. It keeps leading partitions without
    another replica until it is gone. Repeating this retries the elections that failed.
    """
    leads: list[PartitionReplica] = []
    follows: list[PartitionReplica] = []
    for replica in context.replicas_on((broker,)):
        leadership = context.leadership.get(replica.topic_partition)
        if leadership is None or not _can_be_handed_over(context, replica.topic_partition):
            continue
        (leads if leadership.state.leader == broker else follows).append(replica)
    partitions = tuple(each.topic_partition for each in leads)
    return (
        *(
            (MovePartitions(partitions, PartitionState.ONLINE, Selector.CONTROLLED_SHUTDOWN),)
            if partitions
            else ()
        ),
        *((StopReplicas(tuple(follows)),) if follows else ()),
        *_move_replicas(context, follows, ReplicaState.OFFLINE),
    )


def remaining_leaders(context: Context, broker: BrokerId) -> list[TopicPartition]:
    """The partitions with other replicas that a broker still leads while it shuts down."""
    return [
        partition
        for partition, leadership in context.leadership.items()
        if leadership.state.leader == broker and _can_be_handed_over(context, partition)
    ]


def leaderless(context: Context) -> Iterator[TopicPartition]:
    """The partitions that wait for a leader, without those whose deletion is active."""
    for partition, state in context.partition_states.items():
        waits = state in (PartitionState.NEW, PartitionState.OFFLINE)
        if waits and not is_deletion_active(context, partition.topic):
            yield partition


def is_deletion_active(context: Context, topic: str) -> bool:
    """True if the deletion of a topic has begun or begins next: it must get no new leader.

    A former controller may have deleted replicas already; a leader elected now would start an
    empty log under the same topic id. A topic under reassignment waits, and keeps its leaders
    until the reassignment completes.
    """
    waits = topic in context.ineligible
    return topic in context.deletion_begun or (context.is_deleting(topic) and not waits)


def _lost_their_leader(context: Context) -> Iterator[TopicPartition]:
    # A leader that is shutting down leads until it is gone: a partition that no other replica can
    # lead is better served by it than by none.
    for partition, leadership in context.leadership.items():
        is_served = context.is_online(leadership.state.leader, partition)
        if is_served or is_deletion_active(context, partition.topic):
            continue
        if context.state_of(partition) is PartitionState.ONLINE:
            yield partition


def _can_be_handed_over(context: Context, partition: TopicPartition) -> bool:
    if context.is_deleting(partition.topic) or partition not in context:
        return False
    return len(context.assignment(partition).replicas) > 1


def _not_deleted(context: Context, replicas: Iterable[PartitionReplica]) -> list[PartitionReplica]:
    """The replicas whose deletion has not begun; the others must not be restarted."""
    return [each for each in replicas if each.topic_partition.topic not in context.deletion_begun]


def _elect_leaders(partitions: tuple[TopicPartition, ...]) -> Steps:
    if not partitions:
        return ()
    return (MovePartitions(partitions, PartitionState.ONLINE, Selector.OFFLINE),)


def _move_replicas(
    context: Context, replicas: Iterable[PartitionReplica], to: ReplicaState
) -> Steps:
    able = tuple(r for r in replicas if may_enter(REPLICA_FROM, context.replica_state_of(r), to))
    return (MoveReplicas(able, to),) if able else ()


def _halt_deletions(context: Context, offline: Iterable[PartitionReplica]) -> Steps:
    """Mark replicas ineligible for deletion that went offline; else they would count as started."""
    deleting = [each for each in offline if context.is_deleting(each.topic_partition.topic)]
    halted = tuple(
        each
        for each in deleting
        if context.replica_state_of(each)
        not in (ReplicaState.DELETION_SUCCESSFUL, ReplicaState.NON_EXISTENT)
    )
    topics = tuple(dict.fromkeys(each.topic_partition.topic for each in halted))
    if not halted:
        return ()
    return (
        MoveReplicas(halted, ReplicaState.DELETION_INELIGIBLE),
        MarkIneligible(topics, "a replica is offline"),
    )
