"""A shard at work: appends the records of its decisions, parks replies until they are committed.

Records are appended in the order of the decisions and replayed at once. No reply is sent before all
in-sync replicas have the records that it rests on, so it stays true under the next coordinator.
Where the topic says so, records are replayed when they are committed: the state is never ahead.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from barnabas.base.clock import Clock
from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import Offset, TopicPartition
from barnabas.base.offload import Offload
from barnabas.coordinator.coordinator_shard import CoordinatorShard, PartitionWriter
from barnabas.coordinator.coordinator_timers import CoordinatorTimers
from barnabas.coordinator.coordinator_topic import CoordinatorTopic
from barnabas.coordinator.result import (
    Answer,
    ArmTimer,
    CancelTimer,
    CoordinatorRecord,
    CoordinatorResult,
    Emit,
    Now,
    TimerKey,
    Transaction,
    TransactionEnd,
    Waiter,
)
from barnabas.log.log import Log
from barnabas.purgatory.timer import Timer
from barnabas.wire.records.batch import HEADER_SIZE
from barnabas.wire.records.compression import Codec
from barnabas.wire.records.records import ControlType, Record, build_batch
from barnabas.wire.records.single_record import single_record_batch

Reply = TypeVar("Reply")
Shard = TypeVar("Shard", bound=CoordinatorShard)

# Of a result that is not atomic, unless the topic takes only smaller ones.
LARGEST_BATCH: Final = 512 * 1024
# The bytes that a record without headers has besides its key and value, at most.
RECORD_OVERHEAD: Final = 24
# A timer whose records could not be appended expires again after this, as in Kafka.
TIMER_AGAIN_MS: Final = 500


class CoordinatorPorts(NamedTuple):
    """The parts that a broker gives to all shards of a coordinator."""

    writer: PartitionWriter
    timer: Timer
    clock: Clock
    offload: Offload
    failures: FailureChannel


class ActiveShard(Generic[Shard]):
    """One shard, from the moment that this broker leads its partition until it resigns."""

    def __init__(
        self,
        partition: TopicPartition,
        topic: CoordinatorTopic,
        shard: Shard,
        ports: CoordinatorPorts,
        emit: Callable[[TopicPartition, object], None] = lambda _, event: None,
    ) -> None:
        """`emit` gets the events of decisions; it must not ask this shard before it returns."""
        self.partition = partition
        self.shard = shard
        self.has_resigned = False
        self.is_loaded = False
        self._topic = topic
        self._ports = ports
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._timers = CoordinatorTimers(ports.timer, self._on_timer)
        # The end of what was appended; every reply rests on all of it.
        self._appended: Offset = Offset(0)
        self._waiting: dict[Waiter, asyncio.Future[Any]] = {}
        self._parked: set[asyncio.Future[Any]] = set()
        self._when_loaded: list[Callable[[Shard, Now], CoordinatorResult[None]]] = []
        # Why records are not written at present; logged when it changes.
        self._unwritten_for = ErrorCode.none

    def now(self) -> Now:
        return Now(self._ports.clock.now_ms(), self._loop.time() * 1000)

    # -- decisions -----------------------------------------------------------

    async def ask(self, decide: Callable[[Shard, Now], CoordinatorResult[Reply]]) -> Reply:
        """The reply to a request, once the records that it rests on are committed.

        Raises  BrokerError(not_coordinator, coordinator_not_available), if they cannot be
        """
        reply = await self.perform(decide(self.shard, self.now()))
        log = self._ports.writer.log(self.partition)
        if log is not None and log.unflushed_messages >= log.config.flush_messages:
            await self._flush(log)
        return reply

    @property
    def replies_at_once(self) -> bool:
        return self.is_loaded and self._topic.replays_when_committed and self._commits_at_once()

    def ask_at_once(self, decide: Callable[[Shard, Now], CoordinatorResult[Reply]]) -> Reply | None:
        """The reply without a wait, where the partition has no other replica; never None itself.

        None, and nothing is decided, if it has; or if records are replayed when appended. A reply
        that refuses is final: records may have been appended that could not be flushed.
        """
        if not self.replies_at_once:
            return None
        return self._perform_at_once(decide(self.shard, self.now()))

    def _commits_at_once(self) -> bool:
        return not self._topic.awaits_replicas or self._ports.writer.is_sole(self.partition)

    def run(self, decide: Callable[[Shard, Now], CoordinatorResult[None]]) -> None:
        """Perform a decision that nobody waits for: now, or as soon as the shard is loaded."""
        if self.is_loaded:
            self.perform(decide(self.shard, self.now()))
        else:
            self._when_loaded.append(decide)

    def perform(self, result: CoordinatorResult[Reply]) -> "asyncio.Future[Reply]":
        """Append and replay the records, then perform the effects; the reply comes later.

        Does not suspend.
        """
        if self._topic.replays_when_committed:
            return self._perform_when_committed(result)
        return self._perform_appended(self._appended_result(result))

    def _perform_when_committed(self, result: CoordinatorResult[Reply]) -> "asyncio.Future[Reply]":
        """Append the records; replay them and perform the effects once they are committed.

        A result without records rests on committed state alone, and waits for nothing.
        """
        reply: asyncio.Future[Reply] = self._loop.create_future()
        if not result.records or self._commits_at_once():
            reply.set_result(self._perform_at_once(result))
            return reply

        def done(code: ErrorCode) -> None:
            self._parked.discard(reply)
            if self.has_resigned:
                return  # the reply is NOT_COORDINATOR already
            if code is ErrorCode.none:
                self._replay_committed(result)
                self._settle(reply, result)
            else:
                self._settle(reply, self._not_written(result, code))

        try:
            for records in self._batches(result):
                self._append(records, result)
        except BrokerError as e:
            self._settle(reply, self._not_written(result, e.code))
            return reply
        self._parked.add(reply)
        self._ports.writer.when_committed(
            self.partition, self._appended, self._topic.commit_timeout_ms, done
        )
        return reply

    def _perform_at_once(self, result: CoordinatorResult[Reply]) -> Reply:
        """The same where what is appended is committed, so that nothing waits."""
        if result.records:
            try:
                for records in self._batches(result):
                    self._append(records, result)
            except BrokerError as e:
                result = self._not_written(result, e.code)
            else:
                self._replay_committed(result)
        self._perform_effects(result)
        return cast(Reply, result.reply)

    def _replay_committed(self, result: CoordinatorResult[Any]) -> None:
        self._unwritten_for = ErrorCode.none
        for record in result.records:
            self.shard.replay(record)

    def _settle(self, reply: "asyncio.Future[Any]", result: CoordinatorResult[Any]) -> None:
        """Perform the effects of a result whose records are committed, or that has none."""
        self._perform_effects(result)
        if not reply.done():
            reply.set_result(result.reply)

    def _perform_appended(self, result: CoordinatorResult[Reply]) -> "asyncio.Future[Reply]":
        reply: asyncio.Future[Reply] = self._loop.create_future()
        if isinstance(result.reply, Waiter):
            self._waiting[result.reply] = reply
        else:
            self._park(reply, result.reply)
        self._perform_effects(result)
        return reply

    def _perform_effects(self, result: CoordinatorResult[Any]) -> None:
        for effect in result.effects:
            match effect:
                case ArmTimer(key, at_loop_ms):
                    self._timers.arm(key, at_loop_ms - self._loop.time() * 1000)
                case CancelTimer(key):
                    self._timers.cancel(key)
                case Answer(waiter, answer):
                    # A client that left in the meantime waits for nothing.
                    if (waiting := self._waiting.pop(waiter, None)) is not None:
                        self._park(waiting, answer)
                case Emit(event):
                    self._emit(self.partition, event)

    def _on_timer(self, key: TimerKey) -> None:
        """Perform the decision; if its records cannot be appended, decide again a little later."""
        result = self.shard.on_timer(key, self.now())
        if self._topic.replays_when_committed:
            self.perform(result)
            return
        appended = self._appended_result(result)
        if appended is not result:
            self._timers.arm(key, TIMER_AGAIN_MS)
        self._perform_appended(appended)

    # -- the log -------------------------------------------------------------

    def _appended_result(self, result: CoordinatorResult[Reply]) -> CoordinatorResult[Reply]:
        """The result with its records in the log and replayed, or the one in its place."""
        if not result.records:
            return result
        try:
            for records in self._batches(result):
                self._append(records, result)
                for record in records:
                    self.shard.replay(record, *_producer_of(result))
        except BrokerError as e:
            return self._not_written(result, e.code)
        return result

    def _not_written(
        self, result: CoordinatorResult[Reply], code: ErrorCode
    ) -> CoordinatorResult[Reply]:
        """The result in place of one whose records are not committed."""
        noun, logger = self._topic.noun, self._topic.logger
        if code is not self._unwritten_for:
            logger.warning(
                "%s records not written partition=%s why=%s", noun, self.partition, code.name
            )
            self._unwritten_for = code
        return self.shard.on_append_failed(result, self._topic.error(code), self.now())

    def _batches(self, result: CoordinatorResult[Any]) -> Iterable[Sequence[CoordinatorRecord]]:
        """The records in one batch; those of a large result that is not atomic in several."""
        if result.is_atomic:
            return (result.records,)
        return _small_batches(result.records, self._largest_batch())

    def _largest_batch(self) -> int:
        log = self._ports.writer.log(self.partition)
        if log is None:
            return LARGEST_BATCH
        return min(LARGEST_BATCH, log.config.max_message_bytes, log.config.segment_bytes)

    def _append(self, records: Sequence[CoordinatorRecord], result: CoordinatorResult[Any]) -> None:
        transaction = result.transaction
        now_ms = self._ports.clock.now_ms()
        if len(records) == 1 and transaction is None and self._topic.codec is Codec.NONE:
            key, value = records[0]
            sequence = result.base_sequence
            batch = single_record_batch(key, value, now_ms, base_sequence=sequence)
        else:
            batch = build_batch(
                [Record(n, now_ms, key, value, ()) for n, (key, value) in enumerate(records)],
                codec=self._topic.codec,
                base_sequence=result.base_sequence,
                **({} if transaction is None else _transactional(transaction)),
            )
        try:
            self._appended = self._ports.writer.append(
                self.partition,
                memoryview(batch),
                now_ms,
                None if transaction is None else transaction.guard,
            )
        except DiskFault as fault:
            raise self._disk_failed(fault) from fault

    def end_transaction(self, end: TransactionEnd) -> "asyncio.Future[ErrorCode]":
        """Append an end marker and apply it; the result is `none` when it is committed.

        Raises  BrokerError, if it cannot be appended
        """
        now_ms = self._ports.clock.now_ms()
        try:
            self._appended = self._ports.writer.append_marker(self.partition, end, now_ms)
        except DiskFault as fault:
            raise self._disk_failed(fault) from fault
        is_committed = end.marker.control_type is ControlType.COMMIT
        self.shard.replay_end_of_transaction(end.producer_id, is_committed)
        ended: asyncio.Future[ErrorCode] = self._loop.create_future()
        self._park(ended, ErrorCode.none)
        return ended

    async def _flush(self, log: Log) -> None:
        """Flush before a reply is sent, as `flush.messages` asks for."""
        flush = log.start_flush()
        try:
            await self._ports.offload(flush.run)
        except DiskFault as fault:
            raise self._disk_failed(fault) from fault
        log.on_flushed(flush, self._ports.clock.now_ms())

    def _disk_failed(self, fault: DiskFault) -> BrokerError:
        """Record the fault; the broker drops this shard in a later turn of the loop."""
        self._ports.failures.disk_failed(fault)
        return BrokerError(self._topic.error(ErrorCode.kafka_storage_error), str(fault))

    # -- replies -------------------------------------------------------------

    def _park(self, reply: "asyncio.Future[Any]", value: object) -> None:
        """Give the reply once all that was appended is committed."""

        def done(code: ErrorCode) -> None:
            self._parked.discard(reply)
            if code is not ErrorCode.none:
                _fail(reply, self._topic.error(code))
                return
            self._unwritten_for = code
            if not reply.done():
                reply.set_result(value)

        self._parked.add(reply)
        self._ports.writer.when_committed(
            self.partition, self._appended, self._topic.commit_timeout_ms, done
        )

    # -- beginning and end ---------------------------------------------------

    def on_loaded(self, end: Offset) -> None:
        """The log was replayed up to `end`: serve requests."""
        self._appended = end
        self.is_loaded = True
        self.perform(self.shard.on_loaded(self.now()))
        pending, self._when_loaded = self._when_loaded, []
        for decide in pending:
            self.run(decide)

    def resign(self) -> None:
        """Resign, as another broker leads the partition: waiting requests get NOT_COORDINATOR.

        The shard is never asked again: what it holds is out of date when this broker leads again.
        """
        self.is_loaded = False
        self.has_resigned = True
        self._timers.cancel_all()
        waiting = [*self._waiting.values(), *self._parked]
        self._waiting, self._parked = {}, set()
        for reply in waiting:
            _fail(reply, ErrorCode.not_coordinator)


def _small_batches(
    records: Iterable[CoordinatorRecord], largest: int
) -> Iterator[Sequence[CoordinatorRecord]]:
    batch: list[CoordinatorRecord] = []
    size = HEADER_SIZE
    for record in records:
        record_size = RECORD_OVERHEAD + len(record.key) + len(record.value or b"")
        if batch and size + record_size > largest:
            yield batch
            batch, size = [], HEADER_SIZE
        batch.append(record)
        size += record_size
    if batch:
        yield batch


def _transactional(transaction: Transaction) -> dict[str, Any]:
    return {
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "transactional": True,
    }


def _producer_of(result: CoordinatorResult[Any]) -> tuple[int, ...]:
    return () if result.transaction is None else (result.transaction.producer_id,)


def _fail(reply: "asyncio.Future[Any]", code: ErrorCode) -> None:
    if not reply.done():
        reply.set_exception(BrokerError(code))
        # The client may be gone; an exception that nobody retrieves is not a bug.
        reply.exception()
