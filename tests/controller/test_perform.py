"""Performing steps: on the newest state in the tree, applying only what was written."""

import asyncio
from collections.abc import Iterable
from itertools import chain
from typing import cast

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller import events
from barnabas.controller.context import PartitionReplica
from barnabas.controller.decide.steps import (
    MovePartitions,
    MoveReplicas,
    RaiseLeaderEpochs,
    SendMetadata,
    Step,
    in_parts,
)
from barnabas.controller.states import PartitionState, ReplicaState, Selector
from barnabas.wire.apis import ApiKey
from barnabas.znodes import paths
from tests.controller.cluster import Cluster, scenario

T0 = TopicPartition("t", 0)


async def write_silently(cluster: Cluster, old: bytes, new: bytes) -> None:
    """A leader writes its ISR, and has not sent the notification yet."""
    path = paths.partition_state_path(T0)
    data, stat = await cluster.admin.get(path)
    assert old in data
    await cluster.admin.set(path, data.replace(old, new), stat.version)


@scenario
async def test_a_replica_that_left_the_isr_without_a_notification_is_not_elected(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1, 2, 3)
    await cluster.create_topic("t", (1, 2, 3))
    await write_silently(cluster, b'"isr":[1,2,3]', b'"isr":[1,3]')
    await cluster.leave(1)
    state = await cluster.state("t")
    assert (state.leader, state.isr) == (3, (3,))


@scenario
async def test_a_replica_that_joined_the_isr_without_a_notification_is_elected(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2))
    await cluster.write_isr("t", 0, 1)
    await cluster.quiet()
    await write_silently(cluster, b'"isr":[1]', b'"isr":[1,2]')
    await cluster.leave(1)
    state = await cluster.state("t")
    assert (state.leader, state.isr) == (2, (2,))


@scenario
async def test_a_missing_znode_does_not_prevent_the_writes_of_others(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2), (1, 2))
    await cluster.admin.delete(paths.partition_state_path(T0))
    await cluster.leave(1)
    assert (await cluster.state("t", 1)).leader == 2
    assert cluster.controller.epoch == 1
    # An operator has to repair it; the next controller finds a partition without a state.
    await cluster.admin.delete(paths.CONTROLLER)
    await cluster.until(lambda: cluster.active is not None and cluster.controller.epoch == 2)
    await cluster.quiet()
    assert (await cluster.state("t", 0)).leader == 2


@scenario
async def test_a_partition_added_meanwhile_survives_a_reassignment_of_its_topic(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1,))
    topic_id = (await cluster.topic("t")).topic_id
    asked = asyncio.ensure_future(
        cluster.controller.ask(events.AlterReassignments({T0: (BrokerId(2),)}))
    )
    await cluster.write_topic("t", (1,), (0,), topic_id=topic_id)
    await asked
    await cluster.quiet()
    topic = await cluster.topic("t")
    assert (topic.adding, topic.partitions[1]) == ({0: (2,)}, (0,))
    assert (await cluster.state("t", 1)).leader == 0


@scenario
async def test_thousands_of_partitions_are_sent_in_several_requests(cluster: Cluster) -> None:
    await cluster.start(0, 1)
    await cluster.create_topic("t", *([(0, 1)] * 2500))
    told = cluster.nodes[1].broker.messages(ApiKey.LEADER_AND_ISR)
    assert len(cluster.nodes[1].broker.leaders()) == 2500
    assert max(len(each.topic_states[0].partition_states) for each in told) == 2000


def test_a_step_in_parts_is_the_same_step() -> None:
    partitions = tuple(TopicPartition("t", n) for n in range(2500))
    replicas = tuple(PartitionReplica(each, BrokerId(1)) for each in partitions)
    moved = list(in_parts(MovePartitions(partitions, PartitionState.OFFLINE)))
    assert joined(moved) == partitions
    assert {part[1:] for part in moved} == {(PartitionState.OFFLINE, Selector.OFFLINE)}
    raised = list(in_parts(RaiseLeaderEpochs(partitions, (BrokerId(1),))))
    assert joined(raised) == partitions
    assert {part[1:] for part in raised} == {((BrokerId(1),),)}
    assert joined(in_parts(MoveReplicas(replicas, ReplicaState.ONLINE))) == replicas
    assert list(in_parts(MoveReplicas((), ReplicaState.ONLINE))) == []
    told = SendMetadata(None, partitions)
    assert list(in_parts(told)) == [told]


def test_the_partitions_of_a_topic_stay_in_one_part_unless_it_is_very_large() -> None:
    partitions = tuple(TopicPartition(topic, n) for topic in "abcd" for n in range(400))
    moved = in_parts(MovePartitions(partitions, PartitionState.ONLINE))
    assert [len(joined([part])) for part in moved] == [1200, 400]


def joined(parts: Iterable[Step]) -> tuple[object, ...]:
    """The partitions or replicas of the parts, in order."""
    return tuple(chain.from_iterable(cast(tuple[object, ...], part[0]) for part in parts))
