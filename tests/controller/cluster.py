"""Controllers in one process on one tree, in virtual time, with fake brokers.

Each node has its own session, registration and controller, and a fake broker whose responses the
test chooses. Everything is deterministic: the loop jumps to its next timer.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeAlias

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.base.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.base.randomness import Random
from barnabas.controller.context import LiveBroker
from barnabas.controller.controller import Controller
from barnabas.controller.events import SessionRenewed
from barnabas.controller.handle.active_controller import ControllerSettings
from barnabas.controller.io.request_batch import ControlRequest
from barnabas.wire.apis import ApiKey
from barnabas.wire.control.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from barnabas.wire.control.stop_replica import StopReplicaPartitionError, StopReplicaResponse
from barnabas.wire.control.update_metadata import UpdateMetadataResponse
from barnabas.wire.schema import Message
from barnabas.znodes import layout, paths
from barnabas.znodes.embedded.embedded_tree import EmbeddedSession, Tree
from barnabas.znodes.tree import Coordination
from tests.purgatory.virtual_loop import VirtualLoop
from tests.support.recorded_failures import RecordedFailures

Scenario: TypeAlias = Callable[["Cluster"], Coroutine[Any, Any, None]]
PATIENCE_S = 120


class VirtualClock:
    def now_ms(self) -> int:
        return int(1000 * asyncio.get_running_loop().time())


class FakeBroker:
    """Records requests, and responds without errors unless the test sets one."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = BrokerId(broker_id)
        self.heard: list[ControlRequest] = []
        self.failed: set[TopicPartition] = set()
        self.said: ErrorCode = ErrorCode.none  # of each partition that is not failed
        self.refuses_deletion: set[TopicPartition] = set()
        self.error = ErrorCode.none
        self.reachable = asyncio.Event()
        self.reachable.set()
        self.hung = False
        self.connections = 0

    def messages(self, key: ApiKey) -> list[Any]:
        return [request.message for request in self.heard if request.key is key]

    def leaders(self) -> dict[TopicPartition, Any]:
        """The last LeaderAndIsr state of each partition on this broker."""
        hosted: dict[TopicPartition, Any] = {}
        for key, _, message in self.heard:
            if key is not ApiKey.UPDATE_METADATA:
                for topic in message.topic_states:
                    for state in topic.partition_states:
                        partition = TopicPartition(topic.topic_name, state.partition_index)
                        if key is ApiKey.LEADER_AND_ISR:
                            hosted[partition] = state
                        elif state.delete_partition:
                            hosted.pop(partition, None)
        return hosted

    def metadata(self) -> dict[TopicPartition, Any]:
        """The last UpdateMetadata state of each partition."""
        return {
            TopicPartition(topic.topic_name, state.partition_index): state
            for message in self.messages(ApiKey.UPDATE_METADATA)
            for topic in message.topic_states
            for state in topic.partition_states
        }

    def deleted(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic.topic_name, state.partition_index)
            for message in self.messages(ApiKey.STOP_REPLICA)
            for topic in message.topic_states
            for state in topic.partition_states
            if state.delete_partition
        ]

    async def answer(self, request: ControlRequest) -> Message:
        if self.hung:
            await asyncio.Event().wait()
        self.heard.append(request)
        match request.key:
            case ApiKey.LEADER_AND_ISR:
                return LeaderAndIsrResponse(
                    error_code=self.error,
                    topics=tuple(self._said(topic) for topic in request.message.topic_states),
                )
            case ApiKey.STOP_REPLICA:
                return StopReplicaResponse(
                    error_code=self.error,
                    partition_errors=tuple(
                        StopReplicaPartitionError(
                            topic_name=topic.topic_name,
                            partition_index=state.partition_index,
                            error_code=self._deleted(topic.topic_name, state.partition_index),
                        )
                        for topic in request.message.topic_states
                        for state in topic.partition_states
                    ),
                )
            case _:
                return UpdateMetadataResponse(error_code=self.error)

    def _deleted(self, topic: str, index: int) -> ErrorCode:
        refused = TopicPartition(topic, index) in self.refuses_deletion
        return ErrorCode.kafka_storage_error if refused else ErrorCode.none

    def _said(self, topic: Any) -> LeaderAndIsrTopicError:
        errors = (
            LeaderAndIsrPartitionError(
                partition_index=state.partition_index,
                error_code=ErrorCode.kafka_storage_error
                if TopicPartition(topic.topic_name, state.partition_index) in self.failed
                else self.said,
            )
            for state in topic.partition_states
        )
        return LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=tuple(errors))


class FakePeer:
    """A connection to a fake broker."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker
        self.closed = False
        broker.connections += 1

    async def request(
        self, key: ApiKey, version: int, message: Message, timeout_s: float
    ) -> Message:
        if not self._broker.reachable.is_set():
            self.close()
            raise PeerGone(f"broker {self._broker.broker_id} is gone")
        try:
            async with asyncio.timeout(timeout_s):
                return await self._broker.answer(ControlRequest(key, version, message))
        except TimeoutError:
            self.close()
            raise PeerGone("no answer in time") from None

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._broker.connections -= 1


class Node:
    """A broker's session, registration and controller; `broker` records its requests."""

    def __init__(self, cluster: "Cluster", broker_id: int, session: Coordination) -> None:
        self.broker_id = BrokerId(broker_id)
        self.session = session
        self._expire = cluster.expire
        self.broker = FakeBroker(broker_id)
        self.settings = ControllerSettings(auto_leader_rebalance=False)
        self.failures = RecordedFailures()
        self.controller = Controller(
            self.broker_id,
            session,
            clock=VirtualClock(),
            random=Random(broker_id),
            settings=lambda: self.settings,
            connect=cluster.connect,
            local=self.broker.answer,
            failures=self.failures,
        )

    async def register(self, host: str = "here") -> None:
        registration = layout.BrokerRegistration(
            endpoints=(layout.Endpoint("PLAINTEXT", host, 9092 + self.broker_id),),
            timestamp_ms=0,
        )
        await self.session.create(
            paths.broker_path(self.broker_id), layout.encode_broker(registration), ephemeral=True
        )

    async def unregister(self) -> None:
        await self.session.delete(paths.broker_path(self.broker_id))

    async def start(self) -> None:
        await self.register()
        self.controller.start()

    async def expire(self) -> None:
        """Expire the session, as after the session timeout."""
        await self._expire(self.session)

    async def come_back(self) -> None:
        """Begin a new session and register in it, as a broker does."""
        await self.session.renew()
        await self.register()
        self.controller.put(SessionRenewed())


class Cluster:
    """Some nodes, and one more session for reads and writes of the test."""

    tree: Tree

    def __init__(
        self,
        admin: Coordination,
        session: Callable[[], Awaitable[Coordination]],
        expire: Callable[[Coordination], Awaitable[None]],
    ) -> None:
        self.admin = admin
        self._session = session
        self.expire = expire
        self.nodes: dict[int, Node] = {}

    @classmethod
    def embedded(cls, tree: Tree) -> "Cluster":
        async def session() -> Coordination:
            return tree.session()

        async def expire(session: Coordination) -> None:
            assert isinstance(session, EmbeddedSession)
            await session.expire()

        cluster = cls(tree.session(), session, expire)
        cluster.tree = tree
        return cluster

    async def node(self, broker_id: int, session: Coordination | None = None) -> Node:
        self.nodes[broker_id] = Node(self, broker_id, session or await self._session())
        return self.nodes[broker_id]

    async def start(self, *broker_ids: int) -> None:
        """Start nodes; the first is controller before the others stand for election."""
        for path in paths.PERSISTENT_PATHS:
            if await self.admin.exists(path) is None:
                await self.admin.create(path, make_parents=True)
        for broker_id in broker_ids:
            await (await self.node(broker_id)).start()
            await self.until(lambda: self.active is not None)
        await self.quiet()

    async def stop(self) -> None:
        for node in self.nodes.values():
            await node.controller.stop()

    async def connect(self, broker: LiveBroker) -> FakePeer:
        fake = self.nodes[broker.broker_id].broker
        if not fake.reachable.is_set():
            raise PeerGone(f"broker {broker.broker_id} is gone")
        return FakePeer(fake)

    @property
    def active(self) -> Controller | None:
        found = [node.controller for node in self.nodes.values() if node.controller.is_active]
        assert len(found) <= 1, "two controllers at a time"
        return found[0] if found else None

    @property
    def controller(self) -> Controller:
        active = self.active
        assert active is not None, "there is no controller"
        return active

    async def until(self, holds: Callable[[], bool | Awaitable[bool]]) -> None:
        """Suspend until the condition holds; fail after two virtual minutes."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                held = holds()
                if held if isinstance(held, bool) else await held:
                    return
                await asyncio.sleep(0.01)

    async def quiet(self) -> None:
        """Suspend until no event is queued and no request is in flight, for a while."""
        calm = 0
        async with asyncio.timeout(PATIENCE_S):
            while calm < 5:
                calm = 0 if self._busy() else calm + 1
                await asyncio.sleep(0.05)

    def _busy(self) -> bool:
        active = self.active
        if active is None:
            return False
        said = active.describe()
        channels = [each["channel"] for each in said["brokers"].values()]
        return bool(
            said["queue"]["length"] or any(c and (c["queue"] or c["in_flight"]) for c in channels)
        )

    # -- the tree --------------------------------------------------------------

    async def leave(self, broker_id: int) -> None:
        """Remove a broker's registration, and let the controller act on that."""
        await self.nodes[broker_id].unregister()
        await self.quiet()

    async def join(self, broker_id: int) -> None:
        """Register a broker again, and let the controller act on that."""
        await self.nodes[broker_id].register()
        await self.quiet()

    async def create_topic(self, name: str, *replicas: tuple[int, ...]) -> None:
        await self.write_topic(name, *replicas, topic_id=Random(7).uuid())
        await self.quiet()

    async def write_topic(self, name: str, *replicas: tuple[int, ...], topic_id: Any) -> None:
        topic = layout.TopicAssignment(
            {n: tuple(map(BrokerId, each)) for n, each in enumerate(replicas)}, topic_id
        )
        data = layout.encode_topic(topic)
        if await self.admin.exists(paths.topic_path(name)) is None:
            await self.admin.create(paths.topic_path(name), data)
        else:
            await self.admin.set(paths.topic_path(name), data)

    async def topic(self, name: str) -> layout.TopicAssignment:
        data, _ = await self.admin.get(paths.topic_path(name))
        return layout.decode_topic(name, data)

    async def state(self, name: str, index: int = 0) -> layout.LeaderAndIsr:
        partition = TopicPartition(name, index)
        data, _ = await self.admin.get(paths.partition_state_path(partition))
        return layout.decode_partition_state(partition, data)

    async def write_isr(self, name: str, index: int, *isr: int, recovering: bool = False) -> None:
        """Write the ISR as a leader does, with a notification."""
        partition = TopicPartition(name, index)
        path = paths.partition_state_path(partition)
        data, stat = await self.admin.get(path)
        now = layout.decode_partition_state(partition, data)
        new = layout.LeaderAndIsr(
            now.leader,
            LeaderEpoch(now.leader_epoch),
            now.controller_epoch,
            tuple(map(BrokerId, isr)),
            recovering,
        )
        await self.admin.set(path, layout.encode_partition_state(new), stat.version)
        await self.admin.create(
            paths.ISR_CHANGE, layout.encode_partitions([partition]), sequential=True
        )

    async def agree(self) -> None:
        """Assert that the context, the tree and every live broker agree."""
        said = self.controller.describe(full=True)["partitions"]
        live = self.controller.describe()["brokers"]
        told_to = {broker: self.nodes[broker].broker.metadata() for broker in map(int, live)}
        topics = await self.admin.children(paths.TOPICS)
        assigned = {name: await self.topic(name) for name in topics}
        assert set(said) == {f"{name}-{n}" for name in topics for n in assigned[name].partitions}
        for name, topic in assigned.items():
            for index, replicas in topic.partitions.items():
                partition, known = TopicPartition(name, index), said[f"{name}-{index}"]
                assert tuple(known["replicas"]) == replicas
                assert tuple(known["adding"]) == topic.adding.get(index, ())
                assert tuple(known["removing"]) == topic.removing.get(index, ())
                path = paths.partition_state_path(partition)
                state, stat = await self.state(name, index), await self.admin.exists(path)
                assert stat is not None
                is_so = (state.leader, state.leader_epoch, list(state.isr), stat.version)
                assert is_so == tuple(
                    known[each] for each in ("leader", "leader_epoch", "isr", "version")
                )
                for broker, metadata in told_to.items():
                    told = metadata[partition]
                    heard = (told.leader, told.leader_epoch, list(told.isr), told.zk_version)
                    assert heard == is_so or told.leader == -2, (broker, partition, heard, is_so)
                    assert told.replicas == replicas

    async def exists(self, path: str) -> bool:
        return await self.admin.exists(path) is not None


def scenario(test: Scenario) -> Callable[[], None]:
    """Run a test with an empty cluster in virtual time; fail if a task is left running."""

    @functools.wraps(test)
    def run() -> None:
        loop = VirtualLoop()
        try:
            loop.run_until_complete(_play(test))
            assert not loop.errors, loop.errors
        finally:
            loop.close()

    # Otherwise pytest would treat the scenario's parameter as a fixture.
    with suppress(AttributeError):
        del vars(run)["__wrapped__"]
    return run


async def _play(test: Scenario) -> None:
    cluster = Cluster.embedded(Tree())
    try:
        await test(cluster)
        if cluster.active is not None:
            await cluster.quiet()
            await cluster.agree()
        assert not any(node.failures.broken for node in cluster.nodes.values())
    finally:
        await cluster.stop()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, left


async def mark_deleted(cluster: Cluster, topic: str) -> None:
    await cluster.admin.create(paths.delete_topic_path(topic))


async def is_gone(cluster: Cluster, topic: str) -> bool:
    return not (
        await cluster.exists(paths.topic_path(topic))
        or await cluster.exists(paths.delete_topic_path(topic))
    )
