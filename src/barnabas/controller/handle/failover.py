"""Becoming controller: see everything, know everything, then bring it into order.

Watches are set by the very reads that fill the context, so nothing that happens afterwards is
missed. Brokers hear who lives before they hear who leads, since a follower must know its leader.
"""

import logging
from collections.abc import Iterator, Sequence
from itertools import chain

from barnabas.base.ids import TopicPartition
from barnabas.controller.context import Context, Replica
from barnabas.controller.controller_epoch import Reign
from barnabas.controller.decide import broker_liveness, topic_deletions
from barnabas.controller.decide.steps import (
    MovePartitions,
    MoveReplicas,
    RaiseLeaderEpochs,
    Selector,
    Steps,
    TellMetadata,
)
from barnabas.controller.handle.on_partitions import elect_preferred_by_node
from barnabas.controller.handle.on_reassignments import resume_reassignments
from barnabas.controller.handle.on_topics import read_topics, resume_deletions
from barnabas.controller.io.tree_watches import decoded
from barnabas.controller.states import PartitionState, ReplicaState
from barnabas.znodes.layout import FinalizedFeatures, decode_features, encode_features
from barnabas.znodes.paths import FEATURE

log = logging.getLogger("barnabas.controller")


async def take_over(reign: Reign) -> None:
    """Do what a new controller owes the cluster.

    Raises  Deposed or SessionExpired; then the next controller does all of it again
    """
    context = reign.context
    await _enable_features(reign)
    await _read_context(reign)
    reign.channels.set_brokers(context.live)
    await reign.perform((TellMetadata(None, ()),))
    _apply_initial_states(context)
    marked = await reign.watching.deletions()
    enabled = reign.settings().delete_topic_enabled
    await reign.perform(topic_deletions.decide_deletions(context, marked, enabled))
    alone, restarted = tuple(_led_since_before(context)), list(_restarted_unseen(context))
    # All at once, before what follows tells of some partitions of a topic and later of others: a
    # broker that has just started knows of none, and its clients take what it knows for all.
    await reign.perform((TellMetadata(None, None),))
    await _pass_over_restarted(reign, restarted)
    await reign.perform(_decide_order(context, alone))
    log.info(
        "controller is ready epoch=%d brokers=%d topics=%d partitions=%d",
        context.epoch,
        len(context.live),
        len(context.topics),
        len(context.partition_states),
    )
    await resume_reassignments(reign)
    await resume_deletions(reign)
    await elect_preferred_by_node(reign)


async def _enable_features(reign: Reign) -> None:
    """As Kafka's controllers do since 2.7: /feature says that features have versions."""
    found = await reign.store.get(FEATURE)
    if found is None:
        await reign.store.make(FEATURE, encode_features(FinalizedFeatures()))
        return
    features = decoded(lambda: decode_features(found[0]))
    if features is not None and not features.enabled:
        enabled = FinalizedFeatures(True, features.levels)
        await reign.store.set_or_make(FEATURE, encode_features(enabled))


async def _read_context(reign: Reign) -> None:
    context, watching = reign.context, reign.watching
    context.apply_brokers(await watching.brokers())
    # All states are read below: what these notifications tell of is seen then.
    isr_changes, _ = await watching.isr_changes()
    log_dir_events, _ = await watching.log_dir_events()
    await reign.store.delete(chain(isr_changes, log_dir_events))
    for name, topic in (await read_topics(reign, await watching.topic_names())).items():
        context.apply_topic(name, topic)
    for partition, led in (await watching.states(context.partitions())).items():
        context.apply_led(partition, led)


def _apply_initial_states(context: Context) -> None:
    partitions, replicas = {}, {}
    for partition in context.partitions():
        partitions[partition] = _initial_state(context, partition)
        for broker in context.assignment(partition).replicas:
            # On a broker that is down nothing can be deleted now, if that should be asked for.
            online = context.is_online(broker, partition)
            state = ReplicaState.ONLINE if online else ReplicaState.DELETION_INELIGIBLE
            replicas[Replica(partition, broker)] = state
    context.apply_initial_states(partitions, replicas)


def _initial_state(context: Context, partition: TopicPartition) -> PartitionState:
    led = context.led.get(partition)
    if led is None:
        return PartitionState.NEW
    online = context.is_online(led.state.leader, partition)
    return PartitionState.ONLINE if online else PartitionState.OFFLINE


def _restarted_unseen(context: Context) -> Iterator[Replica]:
    """In-sync replicas whose broker has registered anew since their partition's state was written,
    unseen by anybody, while another one stayed: what they had not flushed may be gone."""
    for partition, led in context.led.items():
        if context.is_deleting(partition.topic):
            continue
        online = [b for b in led.state.isr if context.is_online(b, partition)]
        restarted = [b for b in online if context.live[b].epoch > led.zxid]
        if len(restarted) < len(online):
            yield from (Replica(partition, broker) for broker in restarted)


async def _pass_over_restarted(reign: Reign, restarted: Sequence[Replica]) -> None:
    """Let those lead and be in sync that stayed; the others are as if they had just come."""
    context = reign.context
    if not restarted:
        return
    for partition, broker in restarted:
        context.apply_offline_replicas(broker, [partition])
    await reign.perform(broker_liveness.decide_replicas_offline(context, restarted))
    context.apply_online_replicas(restarted)


def _led_since_before(context: Context) -> Iterator[TopicPartition]:
    """The partitions whose leader has registered anew since it began to lead, unseen by anybody,
    as has every other replica that is in sync.

    What it had not flushed may be gone. If it went on in the same epoch it could give the same
    offsets to other records, and no epoch would tell its followers that theirs have to go.
    """
    passed_over = dict.fromkeys(_restarted_unseen(context))
    for partition, led in context.led.items():
        leader = context.live.get(led.state.leader)
        if (
            leader is not None
            and led.zxid < leader.epoch
            and Replica(partition, leader.broker_id) not in passed_over
            and not context.is_deleting(partition.topic)
        ):
            yield partition


def _decide_order(context: Context, led_since_before: tuple[TopicPartition, ...]) -> Steps:
    """Every replica hears of its leader; the dead leave their ISRs; who can gets a leader.

    Of a topic that goes, the dead are left to its deletion: who lives need not hear of them.
    """
    online, offline = list[Replica](), list[Replica]()
    for replica in context.replica_states:
        if context.is_online(replica.broker_id, replica.topic_partition):
            online.append(replica)
        elif not broker_liveness.is_going(context, replica.topic_partition.topic):
            offline.append(replica)
    return (
        RaiseLeaderEpochs(led_since_before),
        MoveReplicas(tuple(online), ReplicaState.ONLINE),
        MoveReplicas(tuple(offline), ReplicaState.OFFLINE),
        MovePartitions(
            tuple(broker_liveness.leaderless(context)), PartitionState.ONLINE, Selector.OFFLINE
        ),
    )
