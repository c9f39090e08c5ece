"""The controller on a real ZooKeeper: scenarios of sessions and connections."""

import asyncio
from collections.abc import Callable

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller import events
from barnabas.znodes import paths
from barnabas.znodes.tree import Coordination, SessionState
from barnabas.znodes.zookeeper.zookeeper_server import ZooKeeperServer
from barnabas.znodes.zookeeper.zookeeper_tree import connect
from tests.controller.cluster import Cluster, Scenario
from tests.znodes.test_zookeeper_tree import ZooKeeperUnderTest
from tests.znodes.timeouts import PATIENT, TIMEOUTS, Timeouts

T0 = TopicPartition("t", 0)


def play(address: str, scenario: Scenario, timeouts: Timeouts = TIMEOUTS) -> None:
    async def run() -> None:
        under_test, sessions = ZooKeeperUnderTest(address), list[Coordination]()

        async def session() -> Coordination:
            sessions.append(await connect(address, **timeouts))
            return sessions[-1]

        cluster = Cluster(await session(), session, under_test.expire)
        try:
            await scenario(cluster)
            await cluster.quiet()
            await cluster.agree()
        finally:
            await cluster.stop()
            for each in sessions:
                await each.close()

    asyncio.run(run())


def test_the_next_controller_resumes_all_operations(zookeeper_chroot: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(0, 1, 2, 3)
        await cluster.create_topic("t", (1, 2))
        await cluster.create_topic("gone", (3,))
        await cluster.controller.ask(events.AlterReassignments({T0: (BrokerId(3),)}))
        cluster.nodes[3].broker.reachable.clear()
        await cluster.admin.create(paths.delete_topic_path("gone"))
        await cluster.nodes[0].expire()
        await cluster.until(lambda: cluster.active is not None)
        cluster.nodes[3].broker.reachable.set()
        await cluster.quiet()
        await cluster.write_isr("t", 0, 1, 2, 3)
        await cluster.until(lambda: _has_moved(cluster))
        await cluster.until(lambda: _is_gone(cluster, "gone"))
        assert cluster.controller.epoch == 2
        assert (await cluster.state("t")).leader == 3
        await cluster.nodes[0].come_back()

    play(zookeeper_chroot, scenario)


def test_a_controller_stands_again_when_its_expired_session_is_renewed(
    zookeeper_chroot: str,
) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(0)
        await cluster.create_topic("t", (0,))
        await cluster.nodes[0].expire()
        assert cluster.active is None
        await cluster.nodes[0].come_back()
        await cluster.until(lambda: cluster.active is not None)
        await cluster.quiet()
        assert cluster.controller.epoch == 2
        assert (await cluster.state("t")).leader == 0

    play(zookeeper_chroot, scenario)


def test_a_controller_waits_while_zookeeper_is_down_and_misses_no_event(
    fresh_zookeeper: Callable[[], ZooKeeperServer],
) -> None:
    server = fresh_zookeeper()

    async def scenario(cluster: Cluster) -> None:
        await cluster.start(0, 1)
        loop = asyncio.get_running_loop()
        asked = events.AlterReassignments({T0: (BrokerId(1),)})
        await cluster.create_topic("t", (0, 1))
        server.kill()
        answer = asyncio.ensure_future(cluster.controller.ask(asked))
        await asyncio.sleep(0.5)
        assert not answer.done()
        await loop.run_in_executor(None, server.start)
        assert await answer == {T0: None}
        await cluster.until(lambda: cluster.admin.state is SessionState.CONNECTED)
        await cluster.until(lambda: _has_moved(cluster, 1))
        assert cluster.controller.epoch == 1

    # Sessions outlast a ZooKeeper that is slow to start.
    play(server.address, scenario, PATIENT)


async def _has_moved(cluster: Cluster, to: int = 3) -> bool:
    topic = await cluster.topic("t")
    return topic.partitions == {0: (to,)} and not topic.removing


async def _is_gone(cluster: Cluster, topic: str) -> bool:
    return not await cluster.exists(paths.delete_topic_path(topic))
