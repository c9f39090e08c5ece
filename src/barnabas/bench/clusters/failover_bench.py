"""Controller failover with many partitions, and the loss of a broker.

On a real ZooKeeper and on the embedded tree. The brokers only answer, so the time is what the
controller needs to read, decide, write and send. The longest time that it blocked its event loop
is shown, too: clients of the controller's broker waited that long.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvloop

from barnabas.base.clock import SystemClock
from barnabas.base.errors import ErrorCode
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.base.randomness import Random
from barnabas.bench.bench_plan import Bench
from barnabas.bench.bench_report import ReportRow, Section
from barnabas.bench.clusters.bench_cluster import CONNECTED_WITHIN_MS
from barnabas.controller.context import LiveBroker
from barnabas.controller.controller import Controller
from barnabas.controller.handle.active_controller import ControllerSettings
from barnabas.controller.io.broker_channels import LocalPeer
from barnabas.controller.io.request_batch import ControlRequest
from barnabas.wire.apis import ApiKey
from barnabas.wire.control.leader_and_isr import LeaderAndIsrResponse
from barnabas.wire.control.stop_replica import StopReplicaResponse
from barnabas.wire.control.update_metadata import UpdateMetadataResponse
from barnabas.wire.schema import Message
from barnabas.znodes import layout, paths
from barnabas.znodes.embedded.embedded_tree import Tree
from barnabas.znodes.tree import Coordination, CreateNode
from barnabas.znodes.zookeeper.zookeeper_server import ZooKeeperServer
from barnabas.znodes.zookeeper.zookeeper_tree import connect

BROKERS: Final = 3
REPLICAS: Final = 2
PARTITIONS_PER_TOPIC: Final = 100
READ_AT_ONCE: Final = 500
GOAL_S: Final = 2.0

Sessions = Callable[[], Awaitable[Coordination]]


@dataclass(frozen=True, slots=True)
class Took:
    """The duration, and the longest time that the event loop was blocked."""

    seconds: float
    held: float


async def answer(request: ControlRequest) -> Message:
    """The response of a broker without work."""
    none = ErrorCode.none
    match request.key:
        case ApiKey.LEADER_AND_ISR:
            return LeaderAndIsrResponse(error_code=none, topics=())
        case ApiKey.STOP_REPLICA:
            return StopReplicaResponse(error_code=none, partition_errors=())
        case _:
            return UpdateMetadataResponse(error_code=none)


async def reach(broker: LiveBroker) -> LocalPeer:
    return LocalPeer(answer)


async def fill(admin: Coordination, partitions: int) -> None:
    """Brokers, and topics whose leaders were all elected by the previous controller."""
    for path in paths.PERSISTENT_PATHS:
        await admin.create(path, make_parents=True)
    for broker_id in map(BrokerId, range(BROKERS)):
        at = layout.Endpoint("PLAINTEXT", "localhost", 9092 + broker_id)
        registration = layout.encode_broker(layout.BrokerRegistration((at,), 0))
        await admin.create(paths.broker_path(broker_id), registration, ephemeral=True)
    random = Random(0)
    for first in range(0, partitions, PARTITIONS_PER_TOPIC):
        count = min(PARTITIONS_PER_TOPIC, partitions - first)
        await admin.multi(topic(f"topic-{first}", count, random))


def topic(name: str, partitions: int, random: Random) -> list[CreateNode]:
    replicas = {
        index: tuple(BrokerId((index + n) % BROKERS) for n in range(REPLICAS))
        for index in range(partitions)
    }
    assignment = layout.encode_topic(layout.TopicAssignment(replicas, random.uuid()))
    creates = [
        CreateNode(paths.topic_path(name), assignment),
        CreateNode(paths.partitions_path(name)),
    ]
    for index, isr in replicas.items():
        partition = TopicPartition(name, index)
        state = layout.LeaderAndIsr(isr[0], LeaderEpoch(0), 0, isr)
        creates.append(CreateNode(paths.partition_path(partition)))
        creates.append(
            CreateNode(paths.partition_state_path(partition), layout.encode_partition_state(state))
        )
    return creates


async def timed(done: Callable[[], bool]) -> Took:
    """Wait until done, polling often; late polls show how long the loop was blocked."""
    began = last = time.perf_counter()
    held = 0.0
    while not done():
        await asyncio.sleep(0.001)
        now = time.perf_counter()
        held, last = max(held, now - last), now
    return Took(time.perf_counter() - began, held)


async def reading_seconds(tree: Coordination) -> float:
    """The time to read the `state` of every partition, the first step of a failover.

    It also warms up both sides of the session.
    """
    wanted = [
        paths.partition_state_path(TopicPartition(name, int(index)))
        for name in await tree.children(paths.TOPICS)
        for index in await tree.children(paths.partitions_path(name))
    ]
    began = time.perf_counter()
    for start in range(0, len(wanted), READ_AT_ONCE):
        await tree.get_many(wanted[start : start + READ_AT_ONCE])
    return time.perf_counter() - began


async def measure(session: Sessions, partitions: int) -> tuple[Took, Took, float]:
    """A failover, then the loss of one broker of three; and the time to read all states."""
    admin, own = await session(), await session()
    await fill(admin, partitions)
    reading_s = await reading_seconds(own)
    controller = Controller(
        BrokerId(0),
        own,
        clock=SystemClock(),
        random=Random(1),
        settings=ControllerSettings,
        connect=reach,
        local=answer,
        failures=FailureChannel(asyncio.get_running_loop()),
    )

    def handled(event: str) -> Callable[[], bool]:
        return lambda: event in controller.last_events()

    controller.start()
    failover = await timed(handled("Startup"))
    await admin.delete(paths.broker_path(BrokerId(BROKERS - 1)))
    loss = await timed(handled("BrokersChanged"))
    await controller.stop()
    await own.close()
    await admin.close()
    return failover, loss, reading_s


@asynccontextmanager
async def embedded() -> AsyncIterator[Sessions]:
    tree = Tree()

    async def session() -> Coordination:
        return tree.session()

    yield session


@asynccontextmanager
async def zookeeper() -> AsyncIterator[Sessions]:
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryDirectory() as folder:
        server = ZooKeeperServer(Path(folder))
        await loop.run_in_executor(None, server.start)

        async def session() -> Coordination:
            address = f"{server.address}/bench"
            return await connect(
                address,
                session_timeout_ms=CONNECTED_WITHIN_MS,
                connection_timeout_ms=CONNECTED_WITHIN_MS,
            )

        try:
            yield session
        finally:
            await loop.run_in_executor(None, server.stop)


TREES: Final = {"ZooKeeper": zookeeper, "embedded tree": embedded}


async def run(partitions: int) -> list[ReportRow]:
    """A failover and a lost broker on each kind of tree."""
    rows = []
    for name, tree in TREES.items():
        async with tree() as session:
            failover, loss, reading_s = await measure(session, partitions)
        told = f"{partitions:,} partition{'s' if partitions > 1 else ''}, {name}"
        rows.append(_row(f"failover, {told}", failover, reading_s, GOAL_S))
        rows.append(_row(f"a broker of {BROKERS} lost, {told}", loss, reading_s))
    return rows


def _row(name: str, took: Took, reading_s: float, goal_s: float | None = None) -> ReportRow:
    return ReportRow(
        name,
        f"{took.seconds:.2f} s, loop held {1000 * took.held:.0f} ms",
        f"{1000 * reading_s:,.0f} ms",
        took.seconds / reading_s,
        goal="" if goal_s is None else f"≤ {goal_s:g} s",
        met=None if goal_s is None else took.seconds <= goal_s,
        numbers={"seconds": took.seconds, "held_s": took.held, "reading_s": reading_s},
    )


def failover_section(bench: Bench) -> Section:
    """Raises ConfigError without Java or the jars of PySpark."""
    rows = []
    for partitions in bench.plan.controlled_partitions:
        bench.say(f"failover: {partitions:,} partitions")
        rows += uvloop.run(run(partitions))
    notes = (
        f"{BROKERS} brokers that only answer; {REPLICAS} replicas of each partition",
        "reading: of all states of partitions, and nothing else",
    )
    return Section("failover", "Without a controller", "Barnabas", "reading", rows, notes)
