"""A new controller sends a started broker every topic with all its partitions at once."""

from collections.abc import Iterator

from barnabas.base.ids import BrokerId
from barnabas.wire.apis import ApiKey
from barnabas.znodes import paths
from barnabas.znodes.tree import CreateNode, DeleteNode, Operation
from tests.controller.cluster import Cluster, FakeBroker, scenario

STARTED = 3


def known(broker: FakeBroker) -> Iterator[dict[str, set[int]]]:
    """The known partitions of each topic, after each request."""
    so_far: dict[str, set[int]] = {}
    for message in broker.messages(ApiKey.UPDATE_METADATA):
        for topic in message.topic_states:
            indexes = {state.partition_index for state in topic.partition_states}
            so_far.setdefault(topic.topic_name, set()).update(indexes)
        yield {name: set(indexes) for name, indexes in so_far.items()}


async def change_controllers(cluster: Cluster, *, controller_is_back: bool) -> None:
    """Stop the controller, broker 0; start a broker before the next election, and perhaps broker 0
    as well."""
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
async def test_topics_are_sent_whole_if_some_partitions_need_a_new_leader(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2), (0, 1), (2, 1))
    await cluster.create_topic("u", (0, 2), (1, 2))
    await change_controllers(cluster, controller_is_back=False)
    assert knew_whole_topics(cluster, {"t": {0, 1, 2}, "u": {0, 1}})


@scenario
async def test_topics_are_sent_whole_if_some_partitions_cannot_get_a_leader(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2), (0,))
    await change_controllers(cluster, controller_is_back=False)
    assert knew_whole_topics(cluster, {"t": {0, 1}})


@scenario
async def test_topics_are_sent_whole_if_a_restarted_leader_leads_on(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (0,), (1, 2))
    await change_controllers(cluster, controller_is_back=True)
    assert knew_whole_topics(cluster, {"t": {0, 1}})


@scenario
async def test_topics_are_sent_whole_if_a_restarted_leader_is_demoted(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (0, 1), (1, 2))
    await change_controllers(cluster, controller_is_back=True)
    assert knew_whole_topics(cluster, {"t": {0, 1}})


@scenario
async def test_topics_are_sent_whole_if_replicas_need_several_requests(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", *[(1, 2, 0)] * 600)
    await change_controllers(cluster, controller_is_back=False)
    assert knew_whole_topics(cluster, {"t": set(range(600))})
