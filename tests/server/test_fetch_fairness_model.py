"""Fetch from partitions of any sizes, by clients of any kind: none that is named is left behind.

Two laws hold for each fetch that asks for one byte at least:

- It has records, and does not wait, if a partition that it names has any that it may read.
- In one fetch session, a partition that has records and stays named gets some in one of n fetches
  at the latest, where n is the most partitions that the session had meanwhile. Each fetch gives to
  some partition; that one goes behind all others, and new ones come last, so nobody overtakes. The
  fetch that opens a session need not change its order: n + 1 then.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.bench.limits.java_fetcher import MIB, FetchAsked, FetchLimits
from tests.replication.leading import F2, ME
from tests.server.fairness import (
    NEVER_MS,
    Answered,
    Layouts,
    Reader,
    drain_as_java,
)
from tests.server.followed import BROKER, lead
from tests.server.raw import Insight

KIB = 1024
Layout = list[list[int]]  # for each partition the sizes of its batches

# Random examples rarely have many large partitions beside a few small ones.
CHOSEN: Layout = [
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
MOST_PARTITIONS = 14
UNKNOWN = 99  # a partition that does not exist
SESSION_ID_NOT_FOUND, INVALID_SESSION_EPOCH = 70, 71

BATCHES = st.sampled_from([200, KIB, 16 * KIB, 100 * KIB, 700 * KIB]) | st.integers(200, MIB)
RUNS = st.tuples(BATCHES, st.integers(1, 60))  # a size, and how often it comes
MOST_BYTES = 6 * MIB  # of a layout; a partition may have one batch more than its share


def filled(partitions: list[list[tuple[int, int]]]) -> Layout:
    share = MOST_BYTES // len(partitions)
    layout: Layout = []
    for runs in partitions:
        layout.append([])
        for size, count in runs:
            room = max(0, share - sum(layout[-1]))
            layout[-1] += [size] * min(count, -(-room // size))
    return layout


LAYOUTS = st.lists(st.lists(RUNS, max_size=3), min_size=1, max_size=MOST_PARTITIONS).map(filled)
BYTES = st.sampled_from([1, 300, 5_000, 50_000, 300_000, MIB, 50 * MIB]) | st.integers(1, 2 * MIB)
LIMITS = st.builds(
    FetchLimits, st.just(NEVER_MS), st.just(1), BYTES, BYTES, st.sampled_from([100, 500, 10_000])
)
# Any number stands for a partition: counted round and round, so it is there in every layout.
ANY_PARTITION = st.integers(0, MOST_PARTITIONS - 1)
ORDERS = st.lists(ANY_PARTITION, min_size=1, unique=True)
STARTS = st.dictionaries(ANY_PARTITION, st.floats(0, 1))
SCENES = st.tuples(LAYOUTS | st.just(CHOSEN), ORDERS)


def ordered(layout: Layout, order: list[int]) -> list[int]:
    """Some partitions of the layout in this order."""
    return list(dict.fromkeys(each % len(layout) for each in order))


@pytest.fixture(scope="module")
def brokers() -> Iterator[Layouts]:
    with closing(Layouts()) as layouts:
        yield layouts


@pytest.fixture(scope="module")
def followed() -> Iterator[Layouts]:
    def follow(insight: Insight, topic: str, partitions: int) -> None:
        for partition in range(partitions):
            lead(insight, topic, (ME, F2), partition=partition)

    with closing(Layouts(follow, BROKER)) as layouts:
        yield layouts


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
@given(scene=SCENES, limits=LIMITS)
def test_the_java_consumer_waits_only_at_the_end_of_all_that_it_names(
    brokers: Layouts, scene: tuple[Layout, list[int]], limits: FetchLimits
) -> None:
    """It may wait with data left elsewhere: what it has buffered it does not name.

    Each fetch that does not wait brings a batch, and a poll sends one fetch at most.
    """
    layout, order = scene
    broker = brokers.of(layout)
    ends = {each: broker.ends[each] for each in sorted(ordered(layout, order))}
    batches = sum(len(layout[each]) for each in ends)
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
@given(scene=SCENES, starts=STARTS, limits=LIMITS)
def test_a_client_that_begins_with_another_partition_each_time_gets_on_in_each(
    brokers: Layouts,
    scene: tuple[Layout, list[int]],
    starts: dict[int, float],
    limits: FetchLimits,
) -> None:
    """As librdkafka does. The first that is named and has records gets some, so n fetches do."""
    layout, order = scene
    broker = brokers.of(layout)
    positions = begun(ordered(layout, order), starts, broker.ends)
    broker.run(drain(broker.reader, positions, broker.ends, limits, 1))


def kafkas_first(layout: Layout, order: list[int], limits: FetchLimits) -> dict[int, int]:
    """When each partition gets its first records from Apache Kafka, in this order each time."""
    first: dict[int, int] = {}
    at = dict.fromkeys(order, 0)  # how many batches were read
    fetches = 0
    while any(at[each] < len(layout[each]) for each in at):
        fetches += 1
        left, total = limits.max_bytes, 0
        for each in order:
            room, size = min(left, limits.partition_max_bytes), 0
            while at[each] < len(layout[each]):
                batch = layout[each][at[each]]
                if size + batch > room and (total or size):
                    break
                size += batch
                at[each] += 1
                first.setdefault(each, fetches)
            total, left = total + size, max(0, left - size)
    return first


@settings(max_examples=60)
@given(
    scene=SCENES,
    limits=st.builds(
        FetchLimits, st.just(NEVER_MS), st.just(1), st.integers(1, MIB), st.integers(1, MIB)
    ),
)
def test_a_client_that_always_names_the_same_order_fares_no_worse_than_with_kafka(
    brokers: Layouts, scene: tuple[Layout, list[int]], limits: FetchLimits
) -> None:
    """Kafka itself leaves the last ones of such a client until the first are drained.

    A broker that shares its answers otherwise may keep a partition for n fetches longer.
    """
    layout, order = scene[0], ordered(*scene)
    broker = brokers.of(layout)
    kafkas = kafkas_first(layout, order, limits)
    positions = dict.fromkeys(order, 0)
    ours = broker.run(drain(broker.reader, positions, broker.ends, limits, 0))
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
    ANY_PARTITION | st.just(UNKNOWN),
    st.floats(0, 1),
)


@settings(max_examples=200)
@given(
    scene=SCENES, starts=STARTS, limits=LIMITS, actions=st.lists(ACTIONS, min_size=5, max_size=60)
)
def test_in_a_session_of_any_history_each_partition_gets_on(
    brokers: Layouts,
    scene: tuple[Layout, list[int]],
    starts: dict[int, float],
    limits: FetchLimits,
    actions: list[tuple[str, int, float]],
) -> None:
    layout, order = scene[0], ordered(*scene)
    broker = brokers.of(layout)

    async def example() -> None:
        history = History(broker.reader, broker.ends, limits, begun(order, starts, broker.ends))
        for action, number, share in actions:
            partition = number if number == UNKNOWN else number % len(layout)
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
    layout=LAYOUTS | st.just([sizes * 2 for sizes in CHOSEN[:5]]),
    order=st.permutations(range(MOST_PARTITIONS)),
    limits=LIMITS,
    seeks=st.lists(st.tuples(ANY_PARTITION, st.floats(0, 1)), max_size=30),
)
def test_a_follower_in_a_session_gets_on_in_each_partition(
    followed: Layouts,
    layout: Layout,
    order: list[int],
    limits: FetchLimits,
    seeks: list[tuple[int, float]],
) -> None:
    broker = followed.of(layout)

    async def example() -> None:
        named = dict.fromkeys(ordered(layout, order), 0)
        history = History(broker.reader, broker.ends, limits, named, replica_id=int(F2))
        for number, share in seeks:
            await history.do("name", number % len(layout), share)
            await history.fetch()
        for _ in range(3 * len(named)):
            await history.fetch()
        await history.lose()

    broker.run(example())
