"""Readers of many partitions, and a broker on which no fetch waits: one that would is counted.

Nothing here depends on the clock. A fetch that the broker puts into its purgatory is taken out at
once, as if its time had run out, and noted as one that waited.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar
from zlib import crc32

import uvloop

from barnabas.bench.limits.java_fetcher import (
    MIB,
    FetchAsked,
    FetchLimits,
    JavaFetcher,
    next_offset,
)
from barnabas.bench.limits.load_messages import batch_of
from barnabas.client.fetch import (
    BY_NAME,
    FetchResponse,
    read_fetch_response,
    write_fetch_request,
)
from barnabas.purgatory.delayed_operation import DelayedOperation, Purgatory
from tests.server.raw import Insight, RawClient, broker, produce, until

T = TypeVar("T")
TOPIC = "orders"
NEVER_MS = 600_000


@dataclass
class Reader:
    """One connection to the broker, and what its fetches were answered with."""

    insight: Insight
    client: RawClient
    waits: int = 0
    topic: str = TOPIC

    async def fetch(self, asked: FetchAsked, limits: FetchLimits, **options: int) -> "Answered":
        before = self.waits
        fetch = asked.of_topic(self.topic, limits, **options)
        await self.client.send(write_fetch_request(BY_NAME, 0, "test", fetch))
        answer = read_fetch_response(BY_NAME, memoryview(await self.client.receive())[4:])
        return Answered(answer, self.waits > before)

    def ends(self, partitions: Iterable[int]) -> dict[int, int]:
        return {
            each: int(self.insight.leader(self.topic, each).log.log_end_offset)
            for each in partitions
        }


@dataclass(frozen=True)
class Answered:
    answer: FetchResponse
    waited: bool

    def read(self, offsets: Mapping[int, int]) -> dict[int, int]:
        """The next offset of each partition that had records."""
        return {
            each.partition: next_offset(each.records, offsets[each.partition])
            for each in self.answer.partitions
            if len(each.records)
        }

    @property
    def size(self) -> int:
        return sum(len(each.records) for each in self.answer.partitions)


async def reader(insight: Insight) -> Reader:
    made = Reader(insight, await insight.connect())
    for purgatory in (insight.delayed.consumers, insight.delayed.followers):
        _hurry(purgatory, made)
    return made


def _hurry(purgatory: "Purgatory[DelayedOperation]", reading: Reader) -> None:
    """Count each operation that would wait there, and complete it as its timeout would."""
    wait = purgatory.watch

    def at_once(operation: DelayedOperation, keys: Iterable[Any], timeout_ms: int) -> None:
        wait(operation, keys, timeout_ms)
        reading.waits += 1
        operation.force_complete()

    setattr(purgatory, "watch", at_once)  # noqa: B010 - mypy allows no other way


async def fill(insight: Insight, sizes: Sequence[Sequence[int]], topic: str = TOPIC) -> None:
    """Create the topic: for each partition the sizes of its batches."""
    await insight.create(topic, partitions=len(sizes))
    client = await insight.connect()
    contents = {size: batch_of(size).content for each in sizes for size in each}
    for number in range(max(map(len, sizes), default=0)):
        now = [
            (topic, partition, contents[batches[number]])
            for partition, batches in enumerate(sizes)
            if number < len(batches)
        ]
        await client.ask(produce(*now, acks=1))


# -- a broker for many examples ----------------------------------------------


class Served:
    """A broker that stays between calls of `run`, for examples that only read."""

    def __init__(self, runner: asyncio.Runner, reading: Reader, partitions: int) -> None:
        self._runner = runner
        self.reader = reading
        self.ends = reading.ends(range(partitions))

    def run(self, example: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(example)


Prepare = Callable[[Insight, str, int], object]  # with a topic, and how many partitions it has


class Layouts:
    """Topics of any sizes, each filled when first asked for; now and then on another broker.

    The name of a topic follows from its sizes alone, so an example is the same in every order.
    """

    MOST_BYTES: Final = 128 * MIB  # on one broker

    def __init__(
        self, prepare: Prepare = lambda *_: None, properties: Mapping[str, object] | None = None
    ) -> None:
        self._prepare = prepare
        self._properties = properties or {}
        self._stack = ExitStack()
        self._filled: dict[str, Served] = {}
        self._bytes = 0
        self._running: tuple[asyncio.Runner, Reader] | None = None

    def of(self, sizes: Sequence[Sequence[int]]) -> Served:
        """A topic whose partitions have batches of these sizes."""
        topic = f"{TOPIC}-{crc32(repr(sizes).encode()):08x}"
        if topic not in self._filled:
            if self._bytes > self.MOST_BYTES:
                self.close()
            if self._running is None:
                self._running = self._stack.enter_context(_running(**self._properties))
            runner, reading = self._running
            runner.run(fill(reading.insight, sizes, topic))
            self._prepare(reading.insight, topic, len(sizes))
            reading.topic = topic
            self._filled[topic] = Served(runner, reading, len(sizes))
            self._bytes += sum(map(sum, sizes))
        found = self._filled[topic]
        found.reader.topic = topic  # one reader for all: what is asked for next is read
        return found

    def close(self) -> None:
        self._stack.close()
        self._filled.clear()
        self._running, self._bytes = None, 0


@contextmanager
def served(sizes: Sequence[Sequence[int]], **properties: object) -> Iterator[Served]:
    """A broker with that topic; nothing of it is left after the block."""
    with _running(**properties) as (runner, reading):
        runner.run(fill(reading.insight, sizes))
        yield Served(runner, reading, len(sizes))


@contextmanager
def _running(**properties: object) -> Iterator[tuple[asyncio.Runner, Reader]]:
    with (
        TemporaryDirectory() as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        stack = AsyncExitStack()

        async def start() -> Reader:
            return await reader(await stack.enter_async_context(broker(Path(folder), **properties)))

        async def end() -> None:
            await stack.aclose()
            await until(lambda: len(asyncio.all_tasks()) <= 1)

        reading = runner.run(start())
        try:
            yield runner, reading
        finally:
            runner.run(end())


# -- the Java consumer -------------------------------------------------------


@dataclass
class Drained:
    """How a reader came to the end of all partitions."""

    fetches: int = 0
    needless_waits: int = 0  # although a partition that was named had data
    hungry_waits: int = 0  # although the broker had data in some assigned partition
    empty: int = 0
    drained: bool = False


async def drain_as_java(
    reading: Reader, ends: Mapping[int, int], limits: FetchLimits, most_fetches: int
) -> Drained:
    """Read all partitions as the Java consumer does, its answers arriving before its next poll."""
    fetcher = JavaFetcher(reading.topic, ends, limits)
    result = Drained()
    named: dict[int, int] = {}
    while fetcher.positions != ends and fetcher.fetches <= most_fetches:
        fetcher.poll()
        asked = fetcher.next_fetch()
        if asked is None:
            continue
        left = {each for each, end in ends.items() if fetcher.fetched[each] < end}
        named = {each: at for each, at in named.items() if each not in asked.to_forget}
        named = dict(asked.to_send) if asked.session_epoch == 0 else named | dict(asked.to_send)
        got = await reading.fetch(asked, limits)
        if got.waited:
            result.needless_waits += any(at < ends[each] for each, at in named.items())
            result.hungry_waits += bool(left)
        fetcher.on_answer(got.answer)
    result.fetches, result.empty = fetcher.fetches, fetcher.empty_fetches
    result.drained = fetcher.positions == ends
    return result


def levels(size: int, batch: int, limits: FetchLimits) -> int:
    """The fetches that a partition of this size needs if each brings all that its limit allows."""
    each = max(1, limits.partition_max_bytes // batch) * batch
    return -(-size // each)


def in_batches(size: int, batch: int = 16 * 1024) -> list[int]:
    return [batch] * (size // batch)


JAVA = FetchLimits(max_wait_ms=NEVER_MS)
FLOOR = MIB  # an answer has as much, if the request and the partitions that it names allow it
