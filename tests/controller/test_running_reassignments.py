"""Reassignments by a running controller: requested, completed, cancelled."""

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.controller import events
from barnabas.znodes import layout, paths
from barnabas.znodes.tree import Operation, SetData
from tests.controller.cluster import Cluster, is_gone, mark_deleted, scenario
from tests.controller.contexts import brokers

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def catch_up(cluster: Cluster, partition: TopicPartition, *isr: int) -> None:
    await cluster.write_isr(partition.topic, partition.partition, *isr)
    await cluster.quiet()


@scenario
async def test_a_reassignment_completes_when_the_new_replicas_have_caught_up(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1, 2, 3)
    await cluster.create_topic("t", (0, 1))
    answers = await cluster.controller.ask(events.AlterReassignments({T0: brokers(2, 3)}))
    assert answers == {T0: None}
    moving = await cluster.topic("t")
    assert (moving.partitions[0], moving.adding[0], moving.removing[0]) == (
        (2, 3, 0, 1),
        (2, 3),
        (0, 1),
    )
    listed = await cluster.controller.ask(events.ListReassignments(None))
    assert listed[T0].adding == (2, 3)
    await cluster.quiet()
    assert cluster.nodes[2].broker.leaders()[T0].is_new
    await catch_up(cluster, T0, 0, 1, 2)
    assert (await cluster.topic("t")).adding
    await catch_up(cluster, T0, 0, 1, 2, 3)
    moved = await cluster.topic("t")
    assert (moved.partitions, moved.adding, moved.removing) == ({0: (2, 3)}, {}, {})
    state = await cluster.state("t")
    assert (state.leader, state.isr) == (2, (2, 3))
    assert cluster.nodes[0].broker.deleted() == [T0]
    assert cluster.nodes[1].broker.deleted() == [T0]
    assert await cluster.controller.ask(events.ListReassignments((T0,))) == {}


@scenario
async def test_a_reassignment_completes_without_an_isr_notification(cluster: Cluster) -> None:
    """The watch on `state` fires; leaders send the notification only seconds later."""
    await cluster.start(0, 1)
    await cluster.create_topic("t", (0,))
    await cluster.controller.ask(events.AlterReassignments({T0: brokers(1)}))
    path = paths.partition_state_path(T0)
    data, stat = await cluster.admin.get(path)
    await cluster.admin.set(path, data.replace(b'"isr":[0]', b'"isr":[0,1]'), stat.version)
    await cluster.quiet()
    assert (await cluster.topic("t")).partitions == {0: (1,)}


@scenario
async def test_partitions_that_caught_up_together_complete_together(cluster: Cluster) -> None:
    """So the topic's znode is not written again for each of its partitions."""
    count = 20
    await cluster.start(0, 1)
    await cluster.create_topic("t", *[(0,)] * count)
    moving = [TopicPartition("t", n) for n in range(count)]
    await cluster.controller.ask(events.AlterReassignments(dict.fromkeys(moving, brokers(1))))
    _, before = await cluster.admin.get(paths.topic_path("t"))
    writes: list[Operation] = []
    for each in moving:
        path = paths.partition_state_path(each)
        data, stat = await cluster.admin.get(path)
        writes.append(SetData(path, data.replace(b'"isr":[0]', b'"isr":[0,1]'), stat.version))
    await cluster.admin.multi(writes)
    await cluster.quiet()
    assert (await cluster.topic("t")).partitions == dict.fromkeys(range(count), (1,))
    _, after = await cluster.admin.get(paths.topic_path("t"))
    assert after.version - before.version == 1


@scenario
async def test_partitions_are_reassigned_by_the_znode_which_is_deleted_with_the_last_one(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (0,), (1,))
    await cluster.admin.create(
        paths.REASSIGN_PARTITIONS,
        layout.encode_reassignment(
            {T0: brokers(2), T1: brokers(2), TopicPartition("unknown", 0): brokers(1)}
        ),
    )
    await cluster.quiet()
    data, _ = await cluster.admin.get(paths.REASSIGN_PARTITIONS)
    assert list(layout.decode_reassignment(data)) == [T0, T1]
    epoch = (await cluster.state("t", 1)).leader_epoch
    await catch_up(cluster, T0, 0, 2)
    data, _ = await cluster.admin.get(paths.REASSIGN_PARTITIONS)
    assert list(layout.decode_reassignment(data)) == [T1]
    assert (await cluster.state("t", 1)).leader_epoch == epoch
    await catch_up(cluster, T1, 1, 2)
    assert not await cluster.exists(paths.REASSIGN_PARTITIONS)
    assert (await cluster.topic("t")).partitions == {0: (2,), 1: (2,)}
    await cluster.admin.create(
        paths.REASSIGN_PARTITIONS, layout.encode_reassignment({T0: brokers(0)})
    )
    await cluster.quiet()
    assert (await cluster.topic("t")).adding == {0: (0,)}


@scenario
async def test_a_cancelled_reassignment_leaves_the_partition_as_it_was(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (0, 1))
    await cluster.controller.ask(events.AlterReassignments({T0: brokers(1, 2)}))
    answers = await cluster.controller.ask(events.AlterReassignments({T0: None, T1: None}))
    assert answers[T0] is None
    refusal = answers[T1]
    assert refusal is not None
    assert refusal.code is ErrorCode.unknown_topic_or_partition
    await cluster.quiet()
    topic = await cluster.topic("t")
    assert (set(topic.partitions[0]), topic.adding, topic.removing) == ({0, 1}, {}, {})
    assert cluster.nodes[2].broker.deleted() == [T0]
    again = (await cluster.controller.ask(events.AlterReassignments({T0: None})))[T0]
    assert again is not None
    assert again.code is ErrorCode.no_reassignment_in_progress


@scenario
async def test_a_topic_under_reassignment_is_deleted_when_that_completes(cluster: Cluster) -> None:
    await cluster.start(0, 1)
    await cluster.create_topic("t", (0,))
    await cluster.controller.ask(events.AlterReassignments({T0: brokers(1)}))
    await mark_deleted(cluster, "t")
    await cluster.quiet()
    assert not await is_gone(cluster, "t")
    await cluster.write_isr("t", 0, 0, 1)
    await cluster.until(lambda: is_gone(cluster, "t"))
