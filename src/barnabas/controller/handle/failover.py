"""Controller failover: a new controller reads the tree, then repairs what it finds.

The reads that fill the context also set the watches, so no later change is missed. Brokers
receive the live brokers before they receive leaders: a follower must know its leader's endpoint.
"""

import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import chain

from barnabas.base.ids import TopicPartition
from barnabas.base.turns import in_turns
from barnabas.controller.context import Context, PartitionReplica
from barnabas.controller.decide import broker_liveness, topic_deletions
from barnabas.controller.decide.steps import (
    MovePartitions,
    MoveReplicas,
    RaiseLeaderEpochs,
    SendMetadata,
    Steps,
)
from barnabas.controller.handle.active_controller import ActiveController
from barnabas.controller.handle.on_partitions import elect_preferred_by_node
from barnabas.controller.handle.on_reassignments import resume_reassignments
from barnabas.controller.handle.on_topics import read_topics, resume_deletions
from barnabas.controller.states import PartitionState, ReplicaState, Selector

log = logging.getLogger("barnabas.controller")


async def take_over(active: ActiveController) -> None:
    """Read the tree, notify the brokers, elect leaders and resume what was under way.

    Raises  ControllerMoved or SessionExpired; the next controller then starts over
    """
    context = active.context
    await _read_context(active)
    active.channels.set_brokers(context.live)
    await active.perform((SendMetadata(None, ()),))
    await _apply_initial_states(context)
    marked = await active.watches.deletions()
    enabled = active.settings().delete_topic_enabled
    await active.perform(topic_deletions.decide_deletions(context, marked, enabled))
    restarted = [each async for each in _restarted_unseen(context)]
    alone = [each async for each in _restarted_leaders(context, restarted)]
    # Each topic whole, before the steps below send those of a topic in parts: a broker that has
    # just started would report only those to its clients.
    await active.perform((SendMetadata(None, None),))
    await _demote_restarted(active, restarted)
    await active.perform(await _initial_steps(context, tuple(alone)))
    log.info(
        "controller is ready epoch=%d brokers=%d topics=%d partitions=%d",
        context.epoch,
        len(context.live),
        len(context.topics),
        len(context.partition_states),
    )
    await resume_reassignments(active)
    await resume_deletions(active)
    await elect_preferred_by_node(active)


async def _read_context(active: ActiveController) -> None:
    context, watches = active.context, active.watches
    context.apply_brokers(await watches.brokers())
    # The states are read below, so these notifications are not needed any more.
    isr_changes, _ = await watches.isr_changes()
    log_dir_events, _ = await watches.log_dir_events()
    await active.store.delete(chain(isr_changes, log_dir_events))
    for name, topic in (await read_topics(active, await watches.topic_names())).items():
        context.apply_topic(name, topic)
    states = await watches.states(context.partitions())
    async for partition, leadership in in_turns(states.items()):
        context.apply_leadership(partition, leadership)


async def _apply_initial_states(context: Context) -> None:
    partitions, replicas = {}, {}
    async for partition in in_turns(context.partitions()):
        partitions[partition] = _initial_state(context, partition)
        for broker in context.assignment(partition).replicas:
            # If its topic is to be deleted, a replica on a dead broker has to wait.
            online = context.is_online(broker, partition)
            state = ReplicaState.ONLINE if online else ReplicaState.DELETION_INELIGIBLE
            replicas[PartitionReplica(partition, broker)] = state
    context.apply_initial_states(partitions, replicas)


def _initial_state(context: Context, partition: TopicPartition) -> PartitionState:
    leadership = context.leadership.get(partition)
    if leadership is None:
        return PartitionState.NEW
    online = context.is_online(leadership.state.leader, partition)
    return PartitionState.ONLINE if online else PartitionState.OFFLINE


async def _restarted_unseen(context: Context) -> AsyncIterator[PartitionReplica]:
    """In-sync replicas that restarted unseen while another in-sync replica kept running.

    Their process is newer than the partition's state. They may have lost unflushed records. One
    whose session expired has a newer epoch, too, and lost nothing.
    """
    async for partition, leadership in in_turns(context.leadership.items()):
        if context.is_deleting(partition.topic):
            continue
        online = [b for b in leadership.state.isr if context.is_online(b, partition)]
        restarted = [b for b in online if context.live[b].first_epoch > leadership.zxid]
        if len(restarted) < len(online):
            for broker in restarted:
                yield PartitionReplica(partition, broker)


async def _demote_restarted(
    active: ActiveController, restarted: Sequence[PartitionReplica]
) -> None:
    """Remove restarted replicas from their ISRs and leaderships, then treat them as started."""
    context = active.context
    if not restarted:
        return
    for partition, broker in restarted:
        context.apply_offline_replicas(broker, [partition])
    await active.perform(broker_liveness.decide_replicas_offline(context, restarted))
    context.apply_online_replicas(restarted)


async def _restarted_leaders(
    context: Context, restarted: Iterable[PartitionReplica]
) -> AsyncIterator[TopicPartition]:
    """The partitions whose leader restarted unseen, as did every other in-sync replica.

    The leader may have lost unflushed records. In the same leader epoch it could assign their
    offsets to other records, and its followers would not know to truncate theirs.
    """
    passed_over = dict.fromkeys(restarted)
    async for partition, leadership in in_turns(context.leadership.items()):
        leader = context.live.get(leadership.state.leader)
        if (
            leader is not None
            and leadership.zxid < leader.epoch
            and PartitionReplica(partition, leader.broker_id) not in passed_over
            and not context.is_deleting(partition.topic)
        ):
            yield partition


async def _initial_steps(context: Context, restarted_leaders: tuple[TopicPartition, ...]) -> Steps:
    """Notify every replica of its leader, remove dead replicas from ISRs, and elect leaders.

    Dead replicas of a topic whose deletion is active are left to the deletion.
    """
    online, offline = list[PartitionReplica](), list[PartitionReplica]()
    async for replica in in_turns(context.replica_states):
        if context.is_online(replica.broker_id, replica.topic_partition):
            online.append(replica)
        elif not broker_liveness.is_deletion_active(context, replica.topic_partition.topic):
            offline.append(replica)
    return (
        RaiseLeaderEpochs(restarted_leaders),
        MoveReplicas(tuple(online), ReplicaState.ONLINE),
        MoveReplicas(tuple(offline), ReplicaState.OFFLINE),
        MovePartitions(
            tuple(broker_liveness.leaderless(context)),
            PartitionState.ONLINE,
            Selector.OFFLINE,
        ),
    )
