"""A leader for followers under test: Fetch and ListOffsets over a real socket, from its own logs.

What it answers besides can be scripted: errors, damage, silence, a broken connection.
"""

import asyncio
import struct
from collections import Counter
from collections.abc import Callable
from uuid import UUID

from kio.schema.list_offsets.v9.request import ListOffsetsRequest
from kio.schema.list_offsets.v9.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.static.primitive import i32, i64

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import LeaderEpoch, Offset, TopicPartition
from barnabas.base.randomness import Random
from barnabas.log.log import Log
from barnabas.server.fetching.cached_partitions import CachedPartition
from barnabas.server.fetching.fetch_sessions import FetchContext, FetchSessions
from barnabas.wire.apis import ApiKey
from barnabas.wire.fetch.fetch_codec import (
    FetchPartition,
    FetchRequest,
    PartitionFetched,
    TopicFetched,
    read_fetch,
    write_fetch,
)
from barnabas.wire.records.batch import read_header
from barnabas.wire.schema import NO_THROTTLE, read_as_sent, write_response
from tests.log.batches import NOW, batch_of

_HEAD = struct.Struct(">hhih")


class StoppedTime:
    """A time that stands still."""

    def now_ms(self) -> float:
        return 0.0


class Led:
    """A partition that the scripted leader leads."""

    def __init__(self, log: Log, topic_id: UUID, epoch: int) -> None:
        self.log = log
        self.topic_id = topic_id
        self.lead(epoch)
        self.high_watermark: int = log.log_start_offset
        self.errors: list[ErrorCode] = []  # answered before anything else, in order
        self.damages: list[Callable[[bytearray], None]] = []  # done to the next records

    def lead(self, epoch: int) -> None:
        """Begin an epoch, as a leader does: in its log, before it has records."""
        self.epoch = epoch
        self.log.begin_leading(LeaderEpoch(epoch))

    def append(self, count: int = 1, value: bytes = b"value") -> None:
        batch = batch_of(count, value=value)
        self.log.append(batch, read_header(batch), LeaderEpoch(self.epoch), NOW)

    def read(self, asked: FetchPartition) -> PartitionFetched:
        """The answer to a follower; its fetch also says how far it has come."""
        code = self._complaint(asked)
        if code:
            return PartitionFetched(asked.partition, int(code))
        log = self.log
        answer = PartitionFetched(
            asked.partition, 0, self.high_watermark, self.high_watermark, log.log_start_offset
        )
        if asked.last_fetched_epoch >= 0:
            epoch, end = log.end_offset_for_epoch(LeaderEpoch(asked.last_fetched_epoch))
            if epoch < 0:
                return PartitionFetched(asked.partition, int(ErrorCode.offset_out_of_range))
            if epoch < asked.last_fetched_epoch or end < asked.fetch_offset:
                return answer._replace(diverging_epoch=(epoch, end))
        try:
            extent = log.locate(
                Offset(asked.fetch_offset), asked.max_bytes, log.log_end_offset, minimum_one=True
            )
        except BrokerError as error:
            return PartitionFetched(asked.partition, int(error.code))
        self.high_watermark = max(self.high_watermark, asked.fetch_offset)
        records = bytearray(extent.load())
        if records and self.damages:
            self.damages.pop(0)(records)
        hw = self.high_watermark
        return answer._replace(high_watermark=hw, last_stable_offset=hw, records=records)

    def _complaint(self, asked: FetchPartition) -> ErrorCode:
        if self.errors:
            return self.errors.pop(0)
        if asked.current_leader_epoch < self.epoch:
            return ErrorCode.fenced_leader_epoch
        if asked.current_leader_epoch > self.epoch:
            return ErrorCode.unknown_leader_epoch
        return ErrorCode.none


class ScriptedLeader:
    def __init__(self) -> None:
        self.led: dict[TopicPartition, Led] = {}
        self.sessions = FetchSessions(100, 60_000, Random(1), StoppedTime())
        self.requests: list[FetchRequest] = []
        self.seen: Counter[ApiKey] = Counter()
        self.changed = asyncio.Event()
        self.on_fetch: Callable[[], None] = lambda: None
        self.connections: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.break_connections()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def break_connections(self) -> None:
        for writer in self.connections:
            writer.transport.abort()
        self.connections.clear()

    def add(self, partition: TopicPartition, log: Log, topic_id: UUID, epoch: int = 0) -> Led:
        led = self.led[partition] = Led(log, topic_id, epoch)
        return led

    def tell(self) -> None:
        """Something has changed: fetches that wait look again."""
        self.changed.set()
        self.changed = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections.append(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = memoryview(await reader.readexactly(size))
                for part in await self._answer(frame):
                    writer.write(part)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the follower has gone, or the test is over
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, frame: memoryview) -> list[bytes | bytearray | memoryview]:
        key, version, correlation_id, length = _HEAD.unpack_from(frame)
        position = _HEAD.size + length + 1  # one byte says that there are no tags
        self.seen[ApiKey(key)] += 1
        if key == ApiKey.FETCH:
            return await self._fetch(version, correlation_id, read_fetch(version, frame, position))
        assert key == ApiKey.LIST_OFFSETS
        request = read_as_sent(ApiKey.LIST_OFFSETS, version, frame[position:])
        assert isinstance(request, ListOffsetsRequest)
        response = self._list_offsets(request)
        return [write_response(ApiKey.LIST_OFFSETS, version, correlation_id, response)]

    async def _fetch(
        self, version: int, correlation_id: int, request: FetchRequest
    ) -> list[bytes | bytearray | memoryview]:
        self.requests.append(request)
        self.on_fetch()
        try:
            context = self.sessions.begin(request, by_id=True)
        except BrokerError as error:
            return write_fetch(version, correlation_id, (), int(error.code))
        loop = asyncio.get_running_loop()
        until = loop.time() + request.max_wait_ms / 1000
        while True:
            changed = self.changed
            found = [(wanted, self._look(wanted)) for wanted in context.wanted]
            if loop.time() >= until or any(self._is_news(each) for _, each in found):
                break
            try:
                async with asyncio.timeout_at(until):
                    await changed.wait()
            except TimeoutError:
                pass
        return self._fetched(version, correlation_id, context, found)

    def _fetched(
        self,
        version: int,
        correlation_id: int,
        context: FetchContext,
        found: list[tuple[CachedPartition, PartitionFetched]],
    ) -> list[bytes | bytearray | memoryview]:
        self.sessions.complete(context)
        topics = [
            TopicFetched(None, wanted.topic, [each])
            for wanted, each in found
            if isinstance(wanted.topic, UUID) and context.is_worth_sending(wanted, each)
        ]
        for wanted, each in found:
            context.on_sent(wanted, each)
        return write_fetch(version, correlation_id, topics, session_id=context.session_id)

    def _is_news(self, each: PartitionFetched) -> bool:
        return bool(each.records or each.code or each.diverging_epoch)

    def _look(self, wanted: CachedPartition) -> PartitionFetched:
        asked = wanted.partition
        for partition, led in self.led.items():
            if (led.topic_id, partition.partition) == (wanted.topic, asked.partition):
                return led.read(asked)
        return PartitionFetched(asked.partition, int(ErrorCode.unknown_topic_id))

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        assert request.replica_id >= 0
        topics = []
        for topic in request.topics:
            answers = []
            for asked in topic.partitions:
                led = self.led[TopicPartition(topic.name, asked.partition_index)]
                log = led.log
                at = log.log_end_offset if asked.timestamp == -1 else log.log_start_offset
                answers.append(
                    ListOffsetsPartitionResponse(
                        partition_index=i32(asked.partition_index),
                        error_code=ErrorCode.none,
                        timestamp=i64(-1),
                        offset=i64(at),
                        leader_epoch=i32(led.epoch),
                    )
                )
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(answers)))
        return ListOffsetsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))
