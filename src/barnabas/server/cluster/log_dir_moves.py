"""Moves of replicas between log directories: AlterReplicaLogDirs (KIP-113).

A future log in the other log directory follows the current one as a follower follows its leader.
It takes its place once it has the same records. Leaders and followers move alike, and serve on.

A move pauses when the replica is stopped, its log directory fails or the broker stops. It goes on
from its future log when the replica has a role again.
"""

import logging
from collections.abc import Iterable
from typing import Final

from barnabas.base.clock import Clock
from barnabas.base.errors import BrokerError, DiskFault, ErrorCode, LawBroken
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.base.offload import Offload
from barnabas.log.background_work import Removals
from barnabas.log.follower_batches import checked_batches
from barnabas.log.future_logs import check_future_name, mark_complete, unmark_complete
from barnabas.log.leader_epochs import EpochEnd
from barnabas.log.log import Log
from barnabas.log.logs import Logs
from barnabas.log.segment.file_slice import FileSlice
from barnabas.replication.follower.follower_replica import FollowerReplica
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.replication.reading import Reading
from barnabas.replication.replicas import Replica, Replicas
from barnabas.replication.replication_throttle import ReplicationThrottle
from barnabas.server.maintenance.background_tasks import BackgroundTasks

log = logging.getLogger("barnabas.moves")

# The bytes to copy before other tasks get their turn.
AT_ONCE: Final = 512 * 1024
# The most that is copied in the turn of the loop that ends a move.
AT_THE_END: Final = 4 * 1024 * 1024
# How long a move rests when the throttle's rate is exceeded.
THROTTLED_MS: Final = 100


class LogDirMoves:
    """Starts, cancels and carries out moves; each is a task of its own."""

    def __init__(
        self,
        broker_id: BrokerId,
        logs: Logs,
        replicas: Replicas,
        throttle: ReplicationThrottle,
        removals: Removals,
        clock: Clock,
        offload: Offload,
        failures: FailureChannel,
    ) -> None:
        self._broker_id = broker_id
        self._logs = logs
        self._replicas = replicas
        self._throttle = throttle
        self._removals = removals
        self._clock = clock
        self._offload = offload
        self._failures = failures
        self._tasks = BackgroundTasks()
        self._moving: set[TopicPartition] = set()

    # -- requests ------------------------------------------------------------

    def alter(self, partition: TopicPartition, log_dir: str) -> None:
        """Move the replica to `log_dir`, or cancel a move if it is there already.

        Raises  BrokerError: log_dir_not_found, kafka_storage_error, invalid_topic_exception, or
                replica_not_available and unknown_topic_or_partition for one that is not here
                DiskFault
        """
        check_future_name(partition)
        if log_dir not in self._logs.log_dirs:
            raise BrokerError(ErrorCode.log_dir_not_found, f"{log_dir} is not in log.dirs")
        if log_dir in self._logs.offline or self._replicas.is_offline(partition):
            raise BrokerError(ErrorCode.kafka_storage_error)
        future = self._logs.futures.get(partition)
        if future is not None and future.disk.log_dir != log_dir:
            self._cancel(partition)
            future = None
        current = self._logs.get(partition)
        if current is None or self._replicas.get(partition) is None:
            self._refuse(partition, log_dir)
        elif future is None and current.disk.log_dir != log_dir:
            log.info("replica moves partition=%s to=%s", partition, log_dir)
            self._logs.create_future(partition, log_dir)
        self.start([partition])  # also one that has failed before

    def _cancel(self, partition: TopicPartition) -> None:
        log.info("move cancelled partition=%s", partition)
        if (removal := self._logs.futures.delete(partition)) is not None:
            self._removals.remove_later(removal)

    def _refuse(self, partition: TopicPartition, log_dir: str) -> None:
        """There is no replica to move; one that is created later goes to the log directory."""
        code = self._replicas.why_not(*partition)
        if code is ErrorCode.not_leader_or_follower:
            self._logs.prefer(partition, log_dir)
            code = ErrorCode.replica_not_available
        raise BrokerError(code)

    # -- tasks ---------------------------------------------------------------

    def start(self, partitions: Iterable[TopicPartition]) -> None:
        """Carry out the moves of these partitions, as far as they have future logs and roles."""
        for partition in partitions:
            if self._logs.futures.get(partition) is None or partition in self._moving:
                continue
            self._moving.add(partition)
            self._tasks.spawn(self._run(partition))

    async def stop(self) -> None:
        """Return when nothing is copied any more."""
        await self._tasks.stop()

    async def _run(self, partition: TopicPartition) -> None:
        try:
            while (move := self._move(partition)) is not None:
                await self._advance(move)
        except DiskFault as fault:
            self._failures.disk_failed(fault)
        except LawBroken as broken:
            self._failures.fatal(broken)
        except BrokerError as e:
            log.error("move failed partition=%s why=%s", partition, e)
        finally:
            self._moving.discard(partition)

    def _move(self, partition: TopicPartition) -> "_Move | None":
        """The move as it is now; None when there is nothing to do."""
        replica, future = self._replicas.get(partition), self._logs.futures.get(partition)
        if replica is None or future is None or self._tasks.is_stopping:
            return None
        future.config = replica.log.config
        return _Move(
            replica,
            FollowerReplica(self._broker_id, replica.leadership, future, replica.high_watermark),
            self._removals,
        )

    def _is_current(self, move: "_Move") -> bool:
        """True if replica and future log are still those of the move, after a suspension."""
        partition = move.replica.topic_partition
        return (
            self._replicas.get(partition) is move.replica
            and self._logs.futures.get(partition) is move.future.log
            and self._logs.get(partition) is move.replica.log
        )

    async def _advance(self, move: "_Move") -> None:
        """Copy a little, or end the move."""
        if self._throttle.is_exceeded:
            await self._tasks.stops_within(THROTTLED_MS)
            return
        move.align(self._clock.now_ms())
        if move.is_caught_up:
            await self._end(move)
            return
        found = move.next_slice()
        if not found.size:
            raise BrokerError(ErrorCode.corrupt_message, "the log has no batch after a gap")
        cuts = move.replica.log.cuts
        data = await self._offload(found.load)
        if data and self._is_current(move) and cuts == move.replica.log.cuts:
            move.append(memoryview(data), self._clock.now_ms())
            self._throttle.record(len(data))

    async def _end(self, move: "_Move") -> None:
        """Flush the future log, copy what came meanwhile, and rename both logs."""
        future = move.future.log
        flush = future.start_flush()
        await self._offload(flush.run)
        future.on_flushed(flush, self._clock.now_ms())
        try:
            await self._offload(lambda: mark_complete(future))
        except DiskFault:
            # A future log that was deleted meanwhile has no directory any more.
            if self._is_current(move):
                raise
        if not self._is_current(move) or not move.catch_up(self._clock.now_ms()):
            return
        old = self._logs.promote_future(move.replica.topic_partition)
        move.hand_over()
        self._removals.remove_later(self._logs.delete_replaced(old))
        log.info(
            "replica moved partition=%s to=%s", move.replica.topic_partition, future.disk.log_dir
        )
        await self._settle(old, future)

    async def _settle(self, old: Log, new: Log) -> None:
        """Bring the renames and the checkpoints of both log directories to disk."""
        await self._offload(old.disk.sync)
        await self._offload(new.disk.sync)
        for write in self._logs.checkpoints.writes(self._replicas.high_watermarks()):
            await self._offload(write.run)
        await self._offload(lambda: unmark_complete(new))


class _Move:
    """One replica and its future log, which follows it. Nothing here suspends."""

    def __init__(self, replica: Replica, future: FollowerReplica, removals: Removals) -> None:
        self.replica = replica
        self.future = future
        self._removals = removals

    @property
    def is_caught_up(self) -> bool:
        return self.future.log.log_end_offset == self.replica.log.log_end_offset

    def align(self, now_ms: int) -> None:
        """Truncate what the current log does not have, and follow its start. Raises DiskFault."""
        current, future = self.replica.log, self.future.log
        removal = None
        if future.log_end_offset < current.log_start_offset:
            removal = self.future.start_anew_at(current.log_start_offset, now_ms)
        else:
            reading = Reading(current, self.replica.high_watermark, self.replica.epoch)
            try:
                found = reading.diverging_epoch(future.epochs.latest, future.log_end_offset)
            except BrokerError:
                removal = self.future.start_anew_at(current.log_start_offset, now_ms)
            else:
                if found is not None:
                    removal = self.future.truncate_to_epoch(EpochEnd(*found), now_ms)
        if removal is not None:
            self._removals.remove_later(removal)
        self.append(memoryview(b""), now_ms)

    def next_slice(self) -> FileSlice:
        current, end = self.replica.log, self.future.log.log_end_offset
        return current.locate(end, AT_ONCE, current.log_end_offset, minimum_one=True)

    def append(self, records: memoryview, now_ms: int) -> None:
        """Append whole batches that follow, checked as those of a leader are. Raises DiskFault."""
        start = self.replica.log.log_start_offset
        committed = self.replica.high_watermark
        for batches in (records,) if not records else self._checked(records):
            appended = self.future.append(batches, committed, start, now_ms)
            if appended.removal is not None:
                self._removals.remove_later(appended.removal)

    def _checked(self, records: memoryview) -> Iterable[memoryview]:
        return checked_batches(records, self.replica.epoch, len(records))

    def catch_up(self, now_ms: int) -> bool:
        """Copy the little that is left and in memory; return whether nothing is left.

        The new log is flushed as far as the old one was.
        """
        self.align(now_ms)
        copied = 0
        while not self.is_caught_up and copied < AT_THE_END:
            data = self.next_slice().warm()
            if data is None:
                return False
            self.append(memoryview(bytes(data)), now_ms)
            copied += len(data)
        if not self.is_caught_up:
            return False
        if self.future.log.recovery_point < self.replica.log.recovery_point:
            self.future.log.flush(now_ms)
        return True

    def hand_over(self) -> None:
        """Let the replica go on with the new log."""
        new = self.future.log
        if isinstance(self.replica, LeaderReplica):
            new.begin_leading(self.replica.epoch)
        self.replica.log = new
        new.producers.on_high_watermark(self.replica.high_watermark)
