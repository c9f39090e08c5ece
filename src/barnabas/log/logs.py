"""All logs of a broker, over its log directories (`log.dirs`)."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from uuid import UUID

from barnabas.base.clock import Clock
from barnabas.base.errors import BarnabasError, BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import BrokerId, Offset, TopicPartition
from barnabas.base.laws import law
from barnabas.base.randomness import Random
from barnabas.base.safeguards import IN_FORCE, Safeguards
from barnabas.config.topic_config import TopicConfig
from barnabas.disk.disk import Disk
from barnabas.log.background_work import Flush, Removal
from barnabas.log.deleted_logs import DELETE, rename_to_delete, stray_name
from barnabas.log.future_logs import FutureLogs, finish_renames
from barnabas.log.log import Log
from barnabas.log.log_checkpoints import LogCheckpoints
from barnabas.log.log_dir import HIGH_WATERMARK, LogDir
from barnabas.log.open_logs import OpenLogs
from barnabas.log.producers.producer_state import ProducerStates
from barnabas.log.recovery.duplicate_log_dirs import empty_doubles
from barnabas.log.recovery.log_loader import Opening, open_log, write_topic_id
from barnabas.log.recovery.log_openings import openings_in

Progress = Callable[[int, int], None]


class Logs:
    """The logs of one broker.

    `open_all` and `close` block. All other methods decide on the loop, and return blocking work
    for a thread. A log directory that fails goes offline alone.
    """

    def __init__(
        self,
        disks: Sequence[Disk],
        *,
        clock: Clock,
        random: Random,
        producer_expiration_ms: int = 86_400_000,
        safeguards: Safeguards = IN_FORCE,
    ) -> None:
        self.log_dirs = {disk.log_dir: LogDir(disk) for disk in disks}
        self.offline: dict[str, DiskFault] = {}
        self._clock = clock
        self._random = random
        self._producer_expiration_ms = producer_expiration_ms
        self._safeguards = safeguards
        self._logs = OpenLogs()
        self.checkpoints = LogCheckpoints(self.log_dirs, self.offline, self._logs, safeguards)
        self.futures = FutureLogs(random)
        # The log directories that logs are to be created in, where somebody has chosen one.
        self._preferred: dict[TopicPartition, str] = {}

    def __iter__(self) -> Iterator[Log]:
        return iter(self._logs.values())

    def __len__(self) -> int:
        return len(self._logs)

    def get(self, partition: TopicPartition) -> Log | None:
        return self._logs.get(partition)

    def stored_cluster_id(self) -> str | None:
        """Return the `cluster.id` that the log directories store, if any does."""
        return self._stored("cluster.id")

    def stored_broker_id(self) -> int | None:
        """Return the `broker.id` that the log directories store, if any does."""
        stored = self._stored("broker.id")
        return int(stored) if stored is not None and stored.isdecimal() else None

    def _stored(self, name: str) -> str | None:
        for log_dir in self.log_dirs.values():
            with suppress(DiskFault):  # `acquire` finds it again
                if stored := log_dir.stored(name):
                    return stored
        return None

    # Starting and stopping

    def acquire(self, broker_id: BrokerId, cluster_id: str) -> None:
        """Lock all log directories for this broker.

        Raises  ConfigError, none held, if one is in use or belongs to another broker or cluster
                DiskFault, if every one failed
        """
        try:
            for log_dir in self.log_dirs.values():
                try:
                    log_dir.acquire(broker_id, cluster_id)
                except DiskFault as fault:
                    self.take_offline(fault)
        except BarnabasError:
            self.release()
            raise

    def release(self) -> None:
        """Unlock the log directories as they are, without the marker of a clean shutdown."""
        for log_dir in self.log_dirs.values():
            log_dir.release()

    def open_all(
        self, config_of: Callable[[str], TopicConfig], progress: Progress | None = None
    ) -> list[Removal]:
        """Open every log in the log directories, recovering those that were not closed. Blocks.

        Returns the removals that an earlier run did not finish. Calls `progress` after each log
        with the number of open logs and the total.

        Raises  ConfigError, none opened, if two log directories may hold the same partition
                DiskFault, if every log directory failed
        """
        self._finish_moves()
        removals: list[Removal] = []
        openings: list[tuple[LogDir, Opening]] = []
        watermarks: dict[str, dict[TopicPartition, int]] = {}
        for log_dir in self._online():
            try:
                names = log_dir.disk.list()
                openings += openings_in(log_dir, names, config_of)
                watermarks[log_dir.disk.log_dir] = log_dir.read_offsets(HIGH_WATERMARK)
            except DiskFault as fault:
                self.take_offline(fault)
            else:
                doomed = [name for name in names if name.endswith(DELETE)]
                removals += (Removal(log_dir.disk, [name], 0) for name in doomed)
        removals += self._put_doubles_aside(openings)
        for log_dir, (partition, *_) in openings:
            if (known := watermarks.get(log_dir.disk.log_dir, {}).get(partition)) is not None:
                self.checkpoints.high_watermarks[partition] = known
        for done, (log_dir, opening) in enumerate(openings, 1):
            if log_dir.disk.log_dir not in self.offline:
                try:
                    self._open(log_dir, opening)
                except DiskFault as fault:
                    self.take_offline(fault)
            if progress:
                progress(done, len(openings))
        for log_dir in self._online():
            try:
                self.checkpoints.lower_recovery_points(log_dir)
            except DiskFault as fault:
                self.take_offline(fault)
        return removals + self._open_futures()

    def _open(self, log_dir: LogDir, opening: Opening) -> Log:
        log = self._opened(log_dir, opening)
        self._logs.put(log)
        self.checkpoints.on_opened(log, opening.recovery_point)
        return log

    def _opened(self, log_dir: LogDir, opening: Opening) -> Log:
        return open_log(
            log_dir.disk,
            opening,
            producers=ProducerStates(self._producer_expiration_ms, self._safeguards),
            random=self._random,
            now_ms=self._clock.now_ms(),
            settle=self.checkpoints.settle,
            announce=self.checkpoints.announce,
        )

    def close(self, high_watermarks: Mapping[TopicPartition, int], broker_epoch: int = -1) -> None:
        """Close every log; mark each log directory as cleanly shut down if no log in it failed."""
        for log_dir in self._online():
            try:
                self._close_log_dir(log_dir, high_watermarks, broker_epoch)
            except DiskFault as fault:
                self.offline[fault.log_dir] = fault
        self._logs.clear()
        self.release()

    def _close_log_dir(
        self, log_dir: LogDir, high_watermarks: Mapping[TopicPartition, int], broker_epoch: int
    ) -> None:
        logs = self._logs.on(log_dir.disk)
        logs += (each for each in self.futures if each.disk is log_dir.disk)
        flushes = [(log, log.start_close()) for log in logs if log.failure is None]
        log_dir.disk.sync_all(dict.fromkeys(path for _, flush in flushes for path in flush.paths))
        for log, flush in flushes:
            log.on_flushed(flush, self._clock.now_ms())
        for write in self.checkpoints.writes_in(log_dir, high_watermarks):
            write.run()
        if all(log.failure is None for log in logs):
            log_dir.mark_clean(broker_epoch)

    def take_offline(self, fault: DiskFault) -> list[TopicPartition]:
        """Mark a failed log directory offline; return the partitions that it held.

        Raises  the fault, if every log directory has failed
        """
        lost = self.on_failed(fault)
        if self.are_offline:
            raise fault
        return lost

    @property
    def are_offline(self) -> bool:
        """True if every log directory has failed."""
        return len(self.offline) == len(self.log_dirs)

    def on_failed(self, fault: DiskFault) -> list[TopicPartition]:
        """Mark a failed log directory offline, be it the last; return the partitions it held."""
        self.offline[fault.log_dir] = fault
        self.log_dirs[fault.log_dir].release()
        self.futures.take_offline(fault.log_dir)
        lost = [log.partition for log in self if log.disk.log_dir == fault.log_dir]
        for partition in lost:
            self._logs.pop(partition)
        return lost

    def _online(self) -> list[LogDir]:
        return [log_dir for name, log_dir in self.log_dirs.items() if name not in self.offline]

    # Partitions

    def create(
        self,
        partition: TopicPartition,
        topic_id: UUID | None,
        config: TopicConfig,
        failed: Collection[str] = (),
    ) -> Log:
        """Create an empty log in the log directory with the fewest logs, none of the `failed`.

        Raises  BrokerError(kafka_storage_error), nothing changed, if all of them are offline
                DiskFault
        """
        law(partition not in self._logs, "LOG-4 a partition has one log", partition=partition)
        online = [each for each in self._online() if each.disk.log_dir not in failed]
        if not online:
            raise BrokerError(ErrorCode.kafka_storage_error, "all log directories are offline")
        log_dir = online[0]
        if len(online) > 1:
            log_dir = min(online, key=lambda each: self._logs.count(each.disk.log_dir))
        preferred = self._preferred.pop(partition, None)
        log_dir = next((each for each in online if each.disk.log_dir == preferred), log_dir)
        log_dir.forget_deleted(partition, self._logs)
        log_dir.disk.make_dir(str(partition))
        if topic_id is not None:
            write_topic_id(log_dir.disk, str(partition), topic_id)
        return self._open(log_dir, Opening(partition, config, clean=True, recovery_point=0))

    def adopt_topic_id(self, log: Log, topic_id: UUID) -> None:
        """Write the id of a topic that was created before topics had ids. Raises DiskFault."""
        write_topic_id(log.disk, log.directory, topic_id)
        log.topic_id = topic_id

    def _put_doubles_aside(self, openings: list[tuple[LogDir, Opening]]) -> list[Removal]:
        """Drop empty logs from `openings` whose partitions another log directory holds, too."""
        removals = []
        while True:
            online = [each for each in openings if each[0].disk.log_dir not in self.offline]
            try:
                for log_dir, opening in empty_doubles(online):
                    removals.append(
                        rename_to_delete(log_dir.disk, opening.partition, self._random, 0)
                    )
                    openings.remove((log_dir, opening))
                return removals
            except DiskFault as fault:
                self.take_offline(fault)

    def delete(self, partition: TopicPartition) -> Removal:
        """Delete a partition; its directory is renamed now, and the returned work removes it."""
        log = self._logs.pop(partition)
        self.checkpoints.high_watermarks.pop(partition, None)
        return rename_to_delete(log.disk, partition, self._random, log.config.file_delete_delay_ms)

    def set_aside(self, partition: TopicPartition) -> str:
        """Serve the log no more, and keep its files; returns the new name of its directory.

        Raises  DiskFault, nothing changed
        """
        log = self._logs[partition]
        log.rename(stray_name(partition, self._random))
        self._logs.pop(partition)
        self.checkpoints.high_watermarks.pop(partition, None)
        return log.directory

    # Between log directories

    def prefer(self, partition: TopicPartition, log_dir: str) -> None:
        """Create the log of `partition`, which has none yet, in this log directory."""
        self._preferred[partition] = log_dir

    def create_future(self, partition: TopicPartition, log_dir: str) -> Log:
        """Create an empty future log, in a log directory other than the current one.

        Raises  BrokerError(kafka_storage_error), nothing changed, while any log directory is
                offline: it may hold a future log of this partition
                DiskFault
        """
        if self.offline:
            raise BrokerError(
                ErrorCode.kafka_storage_error, f"{', '.join(self.offline)} is offline"
            )
        into = self.log_dirs[log_dir]
        into.forget_deleted(partition, [log.partition for log in self._logs.on(into.disk)])
        return self.futures.create(into, self._logs[partition], self._opened)

    def promote_future(self, partition: TopicPartition) -> Log:
        """Put the future log in place of the current one, which is returned.

        Its directory is renamed first: if that fails, the current log stays. `delete_replaced`
        must follow in the same turn of the loop.

        Raises  DiskFault, nothing changed
        """
        future, old = self.futures.get(partition), self._logs[partition]
        law(
            future is not None and future.log_end_offset == old.log_end_offset,
            "LOG-8 a future log has all records when it replaces the current one",
            log=old.directory,
            end=old.log_end_offset,
        )
        assert future is not None
        future.rename(str(partition))
        self.futures.pop(partition)
        self._logs.pop(partition)
        self._logs.put(future)
        return old

    def delete_replaced(self, old: Log) -> Removal:
        """Delete a log that `promote_future` has replaced. Raises DiskFault."""
        return rename_to_delete(
            old.disk, old.partition, self._random, old.config.file_delete_delay_ms
        )

    def _finish_moves(self) -> None:
        """Finish the renames that a crash has interrupted, if all log directories are there."""
        if len(self.log_dirs) > 1 and not self.offline:
            try:
                finish_renames([log_dir.disk for log_dir in self._online()])
            except DiskFault as fault:
                self.take_offline(fault)

    def _open_futures(self) -> list[Removal]:
        """Open the future logs; those of partitions without a log stay as they are. Blocks."""
        removals: list[Removal] = []
        for log_dir in self._online() if len(self.log_dirs) > 1 else ():
            try:
                removals += self.futures.open_all(log_dir, self._logs, self._opened)
            except DiskFault as fault:
                self.take_offline(fault)
        return removals

    # Periodic work of the server

    def due_flushes(self) -> list[tuple[Log, Flush]]:
        """Flushes due by `flush.messages` and `flush.ms`, and of segments rolled since last time.

        Call each log's `on_flushed` when its work is done.
        """
        now_ms = self._clock.now_ms()
        flushes = []
        for log in self:
            is_due = log.is_flush_due(now_ms)
            if is_due or log.is_rolled_unflushed:
                flushes.append((log, log.start_flush(rolled_only=not is_due)))
        return flushes

    def due_removals(
        self, high_watermark_of: Callable[[TopicPartition], Offset]
    ) -> Iterator[Removal]:
        """Delete the segments that retention no longer keeps, log by log.

        Raises  DiskFault; the removals returned before are still to be run
        """
        now_ms = self._clock.now_ms()
        for log in self:
            if log.failure is None and log.cleaning is None:
                high_watermark = high_watermark_of(log.partition)
                deletable = log.deletable_segments(now_ms, high_watermark)
                if removal := log.delete_segments(deletable, now_ms):
                    yield removal
