"""What follows when brokers come, go or stop, and when folders of a living one fail.

The context tells who lives: whoever asks here has applied that before. A broker that bounced
(it is back under another epoch before anybody saw it gone) went down and came up: it is left out
of the living while `decide_brokers_down` is asked and performed, then `decide_brokers_up`.
Deletions that may go on afterwards are for deletions.py to say.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, groupby
from typing import NamedTuple

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import Context, LiveBroker, Replica
from barnabas.controller.decide import reassignments
from barnabas.controller.decide.steps import (
    MarkIneligible,
    MovePartitions,
    MoveReplicas,
    Selector,
    Steps,
    StopReplicas,
    TellMetadata,
)
from barnabas.controller.states import REPLICA_FROM, PartitionState, ReplicaState, may_enter


class BrokerChanges(NamedTuple):
    """Who came, who went, and who did both since the context was told; each in order."""

    new: tuple[BrokerId, ...]
    dead: tuple[BrokerId, ...]
    bounced: tuple[BrokerId, ...]


def decide_broker_changes(context: Context, live: Mapping[BrokerId, LiveBroker]) -> BrokerChanges:
    """Compare who is registered now with whom the context knows."""
    known = context.live
    return BrokerChanges(
        new=tuple(sorted(b for b in live if b not in known)),
        dead=tuple(sorted(b for b in known if b not in live)),
        bounced=tuple(sorted(b for b in live if b in known and live[b].epoch > known[b].epoch)),
    )


def decide_brokers_up(context: Context, brokers: Iterable[BrokerId]) -> Steps:
    """Tell all of the newcomers and the newcomers of all; then put them to work.

    They hear of the leaders first, as they could not follow without; then of every replica they
    hold. Partitions that have no leader get one if they can, and what is being moved to the
    newcomers goes on.
    """
    new = tuple(brokers)
    others = tuple(b for b in context.live if b not in new)
    moving = reassignments.moving_to(context, new)
    return (
        *((TellMetadata(others, ()),) if others else ()),
        TellMetadata(new, None),
        *_moved(context, _not_deleted(context, context.replicas_on(new)), ReplicaState.ONLINE),
        *_elected(tuple(leaderless(context))),
        *reassignments.decide_resume(context, *moving),
    )


def decide_brokers_down(context: Context, brokers: Iterable[BrokerId]) -> Steps:
    """Find new leaders for what the brokers led, and take what they held offline, in this order.

    Where nobody else is in sync, the last of them stays so.
    """
    turns = {broker: turn for turn, broker in enumerate(brokers)}
    held = groupby(context.replicas_on(turns), lambda replica: replica.topic_partition)
    in_turn = (sorted(each, key=lambda replica: turns[replica.broker_id]) for _, each in held)
    return decide_replicas_offline(context, chain.from_iterable(in_turn))


def decide_replicas_offline(context: Context, replicas: Iterable[Replica]) -> Steps:
    """Find new leaders first, as clients wait for them; then the replicas leave their ISRs.

    Whoever asks has applied which brokers or folders are gone. A topic that is being deleted gets
    no leaders; its deletion halts until they are back.
    """
    offline = list(replicas)
    lost = tuple(_without_living_leader(context))
    return (
        *((MovePartitions(lost, PartitionState.OFFLINE),) if lost else ()),
        *_elected((*lost, *leaderless(context))),
        *_moved(context, offline, ReplicaState.OFFLINE),
        *_deletions_halted(context, offline),
        # Who lives has changed even if no partition has.
        TellMetadata(None, ()),
    )


def decide_controlled_shutdown(context: Context, broker: BrokerId) -> Steps:
    """Give what the broker leads to others, then stop what it follows.

    Whoever asks has applied that it shuts down. What has no other replica is left to it until it
    is gone. The same question may come again, for what could not be moved before.
    """
    leads: list[Replica] = []
    follows: list[Replica] = []
    for replica in context.replicas_on((broker,)):
        led = context.led.get(replica.topic_partition)
        if led is None or not _can_be_handed_over(context, replica.topic_partition):
            continue
        (leads if led.state.leader == broker else follows).append(replica)
    partitions = tuple(each.topic_partition for each in leads)
    return (
        *(
            (MovePartitions(partitions, PartitionState.ONLINE, Selector.CONTROLLED_SHUTDOWN),)
            if partitions
            else ()
        ),
        *((StopReplicas(tuple(follows)),) if follows else ()),
        *_moved(context, follows, ReplicaState.OFFLINE),
    )


def remaining_leaders(context: Context, broker: BrokerId) -> list[TopicPartition]:
    """What a broker that shuts down still leads, though others could."""
    return [
        partition
        for partition, led in context.led.items()
        if led.state.leader == broker and _can_be_handed_over(context, partition)
    ]


def leaderless(context: Context) -> Iterator[TopicPartition]:
    """Partitions that wait for a leader; those of topics that are going do not."""
    for partition, state in context.partition_states.items():
        waits = state in (PartitionState.NEW, PartitionState.OFFLINE)
        if waits and not is_going(context, partition.topic):
            yield partition


def is_going(context: Context, topic: str) -> bool:
    """Whether the deletion of a topic has begun, or is begun next: a former controller may have
    come far with it, and whoever led now would begin an empty log under the same topic id.

    A topic that is still being moved needs leaders until that is done.
    """
    waits = topic in context.ineligible
    return topic in context.deletion_begun or (context.is_deleting(topic) and not waits)


def _without_living_leader(context: Context) -> Iterator[TopicPartition]:
    # A leader that shuts down still leads until it is gone: what nobody else can take over is
    # better served by it than by nobody.
    for partition, led in context.led.items():
        is_served = context.is_online(led.state.leader, partition)
        if is_served or is_going(context, partition.topic):
            continue
        if context.state_of(partition) is PartitionState.ONLINE:
            yield partition


def _can_be_handed_over(context: Context, partition: TopicPartition) -> bool:
    if context.is_deleting(partition.topic) or partition not in context:
        return False
    return len(context.assignment(partition).replicas) > 1


def _not_deleted(context: Context, replicas: Iterable[Replica]) -> list[Replica]:
    """All but those whose deletion has begun: such a replica is not to be brought back."""
    return [each for each in replicas if each.topic_partition.topic not in context.deletion_begun]


def _elected(partitions: tuple[TopicPartition, ...]) -> Steps:
    if not partitions:
        return ()
    return (MovePartitions(partitions, PartitionState.ONLINE, Selector.OFFLINE),)


def _moved(context: Context, replicas: Iterable[Replica], to: ReplicaState) -> Steps:
    able = tuple(r for r in replicas if may_enter(REPLICA_FROM, context.replica_state_of(r), to))
    return (MoveReplicas(able, to),) if able else ()


def _deletions_halted(context: Context, offline: Iterable[Replica]) -> Steps:
    """A replica that cannot be asked to delete itself waits; else it would count as asked."""
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
