"""The whole controller: it creates topics and follows brokers that start and fail."""

import asyncio

from barnabas.base.ids import TopicPartition
from barnabas.wire.apis import ApiKey
from barnabas.znodes import paths
from tests.controller.cluster import Cluster, scenario


@scenario
async def test_a_new_topic_gets_leaders_and_all_brokers_get_its_metadata(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2), (2, 0))
    first, second = await cluster.state("t", 0), await cluster.state("t", 1)
    assert (first.leader, first.isr, first.leader_epoch) == (1, (1, 2), 0)
    assert (second.leader, second.isr) == (2, (2, 0))
    assert first.controller_epoch == 1
    assert set(cluster.nodes[2].broker.leaders()) == {
        TopicPartition("t", 0),
        TopicPartition("t", 1),
    }
    for node in cluster.nodes.values():
        assert set(node.broker.metadata()) == {TopicPartition("t", 0), TopicPartition("t", 1)}


@scenario
async def test_a_topic_without_an_id_gets_one(cluster: Cluster) -> None:
    await cluster.start(0)
    await cluster.write_topic("t", (0,), topic_id=None)
    await cluster.quiet()
    given = (await cluster.topic("t")).topic_id
    assert given is not None
    told = cluster.nodes[0].broker.messages(ApiKey.LEADER_AND_ISR)[-1].topic_states[0]
    assert told.topic_id == given


@scenario
async def test_added_partitions_get_leaders(cluster: Cluster) -> None:
    await cluster.start(0, 1)
    await cluster.create_topic("t", (0, 1))
    topic_id = (await cluster.topic("t")).topic_id
    await cluster.write_topic("t", (0, 1), (1, 0), topic_id=topic_id)
    await cluster.quiet()
    assert (await cluster.state("t", 1)).leader == 1


@scenario
async def test_leaders_move_when_a_broker_dies_and_it_rejoins_as_a_follower(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2), (2, 1))
    await cluster.leave(1)
    state = await cluster.state("t", 0)
    assert (state.leader, state.isr, state.leader_epoch > 0) == (2, (2,), True)
    assert (await cluster.state("t", 1)).isr == (2,)
    heard = len(cluster.nodes[1].broker.heard)
    await cluster.join(1)
    assert len(cluster.nodes[1].broker.heard) > heard
    assert cluster.nodes[1].broker.leaders()[TopicPartition("t", 0)].leader == 2


@scenario
async def test_a_partition_whose_only_replica_died_waits_for_it(cluster: Cluster) -> None:
    await cluster.start(0, 1)
    await cluster.create_topic("t", (1,))
    await cluster.leave(1)
    assert (await cluster.state("t")).leader == -1
    assert cluster.controller.describe()["counts"]["offline_partitions"] == 1
    await cluster.join(1)
    state = await cluster.state("t")
    assert (state.leader, state.isr) == (1, (1,))
    assert cluster.controller.describe()["counts"]["offline_partitions"] == 0


@scenario
async def test_a_bounced_broker_gets_everything_again_under_its_new_epoch(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1)
    await cluster.create_topic("t", (1, 0))
    before = cluster.nodes[1].broker.messages(ApiKey.LEADER_AND_ISR)[-1].broker_epoch
    await cluster.nodes[1].unregister()
    await cluster.join(1)
    told = cluster.nodes[1].broker.messages(ApiKey.LEADER_AND_ISR)[-1]
    assert told.broker_epoch > before
    assert (await cluster.state("t")).leader == 0


@scenario
async def test_brokers_get_the_new_endpoints_of_a_broker(cluster: Cluster) -> None:
    await cluster.start(0, 1)
    session = cluster.nodes[1].session
    data, _ = await session.get(paths.broker_path(cluster.nodes[1].broker_id))
    await session.set(
        paths.broker_path(cluster.nodes[1].broker_id), data.replace(b"here", b"there")
    )
    await cluster.quiet()
    told = cluster.nodes[0].broker.messages(ApiKey.UPDATE_METADATA)[-1]
    assert {each.id: each.endpoints[0].host for each in told.live_brokers} == {
        0: "here",
        1: "there",
    }


@scenario
async def test_the_description_is_complete(cluster: Cluster) -> None:
    await cluster.start(0, 1)
    await cluster.create_topic("t", (1, 0))
    said = cluster.controller.describe(full=True)
    assert (said["broker"], said["epoch"]) == (0, 1)
    assert said["queue"] == {"length": 0, "oldest_ms": 0}
    assert said["events"][0]["event"] == "Startup"
    assert all(each["outcome"] == "done" for each in said["events"])
    assert said["counts"] == {
        "brokers": 2,
        "topics": 1,
        "partitions": 1,
        "offline_partitions": 0,
        "preferred_imbalance": 0,
        "reassigning": 0,
        "deleting": 0,
    }
    assert said["brokers"]["1"]["channel"] == {"queue": 0, "in_flight": 0}
    assert said["partitions"]["t-0"] == {
        "replicas": [1, 0],
        "adding": [],
        "removing": [],
        "leader": 1,
        "leader_epoch": 0,
        "isr": [1, 0],
        "version": 0,
        "state": "Online",
    }


@scenario
async def test_a_stopped_controller_resigns_at_once(cluster: Cluster) -> None:
    await cluster.start(0, 1)
    began = asyncio.get_running_loop().time()
    await cluster.nodes[0].controller.stop()
    await cluster.until(lambda: cluster.nodes[1].controller.is_active)
    assert cluster.controller.epoch == 2
    assert asyncio.get_running_loop().time() - began < 1
