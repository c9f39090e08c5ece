"""Reading of a topic's messages: forward from offsets, a time or live, or the newest ones first.

Every Fetch is made on the event loop with the console's own client. No offset is committed.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.base.offload import Offload
from barnabas.client.fetch import BY_NAME, Fetch, read_fetch_response, write_fetch_request
from barnabas.client.frames import MalformedResponse
from barnabas.client.retries import STALE_LEADER, error_words
from barnabas.console.cluster.console_client import (
    CLIENT_ID,
    EARLIEST,
    LATEST,
    ClusterFailed,
    ConsoleClient,
    Unreachable,
)
from barnabas.wire.fetch.fetch_codec import FetchPartition, FetchTopic
from barnabas.wire.records.batch import BatchHeader, check_crc, headers
from barnabas.wire.records.records import Record, read_records

_MAX_BYTES: Final = 1_000_000
_WAIT_MS: Final = 500
_TIMEOUT_S: Final = 10.0
_PAUSE_S: Final = 0.25
_WITHOUT_LEADER_S: Final = 60.0
_WINDOW: Final = 20_000  # messages of all partitions that are read at first, to find the newest
_WIDER: Final = 4

# The leader of each partition, by what the cluster reports now; -1 if there is none.
Leaders = Callable[[], Awaitable[Mapping[int, int]]]


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Where to begin, and where to stop: `ends` is empty for a live tail."""

    topic: str
    starts: Mapping[int, int]
    ends: Mapping[int, int]

    def partitions_of(self, leaders: Mapping[int, int]) -> dict[TopicPartition, int]:
        """The leader of each partition of the topic."""
        return {TopicPartition(self.topic, number): leader for number, leader in leaders.items()}

    def going_on(self, where: str, after: Mapping[int, int]) -> "ReadPlan":
        """The plan of a search that goes on after another one, which ended at these offsets."""
        if where == "newest":
            ends = {n: min(end, after.get(n, end)) for n, end in self.ends.items()}
            return ReadPlan(self.topic, self.starts, ends)
        starts = {n: max(start, after.get(n, start)) for n, start in self.starts.items()}
        return ReadPlan(self.topic, starts, self.ends)

    def windows(self, limit: int, *, is_filtered: bool) -> Iterator["ReadPlan"]:
        """The same messages in parts, the newest part first, each larger than the one before.

        The first has `limit` messages of each partition, unless those are very many.
        """
        each = _WINDOW // max(1, len(self.starts))
        size = max(each if is_filtered else min(limit, each), -(-limit // max(1, len(self.starts))))
        ends = dict(self.ends)
        while any(ends[number] > start for number, start in self.starts.items()):
            starts = {
                number: max(start, ends[number] - size) for number, start in self.starts.items()
            }
            yield ReadPlan(self.topic, starts, ends)
            ends, size = starts, size * _WIDER


class ReadMessage(NamedTuple):
    """One message, and the batch that it came in."""

    partition: int
    record: Record
    batch: BatchHeader


class UnreadableBatch(NamedTuple):
    """Offsets of a partition that cannot be read; `next_offset` is None where that is not known."""

    partition: int
    offset: int
    next_offset: int | None
    why: str


async def plan_reading(
    client: ConsoleClient, topic: str, leaders: Mapping[int, int], where: str, value: int
) -> ReadPlan:
    """`where` is newest, oldest, offset, time or live; `value` an offset or a time."""
    by_partition = {TopicPartition(topic, number): leader for number, leader in leaders.items()}
    ends = await client.offsets(by_partition, by_partition, LATEST)
    begins = await client.offsets(by_partition, by_partition, EARLIEST)
    starts: dict[int, int] = {}
    since = await client.offsets(by_partition, by_partition, value) if where == "time" else {}
    for at, end in ends.items():
        begin = begins.get(at, 0)
        wanted = {"offset": value, "time": since.get(at, end), "live": end}.get(where, begin)
        starts[at.partition] = min(end, max(begin, wanted))
    is_live = where == "live"
    return ReadPlan(
        topic, starts, {} if is_live else {at.partition: end for at, end in ends.items()}
    )


class RecordReader:
    """Reads by a plan, a leader's partitions in one Fetch.

    Batches that cannot be read are passed over; `take_unreadable` returns them.
    """

    def __init__(
        self, client: ConsoleClient, offload: Offload, plan: ReadPlan, leaders: Leaders
    ) -> None:
        self._client = client
        self._offload = offload
        self._plan = plan
        self._ask_leaders = leaders
        self._leaders: Mapping[int, int] = {}
        self.positions = dict(plan.starts)
        self._unreadable: list[UnreadableBatch] = []
        self.trouble = ""

    @property
    def is_done(self) -> bool:
        return bool(self._plan.ends) and not self._wanted()

    def take_unreadable(self) -> list[UnreadableBatch]:
        """The batches that were passed over since the last call."""
        found, self._unreadable = self._unreadable, []
        return found

    def _wanted(self) -> list[int]:
        ends = self._plan.ends
        return [n for n, at in self.positions.items() if not ends or at < ends.get(n, at)]

    async def batches(self) -> AsyncIterator[list[ReadMessage]]:
        """The messages of each Fetch; an empty list where nothing came in half a second.

        A leader that moves is followed, and `trouble` says that it is waited for. Raises
        ClusterFailed, if there is none for a minute, unless the reading is live.
        """
        loop = asyncio.get_running_loop()
        self._leaders = await self._ask_leaders()
        read_s = loop.time()
        while not self.is_done:
            found, failure = await self._fetch_all()
            self.trouble = str(failure or "")
            if failure is None:
                read_s = loop.time()
            elif self._plan.ends and loop.time() - read_s > _WITHOUT_LEADER_S:
                raise failure
            yield found
            if failure is not None:
                await asyncio.sleep(_PAUSE_S)
                self._leaders = await self._leaders_again()
            elif not found:
                await asyncio.sleep(_PAUSE_S)

    async def _leaders_again(self) -> Mapping[int, int]:
        try:
            return await self._ask_leaders()
        except Unreachable:
            return self._leaders

    async def _fetch_all(self) -> tuple[list[ReadMessage], ClusterFailed | None]:
        """The records of all leaders, and a failure that another attempt may overcome."""
        wanted: dict[int, list[int]] = {}
        for number in self._wanted():
            wanted.setdefault(self._leaders.get(number, -1), []).append(number)
        failure: ClusterFailed | None = None
        if numbers := wanted.pop(-1, None):
            failure = ClusterFailed(f"{self._plan.topic}-{numbers[0]} has no leader")
        fetched = [self._fetch(leader, numbers) for leader, numbers in sorted(wanted.items())]
        found: list[ReadMessage] = []
        for answer in await asyncio.gather(*fetched, return_exceptions=True):
            if isinstance(answer, Unreachable):
                failure = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found += answer.messages
                failure = answer.failure or failure
                if answer.out_of_range:
                    await self._begin_again(answer.out_of_range)
        found.sort(key=lambda each: (each.record.timestamp, each.partition, each.record.offset))
        return found, failure

    async def _begin_again(self, numbers: list[int]) -> None:
        """Retention has deleted where these were, or an unclean leader lacks it."""
        leaders = {TopicPartition(self._plan.topic, n): self._leaders[n] for n in numbers}
        begins = await self._client.offsets(leaders, leaders, EARLIEST)
        ends = await self._client.offsets(leaders, leaders, LATEST)
        for at in leaders:
            if at in begins and at in ends:
                position = min(max(self.positions[at.partition], begins[at]), ends[at])
                is_beyond = position < self.positions[at.partition] and bool(self._plan.ends)
                self.positions[at.partition] = (
                    self._plan.ends[at.partition] if is_beyond else position
                )

    async def _fetch(self, leader: int, numbers: list[int]) -> "_Fetched":
        wanted = [FetchPartition(n, self.positions[n], _MAX_BYTES, -1, -1, -1) for n in numbers]
        fetch = Fetch(_WAIT_MS, 1, _MAX_BYTES, [FetchTopic(self._plan.topic, None, wanted)])
        response = await self._client.exchange(
            self._client.address_of(leader),
            lambda number: write_fetch_request(BY_NAME, number, CLIENT_ID, fetch),
            _TIMEOUT_S,
        )
        return await self._offload(lambda: self._decode(response))

    def _decode(self, response: memoryview) -> "_Fetched":
        try:
            fetched = read_fetch_response(BY_NAME, response)
        except MalformedResponse as failure:
            raise ClusterFailed(f"a Fetch response cannot be read: {failure}") from None
        found = _Fetched([], [], None)
        for each in fetched.partitions:
            why = f"{self._plan.topic}-{each.partition}: {error_words(each.error)}"
            if each.error is ErrorCode.none:
                found.messages.extend(self._decode_batches(each.partition, each.records))
            elif each.error is ErrorCode.offset_out_of_range:
                found.out_of_range.append(each.partition)
            elif each.error is ErrorCode.corrupt_message:
                self._give_up(each.partition, self.positions[each.partition], "the leader says so")
            elif each.error in STALE_LEADER:
                found = found._replace(failure=ClusterFailed(why))
            else:
                raise ClusterFailed(why)
        return found

    def _decode_batches(self, partition: int, data: memoryview) -> list[ReadMessage]:
        """The messages of a partition in a Fetch response.

        A batch that cannot be read is noted. The next one says where it ends, else its own header,
        unless that makes no sense: then the partition is not read any further.
        """
        found: list[ReadMessage] = []
        position, end = self.positions[partition], self._plan.ends.get(partition)
        bad: tuple[int, str] | None = None  # where the batch begins that the next one ends
        try:
            for at, header in headers(data):
                if bad is not None:
                    self._pass_over(partition, bad[0], header.base_offset, bad[1])
                    position, bad = max(position, header.base_offset), None
                batch = data[at : at + header.size]
                try:
                    kept = _records(header, batch)
                except BrokerError as failure:
                    bad = max(position, header.base_offset), str(failure)
                    continue
                position = max(position, header.next_offset)
                found += [
                    ReadMessage(partition, record, header)
                    for record in kept
                    if self.positions[partition] <= record.offset
                    and (end is None or record.offset < end)
                ]
        except BrokerError as failure:
            self._give_up(partition, bad[0] if bad else position, str(failure))
            return found
        if bad is not None:
            if header.next_offset <= bad[0]:
                self._give_up(partition, *bad)
                return found
            self._pass_over(partition, bad[0], header.next_offset, bad[1])
            position = header.next_offset
        self.positions[partition] = position
        return found

    def _pass_over(self, partition: int, offset: int, next_offset: int, why: str) -> None:
        last = min(next_offset, self._plan.ends.get(partition, next_offset))
        self._unreadable.append(UnreadableBatch(partition, offset, last, why))

    def _give_up(self, partition: int, offset: int, why: str) -> None:
        self._unreadable.append(UnreadableBatch(partition, offset, None, why))
        del self.positions[partition]


def _records(header: BatchHeader, batch: memoryview) -> list[Record]:
    """The records of one batch; none of a control batch. Raises BrokerError."""
    if not check_crc(batch):
        raise BrokerError(ErrorCode.corrupt_message, "the CRC of a batch does not fit its bytes")
    return [] if header.is_control else read_records(batch)


class _Fetched(NamedTuple):
    """The response of one leader."""

    messages: list[ReadMessage]
    out_of_range: list[int]
    failure: ClusterFailed | None
