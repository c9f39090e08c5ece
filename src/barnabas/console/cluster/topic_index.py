"""All topics of a cluster in one compact index: read by hand, refreshed when somebody looks.

A cluster may have 50,000 partitions. The index keeps Kafka's Metadata response as it came and one
small tuple a topic; partitions are decoded when they are shown or have changed.
"""

import asyncio
import struct
import uuid
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from barnabas.base.offload import Offload
from barnabas.client.metadata import fields
from barnabas.client.requests import write_request
from barnabas.console.cluster.bulk_requests import CUT_SHORT, read_string
from barnabas.console.cluster.console_client import (
    CLIENT_ID,
    ClusterFailed,
    ClusterSnapshot,
    ConsoleClient,
)
from barnabas.wire.apis import ApiKey
from barnabas.wire.varint import read_uvarint, skip_tags

_VERSION: Final = 12
_TIMEOUT_S: Final = 10.0
_QUICK_S: Final = 0.15  # a refresh that takes no longer is waited for
_FRESH_S: Final = 0.5
_STALE_S: Final = 3.0
_PARTITION = struct.Struct(">hiii")
_LEADER: Final = 6  # where a partition's leader is; its first byte has the sign
_NEGATIVE: Final = 0x80
_CONTINUES: Final = 0x80  # of a varint: another byte follows
_NO_MORE: Final = (1, 0)  # no offline replica, no tagged field
_TOPIC_END: Final = 4  # authorized operations, which are not asked for
_THROTTLE: Final = 4


class PartitionRow(NamedTuple):
    """One partition as a broker reports it."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)


class TopicRow(NamedTuple):
    """One topic: counts for lists, and its partitions as they were sent."""

    name: str
    topic_id: uuid.UUID
    is_internal: bool
    partitions: int
    replication_factor: int
    under_replicated: int
    offline: int
    sent: memoryview


class TopicIndex(NamedTuple):
    """The topics by name, in order, and the moment of the answer on the loop's clock."""

    topics: dict[str, TopicRow]
    at_s: float

    @property
    def partitions(self) -> int:
        return sum(topic.partitions for topic in self.topics.values())

    @property
    def under_replicated(self) -> int:
        return sum(topic.under_replicated for topic in self.topics.values())

    @property
    def offline(self) -> int:
        return sum(topic.offline for topic in self.topics.values())


def read_index(response: memoryview, at_s: float) -> TopicIndex:
    """The index in a Metadata response of version 12, all that follows the correlation id.

    Raises  ClusterFailed, if it is cut short
    """
    try:
        position = skip_tags(response, 0) + _THROTTLE
        position = _skip_brokers(response, position)
        _, position = read_string(response, position)  # cluster id
        position += 4  # controller
        count, position = read_uvarint(response, position)
        rows = []
        for _ in range(count - 1):
            row, position = _read_topic(response, position)
            if row is not None:
                rows.append(row)
    except CUT_SHORT as failure:
        raise ClusterFailed(f"a Metadata response cannot be read: {failure}") from None
    return TopicIndex({row.name: row for row in sorted(rows)}, at_s)


def read_partitions(row: TopicRow) -> list[PartitionRow]:
    """The partitions of a topic, in order."""
    return sorted(partition for partition, _ in _partitions(row.sent, 0, row.partitions))


def _skip_brokers(response: memoryview, position: int) -> int:
    count, position = read_uvarint(response, position)
    for _ in range(count - 1):
        _, position = read_string(response, position + 4)  # host
        _, position = read_string(response, position + 4)  # rack
        position = skip_tags(response, position)
    return position


def _read_topic(response: memoryview, position: int) -> tuple[TopicRow | None, int]:
    (error,) = struct.unpack_from(">h", response, position)
    name, position = read_string(response, position + 2)
    topic_id = uuid.UUID(bytes=bytes(response[position : position + 16]))
    is_internal = bool(response[position + 16])
    count, position = read_uvarint(response, position + 17)
    start = position
    counts, position = _count(response, position, count - 1)
    sent = response[start:position]
    row = TopicRow(name, topic_id, is_internal, count - 1, *counts, sent)
    return None if error else row, skip_tags(response, position + _TOPIC_END)


def _count(
    response: memoryview, position: int, partitions: int
) -> tuple[tuple[int, int, int], int]:
    """The replication factor, under-replicated and offline partitions; the position after them."""
    factor = under_replicated = offline = 0
    end = position
    for span in _spans(response, position, partitions):
        start, replicas, in_sync, end = span
        offline += response[start + _LEADER] >= _NEGATIVE
        under_replicated += in_sync < replicas
        factor = max(factor, replicas)
    return (factor, under_replicated, offline), end


def _spans(
    response: memoryview, position: int, partitions: int
) -> Iterator[tuple[int, int, int, int]]:
    """Of each partition the start, the number of replicas and of those in sync, and the end.

    It takes each length for one byte if it is one, and makes no other objects: of 50,000
    partitions a page shows a few.
    """
    for _ in range(partitions):
        at = position + _PARTITION.size
        replicas = response[at]
        in_sync = response[at + 4 * replicas - 3] if 0 < replicas < _CONTINUES else 0
        end = at + 4 * (replicas + in_sync) - 4
        if 0 < in_sync < _CONTINUES and (response[end - 2], response[end - 1]) == _NO_MORE:
            yield position, replicas - 1, in_sync - 1, end
        else:
            row, end = next(_partitions(response, position, 1))
            yield position, len(row.replicas), len(row.isr), end
        position = end


class Placement(NamedTuple):
    """How many partitions each broker leads and holds, and how many another leads than should."""

    led: Counter[int]
    held: Counter[int]
    misled: int

    def gone(self, alive: Collection[int]) -> list[int]:
        """The brokers that hold replicas and are not in the cluster."""
        return sorted(broker for broker in self.held if broker not in alive)


def read_placement(index: TopicIndex) -> Placement:
    """Where the partitions of all topics are; for 50,000 it takes a tenth of a second."""
    alike: Counter[bytes] = Counter()
    for row in index.topics.values():
        sent = bytes(row.sent)
        for start, replicas, _, _ in _spans(row.sent, 0, row.partitions):
            first = start + _PARTITION.size + (1 if replicas < _CONTINUES - 1 else 2)
            alike[
                sent[start + _LEADER : start + _LEADER + 4] + sent[first : first + 4 * replicas]
            ] += 1
    led, held, misled = Counter[int](), Counter[int](), 0
    for placed, count in alike.items():
        leader, *brokers = struct.unpack(f">{len(placed) // 4}i", placed)
        led[leader] += count
        misled += count * (bool(brokers) and leader != brokers[0])
        for broker in brokers:
            held[broker] += count
    return Placement(led, held, misled)


def _partitions(
    response: memoryview, position: int, count: int
) -> Iterator[tuple[PartitionRow, int]]:
    """Each partition, and the position after it."""
    for _ in range(count):
        _, number, leader, epoch = _PARTITION.unpack_from(response, position)
        replicas, position = _integers(response, position + _PARTITION.size)
        isr, position = _integers(response, position)
        offline, position = _integers(response, position)
        position = skip_tags(response, position)
        yield PartitionRow(number, leader, epoch, replicas, isr, offline), position


def _integers(response: memoryview, position: int) -> tuple[tuple[int, ...], int]:
    count, position = read_uvarint(response, position)
    count = max(0, count - 1)
    return struct.unpack_from(f">{count}i", response, position), position + 4 * count


class TopicIndexCache:
    """The newest index. A cluster that answers quickly is asked by each page; a large one is
    asked in the background, while pages show the index before it."""

    def __init__(self, client: ConsoleClient, offload: Offload) -> None:
        self._client = client
        self._offload = offload
        self._index: TopicIndex | None = None
        self._took_s = 0.0
        self._refreshing: asyncio.Task[TopicIndex] | None = None
        self._placed: tuple[TopicIndex, Placement] | None = None

    def forget(self) -> None:
        """After a change: the next page waits for a new index."""
        self._index = None

    async def get(self) -> TopicIndex:
        """Raises ClusterFailed"""
        index = self._index
        if index is None:
            return await self._refresh()
        age_s = asyncio.get_running_loop().time() - index.at_s
        if self._took_s <= _QUICK_S:
            return index if age_s < _FRESH_S else await self._refresh()
        if age_s > max(_STALE_S, 5 * self._took_s):
            self._start()
        return index

    async def placement(self, index: TopicIndex) -> Placement:
        """Where the partitions of this index are; it is read once."""
        if self._placed is None or self._placed[0] is not index:
            self._placed = index, await self._offload(lambda: read_placement(index))
        return self._placed[1]

    def _start(self) -> "asyncio.Task[TopicIndex]":
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.ensure_future(self._read())
            self._refreshing.add_done_callback(_observed)
        return self._refreshing

    async def _refresh(self) -> TopicIndex:
        return await asyncio.shield(self._start())

    async def _read(self) -> TopicIndex:
        loop = asyncio.get_running_loop()
        view = await self._client.view()
        began = loop.time()
        response = await self._ask(view)
        index = await self._offload(lambda: read_index(response, began))
        self._took_s = loop.time() - began
        self._index = index
        return index

    async def _ask(self, view: ClusterSnapshot) -> memoryview:
        request = fields(topics=None, allow_auto_topic_creation=False)
        why = ClusterFailed("no broker is in the cluster")
        for broker in sorted(view.brokers, key=lambda each: self._client.is_silent(each.id)):
            try:
                return await self._client.exchange(
                    (broker.host, broker.port),
                    lambda number: write_request(
                        ApiKey.METADATA, _VERSION, number, CLIENT_ID, request
                    ),
                    _TIMEOUT_S,
                )
            except ClusterFailed as failure:
                self._client.note_silence(broker.id)
                why = failure
        raise why


def _observed(task: "asyncio.Task[TopicIndex]") -> None:
    """A refresh in the background that failed is no error of the page: the next one retries."""
    if not task.cancelled():
        task.exception()
