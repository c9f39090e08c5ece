"""A broker in this process and a client that speaks frames, for what no real client would send."""

import asyncio
import dataclasses
import datetime
import struct
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar, cast
from unittest.mock import patch

import uvloop
from kio.serial import entity_reader

from barnabas.base.clock import SystemClock
from barnabas.config.broker_config import BrokerConfig
from barnabas.purgatory.timer import Timer
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.server import compose
from barnabas.server.cluster.topic_creation import NewTopic
from barnabas.server.delayed.partition_purgatories import Delayed
from barnabas.server.fetching.fetch_sessions import FetchSessions
from barnabas.server.network.open_connections import OpenConnections
from barnabas.server.node_state import NodeState
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.records.records import Record, build_batch
from barnabas.wire.schema import request_type, response_type
from tests.wire.entities import written

T = TypeVar("T")
SOON: Final = 20.0
NOW: Final = SystemClock().now_ms()


def on_uvloop(scenario: Coroutine[Any, Any, T]) -> T:
    """Run the scenario as the broker runs in production; nothing may be left running after it."""

    async def bounded() -> T:
        try:
            return await asyncio.wait_for(scenario, 60)
        finally:
            await until(lambda: len(asyncio.all_tasks()) <= 1)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(bounded())


async def until(condition: Callable[[], object]) -> None:
    """Return as soon as the condition holds."""
    async with asyncio.timeout(SOON):
        while not condition():  # noqa: ASYNC110 - what is awaited knows nothing of events
            await asyncio.sleep(0.002)


# -- messages ----------------------------------------------------------------


def known(entity: Any, **values: Any) -> Any:
    """The entity with those of the values that its version knows."""
    fields = {one.name for one in dataclasses.fields(entity)}
    return entity(**{name: value for name, value in values.items() if name in fields})


def frame(
    key: int, version: int, body: bytes, correlation_id: int = 0, client_id: str | None = "raw"
) -> bytes:
    """A whole frame around a body, size first."""
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    head = struct.pack(">hhih", key, version, correlation_id, length) + name
    if key in ApiKey.__members__.values() and version >= APIS[ApiKey(key)].flexible:
        head += b"\0"
    return struct.pack(">i", len(head) + len(body)) + head + body


def request(key: ApiKey, version: int, message: Any, correlation_id: int = 0) -> bytes:
    assert isinstance(message, request_type(key, version))
    return frame(key, version, written(message), correlation_id)


def api_versions(correlation_id: int = 0) -> bytes:
    return frame(ApiKey.API_VERSIONS, 0, b"", correlation_id)


def batch(*values: bytes, **options: Any) -> bytes:
    records = [Record(n, NOW + n, b"key", value, ()) for n, value in enumerate(values or (b"one",))]
    return bytes(build_batch(records, **options))


def produce(
    *partitions: tuple[str, int, bytes | None],
    acks: int = -1,
    version: int = 9,
    correlation_id: int = 0,
    timeout_ms: int = 1000,
    transactional_id: str | None = None,
) -> bytes:
    """A Produce of these partitions; those of one topic that follow each other go together."""
    schema: Any = import_module(f"kio.schema.produce.v{version}.request")
    topics: list[tuple[str, list[Any]]] = []
    for topic, index, records in partitions:
        if not topics or topics[-1][0] != topic:
            topics.append((topic, []))
        topics[-1][1].append(schema.PartitionProduceData(index=index, records=records))
    message = schema.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout=datetime.timedelta(milliseconds=timeout_ms),
        topic_data=tuple(
            schema.TopicProduceData(name=name, partition_data=tuple(data)) for name, data in topics
        ),
    )
    return request(ApiKey.PRODUCE, version, message, correlation_id)


def fetch(
    *wanted: tuple[str | uuid.UUID, int, int],
    version: int = 12,
    correlation_id: int = 0,
    max_wait_ms: int = 0,
    forgotten: tuple[tuple[str | uuid.UUID, int], ...] = (),
    partition_max_bytes: int = 2**20,
    epoch: int = -1,
    last_epoch: int = -1,
    log_start: int = -1,
    **options: Any,
) -> bytes:
    """A Fetch of (topic, partition, offset)s, each topic by name or, from 13 on, by id."""
    schema: Any = import_module(f"kio.schema.fetch.v{version}.request")
    values = {
        "replica_id": -1,
        "max_wait": datetime.timedelta(milliseconds=max_wait_ms),
        "min_bytes": 1,
        "max_bytes": 2**20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "rack_id": "",
        **options,
    }
    topics = tuple(
        known(
            schema.FetchTopic,
            topic=topic,
            topic_id=topic,
            partitions=(
                known(
                    schema.FetchPartition,
                    partition=index,
                    current_leader_epoch=epoch,
                    fetch_offset=offset,
                    last_fetched_epoch=last_epoch,
                    log_start_offset=log_start,
                    partition_max_bytes=partition_max_bytes,
                ),
            ),
        )
        for topic, index, offset in wanted
    )
    left_out = ()
    if version >= 7:
        left_out = tuple(
            known(schema.ForgottenTopic, topic=topic, topic_id=topic, partitions=(index,))
            for topic, index in forgotten
        )
    message = known(schema.FetchRequest, topics=topics, forgotten_topics_data=left_out, **values)
    return request(ApiKey.FETCH, version, message, correlation_id)


def read_response(key: ApiKey, version: int, answer: bytes) -> Any:
    """The response in a frame without its size."""
    flexible = version >= APIS[key].flexible and key is not ApiKey.API_VERSIONS
    start = 5 if flexible else 4
    message, length = entity_reader(response_type(key, version))(memoryview(answer), start)
    assert start + length == len(answer)
    return message


# -- the client --------------------------------------------------------------


@dataclass
class RawClient:
    """One connection, which sends and receives what the test says."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def receive(self) -> bytes:
        """The next answer, without its size."""
        async with asyncio.timeout(SOON):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)

    async def correlation_id(self) -> int:
        return int.from_bytes((await self.receive())[:4], "big", signed=True)

    async def ask(self, data: bytes) -> Any:
        """Send one request and return its response, read by its own schema."""
        key, version = struct.unpack_from(">hh", data, 4)
        await self.send(data)
        return read_response(ApiKey(key), version, await self.receive())

    async def is_closed(self) -> bool:
        """True if the broker closed the connection, without another answer."""
        async with asyncio.timeout(SOON):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True

    @property
    def port(self) -> int:
        return int(self.writer.get_extra_info("sockname")[1])

    def stop_reading(self) -> None:
        cast(asyncio.Transport, self.writer.transport).pause_reading()

    def read_again(self) -> None:
        cast(asyncio.Transport, self.writer.transport).resume_reading()

    def vanish(self) -> None:
        """Go away as a killed process does."""
        self.writer.transport.abort()

    async def close(self) -> None:
        if self.writer.transport.get_write_buffer_size():
            self.vanish()
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


# -- the broker --------------------------------------------------------------


@dataclass
class Insight:
    """A running broker, and those of its parts that count what is under way."""

    running: compose.RunningBroker = field(init=False)
    state: NodeState = field(init=False)
    clients: list[RawClient] = field(default_factory=list)

    @property
    def timer(self) -> Timer:
        return self.state.timer

    @property
    def delayed(self) -> Delayed:
        return self.state.delayed

    @property
    def sessions(self) -> FetchSessions:
        return self.state.sessions

    @property
    def connections(self) -> OpenConnections:
        return self.state.connections

    @property
    def address(self) -> tuple[str, int]:
        (endpoint,) = self.running.endpoints
        return endpoint.host, endpoint.port

    async def connect(self, limit: int = 2**20, host: str | None = None) -> RawClient:
        """A client, at another address of the loopback network if `host` says so."""
        local = None if host is None else (host, 0)
        opened = await asyncio.open_connection(*self.address, limit=limit, local_addr=local)
        client = RawClient(*opened)
        self.clients.append(client)
        return client

    def leader(self, topic: str, partition: int = 0) -> LeaderReplica:
        return self.running.broker.replicas.leader(topic, partition)

    async def create(self, topic: str, partitions: int = 1, **configs: Any) -> uuid.UUID:
        overrides = {name.replace("_", "."): value for name, value in configs.items()}
        wanted = NewTopic(topic, partitions=partitions, overrides=overrides)
        topics = self.running.broker.topics
        made = await topics.create(wanted, validate_only=False)
        await topics.led(topic, len(made.assignment), timeout_ms=10_000)
        return self.topic_id(topic)

    def topic_id(self, topic: str) -> uuid.UUID:
        topic_id = self.leader(topic).topic_id
        assert topic_id is not None
        return topic_id

    async def is_at_rest(self) -> None:
        """Wait until no connection, wait, timer or task of a request is left."""
        for client in self.clients:
            await client.close()
        await until(lambda: len(self.connections) == 0)
        await until(lambda: (self.delayed.waiting, self.delayed.watched) == (0, 0))
        await until(lambda: len(self.timer) == 0)


@asynccontextmanager
async def broker(folder: Path, **properties: object) -> AsyncIterator[Insight]:
    """A broker on a free port; at the end nothing of its clients may be left in it."""
    config = BrokerConfig.from_properties(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(folder),
            "broker.id": "0",
            **{name.replace("_", "."): str(value) for name, value in properties.items()},
        }
    )
    insight = Insight()

    def remember(*args: Any) -> NodeState:
        insight.state = NodeState(*args)
        return insight.state

    with patch.object(compose, "NodeState", remember):
        insight.running = await compose.start(config)
    async with insight.running:
        try:
            yield insight
        except BaseException:
            for client in insight.clients:
                client.vanish()
            raise
        await insight.is_at_rest()


Scenario = Callable[[Insight], Awaitable[None]]


def with_broker(folder: Path, scenario: Scenario, **properties: object) -> None:
    """Run the scenario against a broker of its own."""

    async def run() -> None:
        async with broker(folder, **properties) as insight:
            await scenario(insight)

    on_uvloop(run())
