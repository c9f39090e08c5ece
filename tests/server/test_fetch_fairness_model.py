"""Fetch from partitions of any sizes, by clients of any kind: none that is named is left behind.

Two laws hold for each fetch that asks for one byte at least:

- It has records, and does not wait, if a partition that it names has any that it may read.
- In one fetch session, a partition that has records and stays named gets some in one of n fetches
  at the latest, where n is the most partitions that the session had meanwhile. Each fetch gives to
  some partition; that one goes behind all others, and new ones come last, so nobody overtakes. The
  fetch that opens a session need not change its order: n + 1 then.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.bench.limits.java_fetcher import MIB, FetchAsked, FetchLimits
from tests.replication.leading import F2, ME
from tests.server.fairness import (
    NEVER_MS,
    TOPIC,
    Answered,
    Reader,
    Served,
    drain_as_java,
    served,
)
from tests.server.followed import BROKER, lead
from tests.server.raw import Insight

KIB = 1024
SIZES = [
    [200] * 40,
    [KIB] * 60,
    [16 * KIB] * 100,
    [100 * KIB] * 12,
    [700 * KIB] * 3,
    [200, 300 * KIB] * 3,
    [8 * KIB] * 150,
    [16 * KIB] * 100,
    [],
]
PARTITIONS = range(len(SIZES))
UNKNOWN = 99  # a partition that does not exist
FOLLOWED = [sizes * 2 for sizes in SIZES[:5]]
SESSION_ID_NOT_FOUND, INVALID_SESSION_EPOCH = 70, 71

BYTES = st.sampled_from([1, 300, 5_000, 50_000, 300_000, MIB, 50 * MIB]) | st.integers(1, 2 * MIB)
LIMITS = st.builds(
    FetchLimits, st.just(NEVER_MS), st.just(1), BYTES, BYTES, st.sampled_from([100, 500, 10_000])
)
ORDERS = st.lists(st.sampled_from(PARTITIONS), min_size=1, unique=True)
STARTS = st.dictionaries(st.sampled_from(PARTITIONS), st.floats(0, 1))


@pytest.fixture(scope="module")
def broker() -> Iterator[Served]:
    with served(SIZES) as running:
        yield running


@pytest.fixture(scope="module")
def followed() -> Iterator[Served]:
    def follow(insight: Insight) -> None:
        for partition in range(len(FOLLOWED)):
            lead(insight, TOPIC, (ME, F2), partition=partition)

    with served(FOLLOWED, follow, **BROKER) as running:
        yield running


def begun(order: list[int], starts: Mapping[int, float], ends: Mapping[int, int]) -> dict[int, int]:
    """Positions in these partitions: at their beginning, or further on."""
    return {each: int(starts.get(each, 0.0) * ends[each]) for each in order}


def check_answered(got: Answered, positions: Mapping[int, int], ends: Mapping[int, int]) -> None:
    """The first law."""
    if any(at < ends.get(each, 0) for each, at in positions.items()):
        assert not got.waited, f"a fetch waited at {positions}, where the logs end at {dict(ends)}"
        assert got.size, f"a fetch came back empty at {positions}, the logs end at {dict(ends)}"


# -- the Java consumer -------------------------------------------------------


@settings(max_examples=40)
@given(order=ORDERS, limits=LIMITS)
def test_the_java_consumer_waits_only_at_the_end_of_all_that_it_names(
    broker: Served, order: list[int], limits: FetchLimits
) -> None:
    """It may wait with data left elsewhere: what it has buffered it does not name.

    Each fetch that does not wait brings a batch, and a poll sends one fetch at most.
    """
    ends = {each: broker.ends[each] for each in sorted(order)}
    batches = sum(len(SIZES[each]) for each in ends)
    polls = sum(ends.values()) // limits.max_poll_records + batches
    result = broker.run(drain_as_java(broker.reader, ends, limits, batches + polls + 2))
    assert result.needless_waits == 0
    assert result.drained
    assert result.fetches - result.empty <= batches


# -- clients without sessions ------------------------------------------------


async def drain(
    reader: Reader,
    positions: dict[int, int],
    ends: Mapping[int, int],
    limits: FetchLimits,
    step: int,
) -> dict[int, int]:
    """Read all, naming `step` partitions less far on each time; the first fetch that each got."""
    first: dict[int, int] = {}
    passed = dict.fromkeys(positions, 0)
    order, fetches = list(positions), 0
    while any(at < ends[each] for each, at in positions.items()):
        got = await reader.fetch(FetchAsked({each: positions[each] for each in order}), limits)
        check_answered(got, positions, ends)
        moved = got.read(positions)
        fetches += 1
        for each, at in positions.items():
            passed[each] = 0 if each in moved or at == ends[each] else passed[each] + 1
            assert not step or passed[each] < len(positions), f"{each} starves at {positions}"
            if each in moved:
                first.setdefault(each, fetches)
        positions |= moved
        order = order[step:] + order[:step]
    return first


@settings(max_examples=60)
@given(order=ORDERS, starts=STARTS, limits=LIMITS)
def test_a_client_that_begins_with_another_partition_each_time_gets_on_in_each(
    broker: Served, order: list[int], starts: dict[int, float], limits: FetchLimits
) -> None:
    """As librdkafka does. The first that is named and has records gets some, so n fetches do."""
    positions = begun(order, starts, broker.ends)
    broker.run(drain(broker.reader, positions, broker.ends, limits, 1))


def kafkas_first(positions: dict[int, int], limits: FetchLimits, per: list[int]) -> dict[int, int]:
    """When each partition gets its first records from Apache Kafka, in this order each time."""
    first: dict[int, int] = {}
    at = {each: positions[each] // per[each] if SIZES[each] else 0 for each in positions}
    fetches = 0
    while any(at[each] < len(SIZES[each]) for each in at):
        fetches += 1
        left, total = limits.max_bytes, 0
        for each in positions:
            room, size = min(left, limits.partition_max_bytes), 0
            while at[each] < len(SIZES[each]):
                batch = SIZES[each][at[each]]
                if size + batch > room and (total or size):
                    break
                size += batch
                at[each] += 1
                first.setdefault(each, fetches)
            total, left = total + size, max(0, left - size)
    return first


# Those whose batches all have the same number of records.
EVEN = [each for each in PARTITIONS if len(set(SIZES[each])) <= 1]


@settings(max_examples=60)
@given(
    order=st.lists(st.sampled_from(EVEN), min_size=1, unique=True),
    limits=st.builds(
        FetchLimits, st.just(NEVER_MS), st.just(1), st.integers(1, MIB), st.integers(1, MIB)
    ),
)
def test_a_client_that_always_names_the_same_order_fares_no_worse_than_with_kafka(
    broker: Served, order: list[int], limits: FetchLimits
) -> None:
    """Kafka itself leaves the last ones of such a client until the first are drained.

    A broker that shares its answers otherwise may keep a partition for n fetches longer.
    """
    positions = dict.fromkeys(order, 0)
    per = [broker.ends[each] // max(1, len(SIZES[each])) for each in PARTITIONS]
    kafkas = kafkas_first(positions, limits, per)
    ours = broker.run(drain(broker.reader, dict(positions), broker.ends, limits, 0))
    late = {each: (at, kafkas[each]) for each, at in ours.items() if at > kafkas[each] + len(order)}
    assert not late, f"first records by fetch, ours and Kafka's: {late}"


# -- sessions with any history -----------------------------------------------


@dataclass
class History:
    """A client in a fetch session that does as the test says, and keeps count of both laws."""

    reader: Reader
    ends: Mapping[int, int]
    limits: FetchLimits
    named: dict[int, int]  # by position in the log, all that the session has
    replica_id: int = -1
    session_id: int = 0
    epoch: int = 0
    news: dict[int, int] = field(default_factory=dict)
    added: list[int] = field(default_factory=list)
    forgotten: list[int] = field(default_factory=list)
    passed: dict[int, int] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)  # most partitions while one was left out
    moved: list[int] = field(default_factory=list)  # by the last answer
    buffered: dict[int, int] = field(default_factory=dict)

    async def fetch(self) -> None:
        """One fetch, full or incremental, with what changed since the last."""
        full = self.epoch == 0
        sent = self.named if full else {**self.news}
        asked = FetchAsked(sent, () if full else self.forgotten, self.session_id, self.epoch)
        options = {"leader_epoch": 1} if self.replica_id >= 0 else {}
        got = await self.reader.fetch(asked, self.limits, replica_id=self.replica_id, **options)
        self.news, self.added, self.forgotten = {}, [], []
        if got.answer.error:
            assert got.answer.error in (SESSION_ID_NOT_FOUND, INVALID_SESSION_EPOCH)
            self.session_id = 0 if got.answer.error == SESSION_ID_NOT_FOUND else self.session_id
            self.epoch = 0
            return
        check_answered(got, self.named, self.ends)
        self.count(got.read(self.named), full)
        self.session_id = got.answer.session_id
        self.epoch = self.epoch + 1 if self.session_id else 0

    def count(self, moved: dict[int, int], full: bool) -> None:
        if full:
            self.passed, self.sizes = {}, {}
        for each, at in self.named.items():
            if each in moved or at >= self.ends.get(each, 0):
                self.passed.pop(each, None)
                self.sizes.pop(each, None)
                continue
            # The fetch that opens a session does not count: it need not change the order.
            self.passed[each] = self.passed.get(each, -1 if full else 0) + 1
            self.sizes[each] = max(self.sizes.get(each, 0), len(self.named))
            assert self.passed[each] < self.sizes[each], f"{each} starves at {self.named}"
        self.named |= moved
        self.news |= moved
        self.moved = list(moved)

    def name(self, partition: int, position: int) -> None:
        """Add a partition to the session, or go to another position in it."""
        if partition in self.forgotten:  # a request that names and forgets it would forget it
            return
        if partition not in self.named:
            self.added.append(partition)
        self.named[partition] = self.news[partition] = position
        if self.passed.get(partition) and position >= self.ends.get(partition, 0):
            self.passed.pop(partition)

    def forget(self, partition: int) -> None:
        if len(self.named) > 1 and partition in self.named and partition not in self.added:
            del self.named[partition]
            self.news.pop(partition, None)
            self.forgotten.append(partition)
            self.passed.pop(partition, None)
            self.sizes.pop(partition, None)

    def consume(self) -> None:
        """Forget what just came, and name what came before that again, as the Java consumer."""
        consumed, self.buffered = self.buffered, {}
        for partition in self.moved:
            if partition in self.named:
                self.buffered[partition] = self.named[partition]
                self.forget(partition)
        for partition, position in consumed.items():
            self.name(partition, position)
        self.moved = []

    async def lose(self) -> None:
        """Another connection ends the session, as the broker does for want of room."""
        if self.session_id:
            closing = FetchAsked({}, (), self.session_id, -1)
            await self.reader.fetch(closing, self.limits, replica_id=self.replica_id)

    async def do(self, action: str, partition: int, share: float) -> None:
        if action == "name":
            self.name(partition, int(share * self.ends.get(partition, 1)))
        elif action == "forget":
            self.forget(partition)
        elif action == "out of range":
            self.name(partition, self.ends.get(partition, 0) + 1)
        elif action == "consume":
            self.consume()
        elif action == "lose":
            await self.lose()
        elif action == "wrong epoch" and self.epoch:
            self.epoch += 7


ACTIONS = st.tuples(
    st.sampled_from(["fetch", "consume", "name", "forget"])
    | st.sampled_from(["fetch", "consume", "out of range", "lose", "wrong epoch"]),
    st.sampled_from([*PARTITIONS, UNKNOWN]),
    st.floats(0, 1),
)


@settings(max_examples=200)
@given(
    order=ORDERS, starts=STARTS, limits=LIMITS, actions=st.lists(ACTIONS, min_size=5, max_size=60)
)
def test_in_a_session_of_any_history_each_partition_gets_on(
    broker: Served,
    order: list[int],
    starts: dict[int, float],
    limits: FetchLimits,
    actions: list[tuple[str, int, float]],
) -> None:
    async def example() -> None:
        history = History(broker.reader, broker.ends, limits, begun(order, starts, broker.ends))
        for action, partition, share in actions:
            await history.do(action, partition, share)
            await history.fetch()
        for last in ("fetch", "consume"):  # without any disturbance for a while
            for _ in range(3 * len(history.named)):
                await history.do(last, 0, 0)
                await history.fetch()
        await history.lose()

    broker.run(example())


@settings(max_examples=60)
@given(
    order=st.permutations(range(len(FOLLOWED))),
    limits=LIMITS,
    seeks=st.lists(st.tuples(st.sampled_from(range(len(FOLLOWED))), st.floats(0, 1)), max_size=30),
)
def test_a_follower_in_a_session_gets_on_in_each_partition(
    followed: Served, order: list[int], limits: FetchLimits, seeks: list[tuple[int, float]]
) -> None:
    async def example() -> None:
        named = dict.fromkeys(order, 0)
        history = History(followed.reader, followed.ends, limits, named, replica_id=int(F2))
        for partition, share in seeks:
            await history.do("name", partition, share)
            await history.fetch()
        for _ in range(3 * len(named)):
            await history.fetch()
        await history.lose()

    followed.run(example())
