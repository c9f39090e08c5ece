"""A shard at work: its decisions written to the log, its answers held back until committed.

A partition of `__consumer_offsets` that this broker leads. What is decided is appended in the
order of the decisions, and applied at once; nobody hears of it before all in-sync replicas have
it. So what a client was told stays true under the next coordinator.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Final, TypeVar, cast

from barnabas.base.clock import Clock
from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import Offset, TopicPartition
from barnabas.base.offload import Offload
from barnabas.groups.outcome import Answer, ArmTimer, CancelTimer, LogRecord, Now, Outcome, Waiter
from barnabas.groups.shard import Shard
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.purgatory.timer import Timer
from barnabas.purgatory.timing_wheel import TimerTask
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.replication.replicas import Replicas
from barnabas.server.delayed.delayed_produce import Awaited
from barnabas.server.delayed.partition_purgatories import Delayed
from barnabas.wire.records.compression import Codec
from barnabas.wire.records.records import Record, build_batch

log = logging.getLogger("barnabas.groups")

Reply = TypeVar("Reply")

# What a client is told for what went wrong when its group's records were written.
_TOLD: Final = {
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}


# Below what a topic takes by default, with room for what surrounds the records.
LARGEST_BATCH: Final = 512 * 1024


def told(code: ErrorCode) -> ErrorCode:
    return _TOLD.get(code, code)


class ActiveShard:
    """One shard, the leader that writes its records, its timers and whoever waits for an answer."""

    def __init__(
        self,
        partition: TopicPartition,
        shard: Shard,
        replicas: Replicas,
        delayed: Delayed,
        timer: Timer,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        commit_timeout_ms: Callable[[], int],
        codec: Codec,
        disk_failed: Callable[[DiskFault], None],
        offload: Offload,
    ) -> None:
        self.partition = partition
        self.shard = shard
        self.is_loaded = False
        self._replicas = replicas
        self._delayed = delayed
        self._timer = timer
        self._clock = clock
        self._loop = loop
        self._commit_timeout_ms = commit_timeout_ms
        self._codec = codec
        self._disk_failed = disk_failed
        self._offload = offload
        # How far the log is written from here; every answer rests on all of it.
        self._written: Offset = Offset(0)
        self._deleted: list[TopicPartition] = []  # while the log was read
        self._timers: dict[Hashable, _ShardTimer] = {}
        self._waiting: dict[Waiter, asyncio.Future[Any]] = {}

    def now(self) -> Now:
        return Now(self._clock.now_ms(), self._loop.time() * 1000)

    # -- requests ------------------------------------------------------------

    async def ask(self, decide: Callable[[Shard, Now], Outcome[Reply]]) -> Reply:
        """The answer to a request, when what it rests on is committed.

        Raises  BrokerError(not_coordinator, coordinator_not_available), if that cannot be
        """
        reply = await self.carry_out(decide(self.shard, self.now()))
        await self._flush()
        return reply

    def carry_out(self, outcome: Outcome[Reply]) -> "asyncio.Future[Reply]":
        """Do all that was decided. Does not suspend; the answer comes later."""
        outcome = self._written_down(outcome)
        reply: asyncio.Future[Reply] = self._loop.create_future()
        if isinstance(outcome.reply, Waiter):
            self._waiting[outcome.reply] = reply
        else:
            self._give(reply, outcome.reply)
        for effect in outcome.effects:
            match effect:
                case ArmTimer(key, at_loop_ms):
                    self._arm(key, at_loop_ms)
                case CancelTimer(key):
                    self._cancel(key)
                case Answer(waiter, said):
                    # Who left meanwhile waits for nothing.
                    if (waiting := self._waiting.pop(waiter, None)) is not None:
                        self._give(waiting, said)
        return reply

    def _written_down(self, outcome: Outcome[Reply]) -> Outcome[Reply]:
        """The outcome with its records in the log and in force, or what is done instead."""
        if not outcome.records:
            return outcome
        try:
            for part in _parts(outcome.records):
                self._append(part)
                for record in part:
                    self.shard.replay(record)
        except BrokerError as e:
            log.warning("group records not written partition=%s why=%s", self.partition, e)
            return self.shard.on_append_failed(outcome, told(e.code), self.now())
        return outcome

    def _append(self, records: Sequence[LogRecord]) -> None:
        leader = self._replicas.leader(*self.partition)
        leader.check_in_sync()
        now_ms = self._clock.now_ms()
        batch = build_batch(
            [Record(n, now_ms, key, value, ()) for n, (key, value) in enumerate(records)],
            codec=self._codec,
        )
        try:
            self._written = leader.append(memoryview(bytearray(batch)), now_ms).end
        except DiskFault as fault:
            raise self._failed(fault) from fault
        self._delayed.on_append(leader)

    async def _flush(self) -> None:
        """As `flush.messages` asks, before anybody hears of what was written."""
        leader = self._replicas.find(*self.partition)
        if leader is None or leader.log.unflushed_messages < leader.log.config.flush_messages:
            return
        flush = leader.log.start_flush()
        try:
            await self._offload(flush.run)
        except DiskFault as fault:
            raise self._failed(fault) from fault
        leader.log.on_flushed(flush, self._clock.now_ms())

    def _failed(self, fault: DiskFault) -> BrokerError:
        self._disk_failed(fault)
        return BrokerError(told(ErrorCode.kafka_storage_error), str(fault))

    # -- answers -------------------------------------------------------------

    def _give(self, reply: "asyncio.Future[Any]", said: object) -> None:
        leader = self._replicas.find(*self.partition)
        if leader is not None and leader.high_watermark >= self._written:
            if not reply.done():
                reply.set_result(said)
            return
        try:
            leader = self._replicas.leader(*self.partition)
        except BrokerError as e:
            _fail(reply, told(e.code))
            return
        committed = _Committed(Awaited(leader, self._written), self._replicas, reply, said)
        self._delayed.produces.try_complete_else_watch(
            committed, [self.partition], self._commit_timeout_ms()
        )

    # -- timers --------------------------------------------------------------

    def _arm(self, key: Hashable, at_loop_ms: float) -> None:
        self._cancel(key)
        task = _ShardTimer(lambda: self._on_timer(key))
        delay_ms = max(1, round(at_loop_ms - self._loop.time() * 1000))
        if self._timer.add(task, delay_ms):
            self._timers[key] = task

    def _cancel(self, key: Hashable) -> None:
        if (task := self._timers.pop(key, None)) is not None:
            self._timer.cancel(task)

    def _on_timer(self, key: Hashable) -> None:
        del self._timers[key]
        self.carry_out(self.shard.on_timer(cast(tuple[str, ...], key), self.now()))

    def on_partitions_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget what was committed for them, now or when it is known what was."""
        if not self.is_loaded:
            self._deleted += partitions
        elif partitions:
            self.carry_out(self.shard.offsets.on_partitions_deleted(partitions))

    # -- beginning and end ---------------------------------------------------

    def begin(self, leader: LeaderReplica) -> None:
        """The log is replayed to its end: from now on groups are served."""
        self._written = leader.log.log_end_offset
        self.is_loaded = True
        self.carry_out(self.shard.on_loaded(self.now()))
        self.on_partitions_deleted(self._deleted)

    def end(self) -> None:
        """Another leads the partition: nothing is done any more, and whoever waits hears so."""
        for key in list(self._timers):
            self._cancel(key)
        self.shard.on_unloaded(self.now())
        waiting, self._waiting = self._waiting, {}
        for reply in waiting.values():
            _fail(reply, ErrorCode.not_coordinator)


def _parts(records: Sequence[LogRecord]) -> Iterator[Sequence[LogRecord]]:
    """All of them at once, if they fit into a batch; what expires may be very much."""
    part: list[LogRecord] = []
    size = 0
    for record in records:
        part.append(record)
        size += len(record.key) + len(record.value or b"")
        if size >= LARGEST_BATCH:
            yield part
            part, size = [], 0
    if part:
        yield part


class _ShardTimer(TimerTask):
    __slots__ = ("_due",)

    def __init__(self, due: Callable[[], None]) -> None:
        super().__init__()
        self._due = due

    def run(self) -> None:
        self._due()


class _Committed(DelayedOperation):
    """An answer that waits until all in-sync replicas have what it rests on."""

    __slots__ = ("_awaited", "_replicas", "_reply", "_said")

    def __init__(
        self,
        awaited: Awaited,
        replicas: Replicas,
        reply: "asyncio.Future[Any]",
        said: object,
    ) -> None:
        super().__init__()
        self._awaited = awaited
        self._replicas = replicas
        self._reply = reply
        self._said = said

    def try_complete(self) -> bool:
        return self._awaited.is_decided(self._replicas)

    def on_complete(self) -> None:
        code = self._awaited.code
        if code is ErrorCode.none:
            if not self._reply.done():
                self._reply.set_result(self._said)
        else:
            _fail(self._reply, told(ErrorCode.request_timed_out if code is None else code))


def _fail(reply: "asyncio.Future[Any]", code: ErrorCode) -> None:
    if not reply.done():
        reply.set_exception(BrokerError(code))
        # Whoever asked may be gone; an exception that nobody fetches is no bug.
        reply.exception()
