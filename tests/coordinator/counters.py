"""A toy coordinator: a counter for each key, over a real log, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from itertools import count
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import LeaderEpoch, Offset, TopicPartition
from barnabas.base.offload import InlineOffload
from barnabas.config.topic_config import TopicConfig
from barnabas.coordinator.active_shard import CoordinatorPorts
from barnabas.coordinator.coordinator_runtime import CoordinatorRuntime
from barnabas.coordinator.coordinator_topic import CoordinatorTopic
from barnabas.coordinator.result import (
    Answer,
    ArmTimer,
    CancelTimer,
    CoordinatorRecord,
    CoordinatorResult,
    Effect,
    MalformedRecord,
    Now,
    TimerKey,
    TransactionEnd,
    Waiter,
    failed_reply,
)
from barnabas.log.log import Log
from barnabas.log.producers.verification import VerificationGuard
from barnabas.purgatory.timer import Timer
from barnabas.wire.records.batch import read_header
from barnabas.wire.records.compression import Codec
from barnabas.wire.records.records import build_marker
from tests.log.batches import NOW, PARTITION, open_partition
from tests.purgatory.virtual_loop import VirtualLoop
from tests.support.recorded_failures import RecordedFailures

P = ParamSpec("P")
Reply = TypeVar("Reply")
DAY_MS = 24 * 3600 * 1000
COMMIT_TIMEOUT_MS = 5_000
TOPIC = CoordinatorTopic(PARTITION.topic, "counter", Codec.NONE, 300, COMMIT_TIMEOUT_MS)


# -- the state machine -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Count:
    value: int
    error: ErrorCode = ErrorCode.none

    def failed(self, error: ErrorCode) -> "Count":
        return Count(-1, error)


class Counters:
    """Counters are in the log; who waits for one is soft. A counter expires after a day."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.waiting: dict[str, list[Waiter]] = {}
        self.pending: dict[int, list[CoordinatorRecord]] = {}
        self._waiters = map(Waiter, count())

    def __len__(self) -> int:
        return len(self.counts)

    # -- decisions

    def add(self, key: str, by: int, now: Now) -> CoordinatorResult[Count]:
        total = self.counts.get(key, 0) + by
        effects: list[Effect] = [ArmTimer(("expiry", key), now.loop_ms + DAY_MS)]
        effects += [Answer(each, Count(total)) for each in self.waiting.pop(key, [])]
        return CoordinatorResult(Count(total), (record(key, total),), tuple(effects))

    def get(self, key: str) -> CoordinatorResult[Count]:
        return CoordinatorResult(Count(self.counts.get(key, 0)))

    def wait(self, key: str) -> CoordinatorResult[Count]:
        """The count after the next change."""
        waiter = next(self._waiters)
        self.waiting.setdefault(key, []).append(waiter)
        return CoordinatorResult(waiter)

    def remove(self, key: str) -> CoordinatorResult[None]:
        if key not in self.counts:
            return CoordinatorResult(None)
        return CoordinatorResult(
            None, (CoordinatorRecord(key.encode(), None),), (CancelTimer(("expiry", key)),)
        )

    # -- what the runtime calls

    def replay(self, record: CoordinatorRecord, producer_id: int | None = None) -> None:
        if record.key == b"?":
            raise MalformedRecord("the key is a question mark")
        if producer_id is not None:
            self.pending.setdefault(producer_id, []).append(record)
        elif record.value is None:
            self.counts.pop(record.key.decode(), None)
        else:
            self.counts[record.key.decode()] = int(record.value)

    def replay_end_of_transaction(self, producer_id: int, is_committed: bool) -> None:
        for each in self.pending.pop(producer_id, []):
            if is_committed:
                self.replay(each)

    def on_loaded(self, now: Now) -> CoordinatorResult[None]:
        effects = tuple(ArmTimer(("expiry", key), now.loop_ms + DAY_MS) for key in self.counts)
        return CoordinatorResult(None, (), effects)

    def on_timer(self, key: TimerKey, now: Now) -> CoordinatorResult[None]:
        return self.remove(key[1])

    def on_append_failed(
        self, result: CoordinatorResult[Reply], error: ErrorCode, now: Now
    ) -> CoordinatorResult[Reply]:
        effects = tuple(
            Answer(each.waiter, failed_reply(each.reply, error))
            for each in result.effects
            if isinstance(each, Answer)
        )
        reply = cast(Reply | Waiter, failed_reply(result.reply, error))
        return CoordinatorResult(reply, (), effects)


def record(key: str, total: int) -> CoordinatorRecord:
    return CoordinatorRecord(key.encode(), str(total).encode())


# -- the broker around it --------------------------------------------------------------------------


class ToyWriter:
    """Leads one partition; a test moves the high watermark, and makes appends fail."""

    def __init__(self, log: Log) -> None:
        self.led: Log | None = log
        self.commits_at_once = True
        self.error: BrokerError | DiskFault | None = None
        self.high_watermark = log.log_end_offset
        self._parked: list[tuple[Offset, Callable[[ErrorCode], None]]] = []

    def log(self, partition: TopicPartition) -> Log | None:
        return self.led

    def append(
        self,
        partition: TopicPartition,
        batch: memoryview,
        now_ms: int,
        guard: VerificationGuard | None = None,
    ) -> Offset:
        if self.error is not None:
            raise self.error
        if self.led is None:
            raise BrokerError(ErrorCode.not_leader_or_follower)
        if len(batch) > self.led.config.max_message_bytes:
            raise BrokerError(ErrorCode.message_too_large)
        end = self.led.append(batch, read_header(batch), LeaderEpoch(0), now_ms).end
        if self.commits_at_once:
            self.commit()
        return end

    def append_marker(self, partition: TopicPartition, end: TransactionEnd, now_ms: int) -> Offset:
        marker = build_marker(end.marker, now_ms, end.producer_id, end.producer_epoch)
        return self.append(partition, memoryview(marker), now_ms)

    def is_sole(self, partition: TopicPartition) -> bool:
        return self.led is not None and self.commits_at_once

    def when_committed(
        self,
        partition: TopicPartition,
        end: Offset,
        timeout_ms: int,
        done: Callable[[ErrorCode], None],
    ) -> None:
        if end <= self.high_watermark:
            done(ErrorCode.none)
            return
        self._parked.append((end, done))
        loop = asyncio.get_running_loop()
        loop.call_later(timeout_ms / 1000, self._time_out, done)

    def commit(self) -> None:
        """All replicas have all of the log."""
        assert self.led is not None
        self.high_watermark = self.led.log_end_offset
        parked, self._parked = self._parked, []
        for _, done in parked:
            done(ErrorCode.none)

    def _time_out(self, done: Callable[[ErrorCode], None]) -> None:
        for each in [each for each in self._parked if each[1] is done]:
            self._parked.remove(each)
            done(ErrorCode.request_timed_out)


class SkewedClock:
    def now_ms(self) -> int:
        return NOW


class Broker:
    """A runtime, and all that a broker gives to it."""

    def __init__(self, folder: Path, config: TopicConfig | None = None) -> None:
        self.log = open_partition(folder) if config is None else open_partition(folder, config)
        self.writer = ToyWriter(self.log)
        self.failures = RecordedFailures()
        self.timer = Timer(asyncio.get_running_loop(), self.failures)
        self.shard = Counters()
        ports = CoordinatorPorts(
            self.writer, self.timer, SkewedClock(), InlineOffload(), self.failures
        )
        self.runtime: CoordinatorRuntime[Counters] = CoordinatorRuntime(
            TOPIC, self._new_shard, ports
        )

    def _new_shard(self, epoch: int) -> Counters:
        self.shard = Counters()
        return self.shard

    async def lead(self) -> None:
        """Begin to lead the partition, whose log is committed, and load it."""
        self.begin_to_lead()
        await self.loaded()

    def begin_to_lead(self) -> None:
        self.writer.commit()
        self.runtime.on_leader(0, object())

    async def loaded(self) -> None:
        for _ in range(1000):
            if not self.runtime.loading:
                return
            await asyncio.sleep(0)
        raise AssertionError("the shard is not loaded")

    def resign(self) -> None:
        self.writer.led = None
        self.runtime.on_leader(0, None)

    def add(self, key: str, by: int = 1) -> "asyncio.Future[Count]":
        return self._asked(self.runtime.ask(0, lambda shard, now: shard.add(key, by, now)))

    def wait(self, key: str) -> "asyncio.Future[Count]":
        return self._asked(self.runtime.ask(0, lambda shard, _: shard.wait(key)))

    def get(self, key: str) -> "asyncio.Future[Count]":
        return self._asked(self.runtime.ask(0, lambda shard, _: shard.get(key)))

    @staticmethod
    def _asked(request: Awaitable[Count]) -> "asyncio.Future[Count]":
        return asyncio.ensure_future(request)


def in_virtual_time(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run a test on a loop that jumps to its next timer."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        loop = VirtualLoop(now=100.0)
        try:
            loop.run_until_complete(test(*args, **kwargs))
        finally:
            loop.close()
        assert not loop.errors

    return run


async def turns(number: int = 5) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def error_of(request: "asyncio.Future[Count]") -> ErrorCode:
    try:
        await request
    except BrokerError as e:
        return e.code
    return ErrorCode.none
