"""Topic deletions by a running controller: brokers that are down, refuse, or come back."""

from barnabas.base.ids import TopicPartition
from barnabas.controller.handle.active_controller import ControllerSettings
from barnabas.znodes import layout, paths
from tests.controller.cluster import Cluster, is_gone, mark_deleted, scenario

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@scenario
async def test_a_deleted_topic_is_gone_from_brokers_and_tree(cluster: Cluster) -> None:
    await cluster.start(0, 1)
    await cluster.create_topic("t", (0, 1), (1, 0))
    await cluster.admin.create(paths.config_path(paths.topic_entity("t")), layout.encode_config({}))
    await mark_deleted(cluster, "t")
    await cluster.until(lambda: is_gone(cluster, "t"))
    await cluster.quiet()
    assert not await cluster.exists(paths.config_path(paths.topic_entity("t")))
    for node in cluster.nodes.values():
        assert set(node.broker.deleted()) == {T0, T1}
        assert node.broker.metadata()[T0].leader == -2
    assert cluster.controller.describe()["counts"]["topics"] == 0


@scenario
async def test_a_deletion_waits_for_a_broker_that_is_down(cluster: Cluster) -> None:
    await cluster.start(0, 1)
    await cluster.create_topic("t", (0, 1))
    await cluster.leave(1)
    await mark_deleted(cluster, "t")
    await cluster.quiet()
    assert cluster.nodes[0].broker.deleted() == [T0]
    assert not await is_gone(cluster, "t")
    await cluster.nodes[1].register()
    await cluster.until(lambda: is_gone(cluster, "t"))
    assert T0 in cluster.nodes[1].broker.deleted()


@scenario
async def test_a_deletion_that_a_broker_refuses_is_retried_when_it_restarts(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1)
    await cluster.create_topic("t", (0, 1))
    cluster.nodes[1].broker.refuses_deletion = {T0}
    await mark_deleted(cluster, "t")
    await cluster.quiet()
    assert not await is_gone(cluster, "t")
    cluster.nodes[1].broker.refuses_deletion = set()
    await cluster.nodes[1].unregister()
    await cluster.nodes[1].register()
    await cluster.until(lambda: is_gone(cluster, "t"))


@scenario
async def test_marks_of_unknown_topics_and_of_disabled_deletions_are_removed(
    cluster: Cluster,
) -> None:
    await cluster.start(0)
    await cluster.create_topic("t", (0,))
    await mark_deleted(cluster, "unknown")
    await cluster.until(lambda: is_gone(cluster, "unknown"))
    cluster.nodes[0].settings = ControllerSettings(delete_topic_enabled=False)
    await mark_deleted(cluster, "t")
    await cluster.quiet()
    assert not await cluster.exists(paths.delete_topic_path("t"))
    assert (await cluster.state("t")).leader == 0


@scenario
async def test_partitions_added_to_a_topic_under_deletion_are_removed_again(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1)
    await cluster.create_topic("t", (0, 1))
    await cluster.nodes[1].unregister()
    await mark_deleted(cluster, "t")
    await cluster.quiet()
    topic_id = (await cluster.topic("t")).topic_id
    await cluster.write_topic("t", (0, 1), (0,), topic_id=topic_id)
    await cluster.quiet()
    assert list((await cluster.topic("t")).partitions) == [0]


@scenario
async def test_a_topic_can_be_created_with_the_name_of_a_deleted_one(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1)
    await cluster.create_topic("t", (0, 1))
    await cluster.nodes[0].unregister()
    await cluster.join(0)
    await mark_deleted(cluster, "t")
    await cluster.until(lambda: is_gone(cluster, "t"))
    await cluster.create_topic("t", (1, 0))
    state = await cluster.state("t")
    assert (state.leader, state.leader_epoch) == (1, 0)
