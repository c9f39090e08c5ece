"""Bounced and dead brokers: a bounced one may have lost records, so a dead one stays in the ISR."""

from barnabas.base.ids import BrokerId
from barnabas.znodes import paths
from barnabas.znodes.tree import CreateNode, DeleteNode
from tests.controller.cluster import Cluster, scenario


@scenario
async def test_of_the_last_two_in_sync_replicas_the_one_that_did_not_restart_stays(
    cluster: Cluster,
) -> None:
    await cluster.start(0, 1, 2)
    await cluster.create_topic("t", (1, 2), (2, 1))
    bounced, gone = (paths.broker_path(BrokerId(each)) for each in (1, 2))
    registered, _ = await cluster.admin.get(bounced)
    other, _ = await cluster.admin.get(gone)
    again = CreateNode(bounced, registered, ephemeral=True)
    await cluster.nodes[1].session.multi((DeleteNode(gone), DeleteNode(bounced), again))
    await cluster.quiet()
    for partition in (0, 1):
        state = await cluster.state("t", partition)
        assert (state.leader, state.isr) == (-1, (2,))
    await cluster.nodes[2].session.multi((CreateNode(gone, other, ephemeral=True),))
    await cluster.quiet()
    for partition in (0, 1):
        assert (await cluster.state("t", partition)).leader == 2
