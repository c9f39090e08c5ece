"""A broker that has just started hears from a new controller of whole topics, or of none."""

from collections.abc import Iterator

from barnabas.base.ids import BrokerId
from barnabas.wire.apis import ApiKey
from barnabas.znodes import paths
from barnabas.znodes.tree import CreateNode, DeleteNode, Operation
from tests.controller.cluster import Cluster, FakeBroker, scenario

STARTED = 3


def known(broker: FakeBroker) -> Iterator[dict[str, set[int]]]:
    """The partitions of each topic that it knows of, after each request in turn."""
    so_far: dict[str, set[int]] = {}
    for message in broker.messages(ApiKey.UPDATE_METADATA):
        for topic in message.topic_states:
            indexes = {state.partition_index for state in topic.partition_states}
            so_far.setdefault(topic.topic_name, set()).update(indexes)
        yield {name: set(indexes) for name, indexes in so_far.items()}


async def change_controllers(cluster: Cluster, *, controller_is_back: bool) -> None:
    """The controller, broker 0, goes; a broker starts before another is elected, and perhaps
    it is back by then, too."""
    own, other = (paths.broker_path(BrokerId(each)) for each in (0, STARTED))
    registered, _ = await cluster.admin.get(own)
    await cluster.node(STARTED)
    changes: list[Operation] = [
        DeleteNode(paths.CONTROLLER),
        DeleteNode(own),
        CreateNode(other, registered, ephemeral=True),
    ]
    if controller_is_back:
        changes.append(CreateNode(own, registered, ephemeral=True))
    await cluster.nodes[0].session.multi(tuple(changes))
    await cluster.until(lambda: cluster.active is not None)
    await cluster.quiet()


def knew_whole_topics(cluster: Cluster, topics: dict[str, set[int]]) -> bool:
    *before, at_last = known(cluster.nodes[STARTED].broker)
    assert at_last == topics
    return all(then[name] == topics[name] for then in before for name in then)


@scenario
async def test_also_if_some_partitions_need_a_new_leader(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2), (0, 1), (2, 1))
    await cluster.create_topic("u", (0, 2), (1, 2))
    await change_controllers(cluster, controller_is_back=False)
    assert knew_whole_topics(cluster, {"t": {0, 1, 2}, "u": {0, 1}})


@scenario
async def test_also_if_nobody_can_lead_some_partitions(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2), (0,))
    await change_controllers(cluster, controller_is_back=False)
    assert knew_whole_topics(cluster, {"t": {0, 1}})


@scenario
async def test_also_if_a_leader_restarted_that_leads_on(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (0,), (1, 2))
    await change_controllers(cluster, controller_is_back=True)
    assert knew_whole_topics(cluster, {"t": {0, 1}})


@scenario
async def test_also_if_a_leader_restarted_that_is_passed_over(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (0, 1), (1, 2))
    await change_controllers(cluster, controller_is_back=True)
    assert knew_whole_topics(cluster, {"t": {0, 1}})


@scenario
async def test_also_if_it_takes_several_requests_to_tell_all_replicas(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", *[(1, 2, 0)] * 600)
    await change_controllers(cluster, controller_is_back=False)
    assert knew_whole_topics(cluster, {"t": set(range(600))})
