"""A consumer with a fetch session (KIP-227) that asks as the Java consumer does.

A full Fetch opens the session. Every following Fetch names only partitions whose offset moved
since the last one, one Fetch is in flight at a time, and an idle consumer's Fetch is empty.
"""

import asyncio
import struct
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final, Self

from barnabas.base.errors import ErrorCode
from barnabas.bench.clusters.group_members import ask, connected
from barnabas.bench.limits.clients_bench import RecordsMissing
from barnabas.client.connection import AsyncConnection
from barnabas.client.fetch import (
    NEWEST,
    Fetch,
    FetchedPartition,
    read_fetch_response,
    write_fetch_request,
)
from barnabas.wire.apis import ApiKey
from barnabas.wire.fetch.fetch_codec import FetchPartition, FetchTopic

# Defaults of the Java consumer: fetch.max.wait.ms, fetch.min.bytes, fetch.max.bytes and
# max.partition.fetch.bytes.
MAX_WAIT_MS: Final = 500
MIN_BYTES: Final = 1
MAX_BYTES: Final = 50 * 1024 * 1024
PARTITION_MAX_BYTES: Final = 1024 * 1024
PATIENCE_S: Final = 60.0
_BASE_OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_LAST_OFFSET_DELTA: Final = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT: Final = 23

Key = tuple[uuid.UUID, int]
# Called with topic name, partition, the offset of a batch's last record and the time of arrival.
Arrived = Callable[[str, int, int, float], None]


class SessionConsumer:
    """Reads all partitions of some topics from offset 0 until it is closed."""

    def __init__(self, peer: AsyncConnection, topics: Mapping[str, int], arrived: Arrived) -> None:
        """`topics` maps names to numbers of partitions."""
        self._peer = peer
        self._wanted = topics
        self._arrived = arrived
        self._names: dict[uuid.UUID, str] = {}
        self._offsets: dict[Key, int] = {}
        self._session = (0, 0)
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, port: int, topics: Mapping[str, int], arrived: Arrived) -> Self:
        consumer = cls(await connected(port), topics, arrived)
        await consumer._find_topics()
        consumer._task = asyncio.create_task(consumer._run())
        return consumer

    async def close(self) -> None:
        """Raises RecordsMissing if a Fetch was refused meanwhile."""
        assert self._task is not None
        self._task.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await self._task
        finally:
            self._peer.close()

    async def _find_topics(self) -> None:
        answer = await ask(self._peer, ApiKey.METADATA, topics=None)
        self._names = {each.topic_id: each.name for each in answer.topics}
        self._offsets = {
            (each.topic_id, partition): 0
            for each in answer.topics
            for partition in range(self._wanted.get(each.name, 0))
        }

    async def _run(self) -> None:
        moved = list(self._offsets)
        while True:
            moved = await self._fetch(moved)

    async def _fetch(self, moved: list[Key]) -> list[Key]:
        """Return the partitions whose offset moved by the answer to this Fetch."""
        fetch, client_id = self._request(moved), self._peer.client_id
        response = await self._peer.exchange(
            lambda number: write_fetch_request(NEWEST, number, client_id, fetch), PATIENCE_S
        )
        fetched, now = read_fetch_response(NEWEST, response), time.perf_counter()
        if fetched.error is not ErrorCode.none or fetched.session_id == 0:
            raise RecordsMissing(f"Fetch in a session: {fetched.error.name}")
        self._session = (fetched.session_id, self._session[1] + 1)
        return [each for part in fetched.partitions if (each := self._advance(part, now))]

    def _advance(self, fetched: FetchedPartition, now: float) -> Key | None:
        assert isinstance(fetched.topic, uuid.UUID)
        if fetched.error is not ErrorCode.none:
            raise RecordsMissing(f"Fetch of a partition: {fetched.error.name}")
        if not fetched.records:
            return None
        key = fetched.topic, fetched.partition
        for last in last_offsets(fetched.records):
            self._offsets[key] = last + 1
            self._arrived(self._names[fetched.topic], fetched.partition, last, now)
        return key

    def _request(self, moved: list[Key]) -> Fetch:
        topics: dict[uuid.UUID, list[FetchPartition]] = {}
        for topic, partition in moved:
            offset = self._offsets[topic, partition]
            wanted = FetchPartition(partition, offset, PARTITION_MAX_BYTES)
            topics.setdefault(topic, []).append(wanted)
        return Fetch(
            MAX_WAIT_MS,
            MIN_BYTES,
            MAX_BYTES,
            [FetchTopic(None, topic, partitions) for topic, partitions in topics.items()],
            session_id=self._session[0],
            session_epoch=self._session[1],
        )


def last_offsets(records: memoryview) -> Iterator[int]:
    """The offset of the last record of each of some whole batches of format v2."""
    position = 0
    while position < len(records):
        base, length = _BASE_OFFSET_AND_LENGTH.unpack_from(records, position)
        (delta,) = _LAST_OFFSET_DELTA.unpack_from(records, position + _LAST_OFFSET_DELTA_AT)
        yield base + delta
        position += _BASE_OFFSET_AND_LENGTH.size + length
