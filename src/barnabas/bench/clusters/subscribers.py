"""Consumers of many partitions, and a producer that sends at a steady rate to one of them."""

import asyncio
import struct
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from barnabas.bench.clusters.bench_topics import client_settings
from barnabas.bench.clusters.group_members import connected
from barnabas.bench.clusters.waiting import until
from barnabas.bench.limits.clients_bench import RecordsMissing
from barnabas.bench.limits.load_messages import CORRELATION_AT, batch_of, numbered, produce
from barnabas.bench.limits.session_consumer import PATIENCE_S, SessionConsumer
from barnabas.bench.server_processes import Server
from barnabas.client.connection import AsyncConnection

PACE: Final = 100  # messages a second
RECORD_BYTES: Final = 200
_POLL_S: Final = 0.2
_PRODUCED: Final = struct.Struct(">hq")  # error code and base offset in an answer to Produce


class Arrivals:
    """Partitions that returned records, and the arrival times of one partition by offset."""

    def __init__(self, topic: str, partition: int) -> None:
        self.busy = topic, partition
        self.partitions: set[tuple[str, int]] = set()
        self.times: dict[int, float] = {}

    def on_arrived(self, topic: str, partition: int, offset: int, now: float) -> None:
        self.partitions.add((topic, partition))
        if (topic, partition) == self.busy:
            self.times[offset] = now


@asynccontextmanager
async def session_consumer(
    server: Server, topics: Mapping[str, int], arrivals: Arrivals
) -> AsyncIterator[None]:
    """Reads all partitions from their start in a fetch session."""
    consumer = await SessionConsumer.open(server.port, topics, arrivals.on_arrived)
    try:
        yield
    finally:
        await consumer.close()


@asynccontextmanager
async def librdkafka_consumer(
    server: Server, topics: Mapping[str, int], arrivals: Arrivals
) -> AsyncIterator[None]:
    """Reads all partitions from their start with librdkafka's defaults, in a thread."""
    over = threading.Event()
    reading = asyncio.to_thread(_poll, server.bootstrap, topics, arrivals, over)
    task = asyncio.create_task(reading)
    try:
        yield
    finally:
        over.set()
        await task


def _poll(
    bootstrap: str, topics: Mapping[str, int], arrivals: Arrivals, over: threading.Event
) -> None:
    settings = {"group.id": "subscribed", "enable.auto.commit": False}
    consumer = Consumer(client_settings(bootstrap, **settings))
    assigned = [
        TopicPartition(name, partition, 0)
        for name, partitions in topics.items()
        for partition in range(partitions)
    ]
    try:
        consumer.assign(assigned)
        while not over.is_set():
            message = consumer.poll(_POLL_S)
            if message is None:
                continue
            if error := message.error():
                raise RecordsMissing(f"librdkafka: {error}")
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            arrivals.on_arrived(topic, partition, offset, time.perf_counter())
    finally:
        consumer.close()


class PacedProducer:
    """Sends messages at a steady rate to the busy partition, regardless of the responses."""

    def __init__(self, peer: AsyncConnection, arrivals: Arrivals) -> None:
        topic, self._partition = arrivals.busy
        self._peer = peer
        self._arrivals = arrivals
        self._exchange = produce(batch_of(RECORD_BYTES), topic)

    async def send(self, count: int) -> list[float]:
        """Milliseconds from sending each of `count` messages to its arrival at the consumer.

        Raises WaitTimedOut if one does not arrive, RecordsMissing if one is rejected.
        """
        sending, due = [], time.perf_counter()
        for _ in range(count):
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            due += 1 / PACE
            sending.append(asyncio.create_task(self._send()))
        sent = dict(await asyncio.gather(*sending))

        async def all_arrived() -> bool:
            return sent.keys() <= self._arrivals.times.keys()

        await until(all_arrived, "the arrival of messages")
        return [1e3 * (self._arrivals.times[offset] - at) for offset, at in sent.items()]

    async def _send(self) -> tuple[int, float]:
        """The offset of one message, and its send time."""
        request = numbered(self._exchange.request_for(self._partition))
        at = time.perf_counter()
        answer = await self._peer.exchange(request, PATIENCE_S)
        error, offset = _PRODUCED.unpack_from(answer, self._exchange.error_at - CORRELATION_AT)
        if error:
            raise RecordsMissing(f"Produce was answered with error code {error}")
        return offset, at


@asynccontextmanager
async def paced_producer(server: Server, arrivals: Arrivals) -> AsyncIterator[PacedProducer]:
    peer = await connected(server.port)
    try:
        yield PacedProducer(peer, arrivals)
    finally:
        peer.close()
