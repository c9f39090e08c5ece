"""A simulated consumer of assigned partitions, which records every fetch in the history."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.client.fetch import (
    BY_NAME,
    NEWEST,
    Fetch,
    FetchedPartition,
    read_fetch_response,
    write_fetch_request,
)
from barnabas.client.frames import MalformedResponse
from barnabas.client.metadata import fields
from barnabas.client.retries import STALE_LEADER, Address
from barnabas.sim.checkers.history import (
    ClientOperation,
    OperationHistory,
    OperationOutcome,
    Poll,
    Polled,
    value_of,
)
from barnabas.sim.clients.client_connections import REQUEST_S, Connections, TopicLeader
from barnabas.wire.apis import ApiKey
from barnabas.wire.fetch.fetch_codec import NO_REPLICA, FetchPartition, FetchTopic
from barnabas.wire.records.batch import check_crc, headers
from barnabas.wire.records.records import read_records

MAX_WAIT_MS: Final = 500
_EARLIEST: Final = -2
_E = ErrorCode


class Consumer:
    """Positions in some partitions, and the polls that advance them; used by one task."""

    read_committed = False

    def __init__(
        self,
        name: str,
        bootstrap: Sequence[Address],
        random: Random,
        history: OperationHistory,
        group: str = "",
        *,
        by_name: bool = False,
    ) -> None:
        """With `by_name` it fetches by topic name, as librdkafka does: only for topics whose
        names are never reused."""
        self.connections = Connections(name, bootstrap, random)
        self.positions: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self._topic_ids: dict[TopicPartition, uuid.UUID] = {}
        self._random = random
        self._history = history
        self._group = group
        self._version = BY_NAME if by_name else NEWEST
        # Partitions to read from their log start.
        self._begins_anew: dict[TopicPartition, None] = {}

    def close(self) -> None:
        self.connections.close()

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions, from these positions."""
        self.positions = dict(positions)
        self.high_watermarks.clear()

    async def poll(self) -> int:
        """Fetch once from each leader; return the number of records.

        A partition without records, for whatever reason, is fetched again by the next poll.
        """
        for at in list(self._begins_anew):
            await self._find_beginning(at)
        by_leader = self._by_leader()
        if len(by_leader) == 0 or sum(map(len, by_leader.values())) < len(self.positions):
            await self.connections.refresh()
            by_leader = self._by_leader()
        counts = await asyncio.gather(
            *(self._fetch(broker, wanted) for broker, wanted in by_leader.items())
        )
        if -1 in counts or not by_leader:
            await self.connections.back_off()
            await self.connections.refresh()
        return sum(count for count in counts if count > 0)

    def _by_leader(self) -> dict[int, dict[TopicPartition, TopicLeader]]:
        found: dict[int, dict[TopicPartition, TopicLeader]] = {}
        for at in self.positions:
            leader = self.connections.leader(at)
            if leader is not None:
                self._begin_anew_if_another(at, leader.topic_id)
                found.setdefault(leader.broker, {})[at] = leader
        return found

    def _begin_anew_if_another(self, at: TopicPartition, topic_id: uuid.UUID) -> None:
        """Start at 0 if the topic was deleted and created again."""
        if self._topic_ids.setdefault(at, topic_id) != topic_id:
            self._topic_ids[at] = topic_id
            self.positions[at] = 0

    async def _find_beginning(self, at: TopicPartition) -> None:
        """Seek to the leader's log start offset; without an answer, retry in the next poll."""
        leader = self.connections.leader(at)
        if leader is None or at not in self.positions:
            del self._begins_anew[at]
            return
        wanted = fields(
            partition_index=at.partition, current_leader_epoch=leader.epoch, timestamp=_EARLIEST
        )
        try:
            answer = await self.connections.ask(
                leader.broker,
                ApiKey.LIST_OFFSETS,
                replica_id=NO_REPLICA,
                isolation_level=0,
                topics=(fields(name=at.topic, partitions=(wanted,)),),
            )
        except PeerGone:
            return
        found = answer.topics[0].partitions[0]
        if found.error_code is _E.none:
            self.positions[at] = found.offset
        del self._begins_anew[at]

    async def _fetch(self, broker: int, wanted: Mapping[TopicPartition, TopicLeader]) -> int:
        """The number of records; -1 if another broker should be asked."""
        began = self._history.now()
        asked = {
            at: Poll(at, leader.topic_id, self.positions[at], self._group)
            for at, leader in wanted.items()
        }
        request = self._request(wanted)
        try:
            connection = await self.connections.to(broker)
            answer = await connection.exchange(
                lambda number: write_fetch_request(
                    self._version, number, self.connections.name, request
                ),
                REQUEST_S,
            )
            fetched = read_fetch_response(self._version, answer)
        except (PeerGone, MalformedResponse):
            return -1
        names: dict[uuid.UUID | str, str] = {}
        for at, leader in wanted.items():
            names[at.topic] = names[leader.topic_id] = at.topic
        counts = [
            self._take(asked[TopicPartition(names[each.topic], each.partition)], each, began)
            for each in fetched.partitions
        ]
        return -1 if -1 in counts or fetched.error is not _E.none else sum(counts)

    def _request(self, wanted: Mapping[TopicPartition, TopicLeader]) -> Fetch:
        topics: dict[tuple[str, uuid.UUID], list[FetchPartition]] = {}
        for at, leader in wanted.items():
            # Sometimes less than a batch: the broker returns a whole one all the same.
            most = 1 << (5 + (9 if self._version == BY_NAME else self._random.below(10)))
            of_topic = topics.setdefault((at.topic, leader.topic_id), [])
            of_topic.append(FetchPartition(at.partition, self.positions[at], most, leader.epoch))
        return Fetch(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            read_committed=self.read_committed,
            topics=[FetchTopic(*topic, asked) for topic, asked in topics.items()],
        )

    def _take(self, asked: Poll, fetched: FetchedPartition, began: float) -> int:
        """Record a fetched partition in the history and advance; returns as `_fetch` does."""
        if fetched.error in STALE_LEADER:
            return -1
        if self.positions.get(asked.at) != asked.position:
            return 0  # reassigned since
        if fetched.error is not _E.none:
            self._note(asked, began, OperationOutcome.FAILED, why=fetched.error.name)
            if fetched.error is _E.offset_out_of_range:
                self._begins_anew[asked.at] = None
            return -1
        self.high_watermarks[asked.at] = fetched.high_watermark
        decoded = decode(fetched.records, asked.position)
        if decoded is None:
            self._note(asked, began, OperationOutcome.FAILED, why="corrupt")
            return -1
        records, self.positions[asked.at] = decoded
        if records:
            got = Polled(tuple(records), fetched.high_watermark, fetched.log_start_offset)
            self._note(asked, began, OperationOutcome.OK, got)
        return len(records)

    def _note(
        self,
        asked: Poll,
        began: float,
        outcome: OperationOutcome,
        got: Polled | None = None,
        why: str = "",
    ) -> ClientOperation:
        operation = self._history.begin(self.connections.name, asked, began)
        self._history.end(operation, outcome, got, why)
        return operation


def decode(buffer: memoryview, position: int) -> tuple[list[tuple[int, int]], int] | None:
    """Offset and value of each record from `position` on, and the next position.

    That is after the last batch, which compaction may have emptied. None if a batch is damaged.
    """
    found, next_position = [], position
    for start, header in headers(buffer):
        batch = buffer[start : start + header.size]
        if not check_crc(batch):
            return None
        if not header.is_control:
            found += [
                (record.offset, value_of(record.value))
                for record in read_records(batch)
                if record.offset >= position
            ]
        next_position = max(next_position, header.next_offset)
    return found, next_position
