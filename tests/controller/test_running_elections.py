"""Elections by a running controller: requested, by a znode, on schedule, and unclean ones."""

import asyncio
import logging

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.controller import events
from barnabas.controller.handle.active_controller import ControllerSettings
from barnabas.controller.states import Selector
from barnabas.znodes import layout, paths
from tests.controller.cluster import Cluster, scenario

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Warnings(logging.Handler):
    """Records log messages."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


async def stray(cluster: Cluster) -> None:
    """Restart broker 1 and let it catch up: others now lead its partitions."""
    await cluster.leave(1)
    await cluster.join(1)
    path = paths.partition_state_path(T0)
    data, stat = await cluster.admin.get(path)
    await cluster.admin.set(path, data.replace(b'"isr":[2]', b'"isr":[2,1]'), stat.version)


@scenario
async def test_a_preferred_leader_is_elected_by_request_on_the_newest_isr(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2))
    await stray(cluster)
    ask = events.ElectLeaders((T0, T1), Selector.PREFERRED)
    answers = await cluster.controller.ask(ask)
    assert answers[T0] is None
    refusal = answers[T1]
    assert refusal is not None
    assert refusal.code is ErrorCode.unknown_topic_or_partition
    assert (await cluster.state("t")).leader == 1
    again = (await cluster.controller.ask(ask))[T0]
    assert again is not None
    assert again.code is ErrorCode.election_not_needed


@scenario
async def test_a_preferred_leader_is_elected_by_the_znode_which_is_deleted(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2))
    await stray(cluster)
    for _ in range(2):
        await cluster.admin.create(paths.PREFERRED_REPLICA_ELECTION, layout.encode_partitions([T0]))
        await cluster.quiet()
        assert not await cluster.exists(paths.PREFERRED_REPLICA_ELECTION)
        assert (await cluster.state("t")).leader == 1


@scenario
async def test_preferred_leaders_are_elected_on_schedule(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2))
    await stray(cluster)
    await asyncio.sleep(600)
    assert (await cluster.state("t")).leader == 2
    cluster.nodes[0].settings = ControllerSettings(imbalance_check_interval_s=20)
    await asyncio.sleep(300)
    assert (await cluster.state("t")).leader == 1


@scenario
async def test_an_unclean_election_happens_only_when_allowed_and_warns(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2))
    await cluster.write_isr("t", 0, 1)
    await cluster.quiet()
    await cluster.leave(1)
    assert (await cluster.state("t")).leader == -1
    await cluster.admin.create(
        paths.config_path(paths.topic_entity("t")),
        layout.encode_config({"unclean.leader.election.enable": "true"}),
    )
    warnings = Warnings()
    logging.getLogger("barnabas.controller").addHandler(warnings)
    try:
        cluster.controller.put(events.UncleanAllowed("t"))
        await cluster.quiet()
    finally:
        logging.getLogger("barnabas.controller").removeHandler(warnings)
    state = await cluster.state("t")
    assert (state.leader, state.isr) == (2, (2,))
    assert any("unclean election" in each and "t-0" in each for each in warnings.said)
    assert cluster.controller.unclean_elections == 1
