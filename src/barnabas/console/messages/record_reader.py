"""Reading of a topic's messages: from offsets, a time, the last N, or live; until it is cancelled.

Every Fetch is made on the event loop with the console's own client. No offset is committed.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.base.offload import Offload
from barnabas.client.fetch import BY_NAME, Fetch, read_fetch_response, write_fetch_request
from barnabas.client.frames import MalformedResponse
from barnabas.console.cluster.console_client import (
    CLIENT_ID,
    EARLIEST,
    LATEST,
    ClusterFailed,
    ConsoleClient,
)
from barnabas.console.cluster.topic_index import PartitionRow
from barnabas.wire.fetch.fetch_codec import FetchPartition, FetchTopic
from barnabas.wire.records.batch import BatchHeader, headers
from barnabas.wire.records.records import Record, read_records

_MAX_BYTES: Final = 1_000_000
_WAIT_MS: Final = 500
_TIMEOUT_S: Final = 10.0
_PAUSE_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Where to begin, and where to stop: `ends` is empty for a live tail."""

    topic: str
    starts: Mapping[int, int]
    ends: Mapping[int, int]


class ReadMessage(NamedTuple):
    """One message, and the batch that it came in."""

    partition: int
    record: Record
    batch: BatchHeader


async def plan_reading(
    client: ConsoleClient,
    topic: str,
    partitions: list[PartitionRow],
    where: str,
    value: int,
) -> ReadPlan:
    """`where` is newest (the last `value` of each partition), oldest, offset, time or live."""
    leaders = {TopicPartition(topic, each.partition): each.leader for each in partitions}
    ends = await client.offsets(leaders, leaders, LATEST)
    begins = await client.offsets(leaders, leaders, EARLIEST)
    starts: dict[int, int] = {}
    since = await client.offsets(leaders, leaders, value) if where == "time" else {}
    for at, end in ends.items():
        begin = begins.get(at, 0)
        wanted = {
            "newest": end - value,
            "oldest": begin,
            "offset": value,
            "time": since.get(at, end),
            "live": end,
        }[where]
        starts[at.partition] = min(end, max(begin, wanted))
    is_live = where == "live"
    return ReadPlan(
        topic, starts, {} if is_live else {at.partition: end for at, end in ends.items()}
    )


class RecordReader:
    """Reads by a plan, a leader's partitions in one Fetch."""

    def __init__(
        self, client: ConsoleClient, offload: Offload, plan: ReadPlan, leaders: Mapping[int, int]
    ) -> None:
        self._client = client
        self._offload = offload
        self._plan = plan
        self._leaders = dict(leaders)
        self.positions = dict(plan.starts)

    @property
    def is_done(self) -> bool:
        return bool(self._plan.ends) and not self._wanted()

    def _wanted(self) -> list[int]:
        ends = self._plan.ends
        return [n for n, at in self.positions.items() if not ends or at < ends.get(n, at)]

    async def batches(self) -> AsyncIterator[list[ReadMessage]]:
        """The messages of each Fetch; an empty list where nothing came in half a second."""
        while not self.is_done:
            found: list[ReadMessage] = []
            for leader in sorted({self._leaders.get(number, -1) for number in self._wanted()}):
                if leader >= 0:
                    found += await self._fetch(leader)
            found.sort(key=lambda each: (each.record.timestamp, each.partition))
            if not found:
                await asyncio.sleep(_PAUSE_S)
            yield found

    async def _fetch(self, leader: int) -> list[ReadMessage]:
        numbers = [n for n in self._wanted() if self._leaders.get(n) == leader]
        wanted = [FetchPartition(n, self.positions[n], _MAX_BYTES, -1, -1, -1) for n in numbers]
        fetch = Fetch(_WAIT_MS, 1, _MAX_BYTES, [FetchTopic(self._plan.topic, None, wanted)])
        response = await self._client.exchange(
            self._client.address_of(leader),
            lambda number: write_fetch_request(BY_NAME, number, CLIENT_ID, fetch),
            _TIMEOUT_S,
        )
        return await self._offload(lambda: self._decode(response))

    def _decode(self, response: memoryview) -> list[ReadMessage]:
        try:
            fetched = read_fetch_response(BY_NAME, response)
        except MalformedResponse as failure:
            raise ClusterFailed(f"a Fetch response cannot be read: {failure}") from None
        found: list[ReadMessage] = []
        for each in fetched.partitions:
            if each.error is not ErrorCode.none:
                raise ClusterFailed(
                    f"{self._plan.topic}-{each.partition}: {each.error.name.upper()}"
                )
            found += self._decode_batches(each.partition, each.records)
        return found

    def _decode_batches(self, partition: int, data: memoryview) -> list[ReadMessage]:
        found: list[ReadMessage] = []
        position, end = self.positions[partition], self._plan.ends.get(partition)
        try:
            for at, header in headers(data):
                position = max(position, header.next_offset)
                if header.is_control:
                    continue
                for record in read_records(data[at : at + header.size]):
                    is_before_end = end is None or record.offset < end
                    if record.offset >= self.positions[partition] and is_before_end:
                        found.append(ReadMessage(partition, record, header))
        except BrokerError as failure:
            raise ClusterFailed(f"{self._plan.topic}-{partition}: {failure}") from None
        self.positions[partition] = position
        return found
