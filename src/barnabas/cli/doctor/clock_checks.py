"""Check of clocks: brokers whose clock is ahead of this machine's, or behind it.

A Barnabas broker returns its time (DescribeClock). Kafka's protocol has no request for it, but
brokers put their time on the records of internal topics. A record that is appended while the doctor
looks gives both bounds. An older one shows a clock that is, or was, ahead.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas.base.clock import SystemClock
from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.cli.doctor.finding import Finding, first_of, problem, unchecked
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.raw_client import RawClient
from barnabas.client.metadata import fields
from barnabas.wire.apis import ApiKey
from barnabas.wire.control.describe_clock import DescribeClockRequest

# Far above what NTP leaves, and far below what retention and timeouts notice.
MAX_SKEW_MS: Final = 2_000
STAMPED_BY_BROKERS: Final = ("__consumer_offsets", "__transaction_state")
_REMEDY: Final = (
    "run NTP (chrony) on all hosts, this machine included: retention, offsets.retention and"
    " transaction timeouts use these clocks"
)
# Bounds this close to zero are not watched further.
_CLOSE_MS: Final = 2 * MAX_SKEW_MS
_LOOK_EVERY_S: Final = 0.5
# The first connects, the second measures.
_TIMES_ASKED: Final = 2
# APIs that a broker of Apache Kafka has in one of its modes only.
_WITH_ZOOKEEPER: Final = ApiKey.LEADER_AND_ISR
_WITHOUT_ZOOKEEPER: Final = ApiKey.DESCRIBE_TOPIC_PARTITIONS
# ListOffsets: which end of the log, and who asks.
_LATEST: Final = -1
_MAX_TIMESTAMP: Final = -3
_HAS_MAX_TIMESTAMP: Final = 7
_CONSUMER: Final = -1
_DEBUGGING: Final = -2  # sees the log end offset, not the high watermark
_NOTHING: Final = -1

_UNKNOWN: Final = float("inf")

# A topic and the number of its partition.
Partition = tuple[str, int]


class Skew(NamedTuple):
    """The bounds of a broker's clock minus this machine's, in milliseconds.

    `is_past` if the lower one comes from a record that another leader may have stamped.
    """

    low: float = -_UNKNOWN
    high: float = _UNKNOWN
    is_past: bool = False

    @property
    def is_ahead(self) -> bool:
        return self.low > MAX_SKEW_MS

    @property
    def is_behind(self) -> bool:
        return self.high < -MAX_SKEW_MS

    @property
    def is_known(self) -> bool:
        """True if more bounds would not change what is found."""
        if self.is_past:
            return self.is_behind
        return self.is_ahead or self.is_behind or -_CLOSE_MS < self.low <= self.high < _CLOSE_MS

    def joined(self, other: "Skew") -> "Skew":
        """The bounds of both; of the lower ones, those of the present."""
        present = [each.low for each in (self, other) if not each.is_past]
        low = max(present, default=-_UNKNOWN)
        is_past = low == -_UNKNOWN
        if is_past:
            low = max(self.low, other.low)
        return Skew(low, min(self.high, other.high), is_past)


async def check_clocks(
    client: RawClient,
    brokers: Sequence[int],
    topics: Mapping[str, Any],
    patience_s: float,
) -> list[Finding]:
    """Compare the clock of each of these brokers with this machine's.

    `topics` is librdkafka's metadata. Waits up to `patience_s` for a record that a broker stamps,
    if one of them does not report its time.
    """
    told, silent = await _ask_times(client, brokers)
    watched = await _watch_records(client, silent, topics, patience_s)
    return list(decide_clocks(told, watched))


def decide_clocks(told: Mapping[int, Skew], watched: Mapping[int, Skew]) -> Iterator[Finding]:
    """The findings; one for all `watched` brokers of which too little is known."""
    for broker, skew in sorted([*told.items(), *watched.items()]):
        if skew.is_ahead and skew.is_past:
            yield problem(
                "clock",
                f"broker {broker} leads a record of an internal topic that is"
                f" {_seconds(skew.low)} ahead of this machine's clock: the clock of a leader is"
                " ahead, or was when it wrote it",
                _REMEDY,
            )
        elif skew.is_ahead or skew.is_behind:
            yield problem(
                "clock",
                f"the clock of broker {broker} is {_difference(skew)} this machine's",
                _REMEDY,
            )
    unknown = [broker for broker, skew in sorted(watched.items()) if not skew.is_known]
    names = [str(broker) for broker in unknown if not watched[broker].is_ahead]
    if names:
        yield unchecked(
            "clock",
            f"{'brokers' if names[1:] else 'broker'} {first_of(names)}"
            f" {'report' if names[1:] else 'reports'} no time, and put none on a record of an"
            " internal topic while the doctor looked: clocks could not be compared",
            "run the doctor while consumer groups commit offsets, or compare `date -u` on the"
            " hosts",
        )


def _difference(skew: Skew) -> str:
    is_exact = skew.high - skew.low < _CLOSE_MS
    more = "" if is_exact else " or more"
    if skew.is_ahead:
        return f"{_seconds(skew.low)}{more} ahead of"
    return f"{_seconds(skew.high)}{more} behind"


def _seconds(milliseconds: float) -> str:
    return f"{abs(milliseconds) / 1000:.0f} s"


# -- the time that a broker reports --------------------------------------------------


async def _ask_times(
    client: RawClient, brokers: Sequence[int]
) -> tuple[dict[int, Skew], list[int]]:
    """The skew of the brokers that report their time, and the others that answer.

    Apache Kafka closes the connection at a request that it does not know, and logs it: it is not
    asked.
    """
    told: dict[int, Skew] = {}
    silent = []

    async def ask(broker: int) -> None:
        try:
            is_asked = await _is_barnabas(client, broker)
        except PeerGone:
            return  # check_log_dirs reports it
        except CommandFailed:
            is_asked = False
        skew = await _ask_time(client, broker) if is_asked else None
        if skew is None:
            silent.append(broker)
        else:
            told[broker] = skew

    await asyncio.gather(*map(ask, brokers))
    return told, silent


async def _ask_time(client: RawClient, broker: int) -> Skew | None:
    """None if the broker is of an older release, or does not tell this user."""
    try:
        asked = [await _ask_once(client, broker) for _ in range(_TIMES_ASKED)]
    except (PeerGone, CommandFailed):
        return None
    return min(filter(None, asked), key=lambda skew: skew.high - skew.low, default=None)


async def _is_barnabas(client: RawClient, broker: int) -> bool:
    """True for a broker with APIs of both kinds of Apache Kafka. Raises PeerGone, CommandFailed."""
    await client.ask(broker, ApiKey.METADATA, fields(topics=()))
    return all(client.speaks(broker, key) for key in (_WITH_ZOOKEEPER, _WITHOUT_ZOOKEEPER))


async def _ask_once(client: RawClient, broker: int) -> Skew | None:
    """The broker looked at its clock between the request and the response."""
    before = SystemClock().now_ms()
    answer = await client.ask(broker, ApiKey.DESCRIBE_CLOCK, DescribeClockRequest())
    after = SystemClock().now_ms()
    if answer.error_code is not ErrorCode.none:
        return None
    return Skew(answer.time_ms - after, answer.time_ms - before)


# -- the time that brokers put on records ------------------------------------------------


async def _watch_records(
    client: RawClient, brokers: Sequence[int], topics: Mapping[str, Any], patience_s: float
) -> dict[int, Skew]:
    """The skew of each broker, as far as records say it; all brokers at once."""
    loop = asyncio.get_running_loop()
    until = loop.time() + patience_s
    watches = {broker: RecordWatch(client, broker, _led_by(broker, topics)) for broker in brokers}
    moving = dict(watches)
    while moving:
        await asyncio.gather(*(watch.look() for watch in moving.values()))
        moving = {broker: watch for broker, watch in moving.items() if watch.may_say_more}
        if loop.time() >= until:
            break
        if moving:
            await asyncio.sleep(_LOOK_EVERY_S)
    return {broker: watch.skew for broker, watch in watches.items()}


def _led_by(broker: int, topics: Mapping[str, Any]) -> list[Partition]:
    return [
        (topic, number)
        for topic in STAMPED_BY_BROKERS
        if topic in topics
        for number, part in topics[topic].partitions.items()
        if part.leader == broker
    ]


class Seen(NamedTuple):
    """A log end offset, and this machine's time before it was asked for."""

    end: int
    at_ms: int


class RecordWatch:
    """The clock of one broker, as far as records of the partitions that it leads show it."""

    def __init__(self, client: RawClient, broker: int, led: Sequence[Partition]) -> None:
        self._client = client
        self._broker = broker
        self._led = led
        self._seen: dict[Partition, Seen] = {}
        self.skew = Skew()

    @property
    def may_say_more(self) -> bool:
        return bool(self._led) and not self.skew.is_known

    async def look(self) -> None:
        """Learn from the records that were appended since the last look; at first from all.

        A broker that does not answer, or is older than Kafka 3.0, is not asked again, nor is one
        that leads no such partition.
        """
        if not self._led:
            return
        try:
            before = SystemClock().now_ms()
            ends = await self._ask(self._led, _LATEST, _DEBUGGING)
            if not self._client.speaks(self._broker, ApiKey.LIST_OFFSETS, _HAS_MAX_TIMESTAMP):
                self._led = ()
                return
            grown = [each for each, (end, _) in ends.items() if self._has_grown(each, end)]
            newest = await self._ask(grown, _MAX_TIMESTAMP, _CONSUMER) if grown else {}
            after = SystemClock().now_ms()
        except (PeerGone, CommandFailed):
            self._led = ()
            return
        for partition, (offset, stamp_ms) in newest.items():
            told = decide_skew(self._seen.get(partition), offset, stamp_ms, after)
            self.skew = self.skew.joined(told)
        # ListOffsets returns no record beyond the high watermark: the next look asks again.
        waiting = {each for each in grown if each in self._seen and each not in newest}
        self._seen |= {
            each: Seen(end, before) for each, (end, _) in ends.items() if each not in waiting
        }

    def _has_grown(self, partition: Partition, end: int) -> bool:
        seen = self._seen.get(partition)
        return seen is None or end > seen.end

    async def _ask(
        self, partitions: Sequence[Partition], which: int, replica_id: int
    ) -> dict[Partition, tuple[int, int]]:
        """Offset and time of each partition; without those that have none, or another leader."""
        named = tuple(
            fields(
                name=topic,
                partitions=tuple(
                    fields(partition_index=number, timestamp=which)
                    for name, number in partitions
                    if name == topic
                ),
            )
            for topic in dict(partitions)
        )
        request = fields(replica_id=replica_id, isolation_level=0, topics=named)
        answer = await self._client.ask(self._broker, ApiKey.LIST_OFFSETS, request)
        return {
            (topic.name, each.partition_index): (each.offset, each.timestamp)
            for topic in answer.topics
            for each in topic.partitions
            if each.error_code is ErrorCode.none and each.offset != _NOTHING
        }


def decide_skew(seen: Seen | None, offset: int, stamp_ms: int, after_ms: int) -> Skew:
    """The bounds by the record with the latest time of a log, which was known by `after_ms`.

    If it is beyond the end that was `seen`, it was stamped since then. Otherwise the records that
    were stamped since then have no later time.
    """
    if seen is None:
        return Skew(low=stamp_ms - after_ms, is_past=True)
    if offset >= seen.end:
        return Skew(stamp_ms - after_ms, stamp_ms - seen.at_ms)
    return Skew(high=stamp_ms - seen.at_ms)
