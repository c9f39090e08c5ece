"""Random histories of faults and requests: everything settles, and all views agree.

A seed draws topics created and deleted, partitions reassigned, brokers that start, fail, bounce
and hang, and controllers that lose their session, without waiting for what came before. Then the
faults end, leaders add their followers to the ISR, and nothing may be left undone.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from barnabas.base.errors import BrokerError
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.base.randomness import Random
from barnabas.controller import events
from barnabas.controller.states import Selector
from barnabas.znodes import paths
from barnabas.znodes.tree import BadVersion, NodeExists, NoNode, SessionState
from tests.controller.cluster import Cluster, Node, scenario

NODES = 5
LENGTH = 40


class History:
    """One random history on one cluster."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._draw = random.Random(seed)
        self._ids = Random(seed)
        self._acts: list[Callable[[], Awaitable[None]]] = [
            self.create,
            self.create,
            self.delete,
            self.move,
            self.move,
            self.cancel,
            self.elect,
            self.lose_broker,
            self.return_broker,
            self.bounce,
            self.lose_controller,
            self.return_session,
            self.hang,
            self.catch_up,
            self.catch_up,
            self.rest,
        ]

    async def play(self) -> None:
        for _ in range(LENGTH):
            await self._draw.choice(self._acts)()
            if self._draw.random() < 0.5:
                await self._pause()

    async def _pause(self) -> None:
        """Let a few turns of the loop pass, so that operations are still in progress."""
        for _ in range(self._draw.randrange(30)):
            await self._cluster.admin.exists("/")

    def _node(self) -> Node:
        return self._cluster.nodes[self._draw.randrange(NODES)]

    async def _partitions(self) -> list[TopicPartition]:
        found = []
        for name in await self._cluster.admin.children(paths.TOPICS):
            topic = await self._cluster.topic(name)
            found += [TopicPartition(name, index) for index in topic.partitions]
        return found

    # -- requests --------------------------------------------------------------

    async def create(self) -> None:
        name = f"topic-{self._draw.randrange(4)}"
        if not await self._cluster.exists(paths.topic_path(name)):
            replicas = [
                tuple(self._draw.sample(range(NODES), self._draw.randint(1, 3))) for _ in range(2)
            ]
            await self._cluster.write_topic(name, *replicas, topic_id=self._ids.uuid())

    async def delete(self) -> None:
        names = await self._cluster.admin.children(paths.TOPICS)
        if names:
            try:
                path = paths.delete_topic_path(self._draw.choice(names))
                await self._cluster.admin.create(path)
            except NodeExists:
                return

    async def _ask(self, event: events.AlterReassignments | events.ElectLeaders) -> None:
        active = self._cluster.active
        if active is not None:
            try:
                await active.ask(event)
            except BrokerError:
                return

    async def move(self) -> None:
        partitions = await self._partitions()
        chosen = self._draw.sample(partitions, min(2, len(partitions)))
        await self._ask(
            events.AlterReassignments(
                {each: tuple(map(BrokerId, self._draw.sample(range(NODES), 2))) for each in chosen}
            )
        )

    async def cancel(self) -> None:
        await self._ask(events.AlterReassignments(dict.fromkeys(await self._partitions())))

    async def elect(self) -> None:
        await self._ask(events.ElectLeaders(None, Selector.PREFERRED))

    # -- faults --------------------------------------------------------------

    async def lose_broker(self) -> None:
        node = self._node()
        if node.session.state is SessionState.CONNECTED:
            try:
                await node.unregister()
            except NoNode:
                return

    async def return_broker(self) -> None:
        await self._return(self._node())

    async def _return(self, node: Node) -> None:
        if node.session.state is SessionState.CONNECTED:
            try:
                await node.register()
            except NodeExists:
                return

    async def bounce(self) -> None:
        node = self._node()
        if await self._cluster.exists(paths.broker_path(node.broker_id)):
            await node.unregister()
            await node.register()

    async def lose_controller(self) -> None:
        for node in self._cluster.nodes.values():
            if node.controller.is_active:
                await node.expire()

    async def return_session(self) -> None:
        for node in self._cluster.nodes.values():
            if node.session.state is SessionState.EXPIRED:
                await node.come_back()

    async def hang(self) -> None:
        reachable = self._node().broker.reachable
        (reachable.clear if reachable.is_set() else reachable.set)()

    async def rest(self) -> None:
        await asyncio.sleep(self._draw.choice((0.01, 0.2, 20)))

    # -- leaders ---------------------------------------------------------------

    async def catch_up(self) -> None:
        """Every leader that knows its role adds its live followers to the ISR."""
        alive = {int(name) for name in await self._cluster.admin.children(paths.BROKER_IDS)}
        for partition in await self._partitions():
            try:
                state = await self._cluster.state(*partition)
                told = self._cluster.nodes[state.leader].broker.leaders()[partition]
                joining = [b for b in told.replicas if b in alive and b not in state.isr]
                if told.leader_epoch == state.leader_epoch and state.leader in alive and joining:
                    await self._cluster.write_isr(*partition, *state.isr, *joining)
            except (NoNode, BadVersion, KeyError):
                continue

    async def settle(self) -> None:
        """End all faults; let followers catch up until nothing is left to do."""
        for node in self._cluster.nodes.values():
            node.broker.reachable.set()
        await self.return_session()
        for node in self._cluster.nodes.values():
            await self._return(node)
        for _ in range(6):
            await self._cluster.until(lambda: self._cluster.active is not None)
            await self._cluster.quiet()
            await self.catch_up()
        await self._cluster.quiet()


@pytest.mark.parametrize("seed", range(40))
def test_any_history_settles_with_nothing_left_undone(seed: int) -> None:
    @scenario
    async def play(cluster: Cluster) -> None:
        await cluster.start(*range(NODES))
        history = History(cluster, seed)
        await history.play()
        await history.settle()
        said = cluster.controller.describe(full=True)
        assert {name: said["counts"][name] for name in ("offline_partitions", "deleting")} == {
            "offline_partitions": 0,
            "deleting": 0,
        }
        assert said["counts"]["reassigning"] == 0
        assert await cluster.admin.children(paths.DELETE_TOPICS) == []
        for partition, known in said["partitions"].items():
            assert sorted(known["isr"]) == sorted(known["replicas"]), partition
        for node in cluster.nodes.values():
            outcomes = [each["outcome"] for each in node.controller.describe()["events"]]
            assert not [each for each in outcomes if each.startswith("failed")]

    play()
