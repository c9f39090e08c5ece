"""All partitions that a broker holds, over its log folders (`log.dirs`)."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final
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
from barnabas.log.log import Log
from barnabas.log.log_dir import (
    FIRST_DIRTY_OFFSET,
    HIGH_WATERMARK,
    LOG_START_OFFSET,
    RECOVERY_POINT,
    CheckpointWrite,
    LogFolder,
)
from barnabas.log.producers.producer_state import ProducerStates
from barnabas.log.recovery.duplicate_log_dirs import empty_doubles
from barnabas.log.recovery.log_loader import Opening, open_log, write_topic_id
from barnabas.log.truncation_sync import TruncationSync

DELETE: Final = "-delete"
_PARTITION: Final = re.compile(r"(.+)-(\d+)", re.ASCII)
_MAX_NAME: Final = 255

Progress = Callable[[int, int], None]


class Logs:
    """The logs of one broker.

    `open_all` and `close` block; all else decides on the loop what is to be done, and returns
    what would block as work for a thread. A folder that fails goes offline alone.
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
        self.folders = {disk.folder: LogFolder(disk) for disk in disks}
        self.offline: dict[str, DiskFault] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self._clock = clock
        self._random = random
        self._producer_expiration_ms = producer_expiration_ms
        self._safeguards = safeguards
        self._logs: dict[TopicPartition, Log] = {}
        # Those whose gaps may be compaction's: a recovery point of 0 would say that they are not.
        self._of_unknown_origin: set[TopicPartition] = set()

    def __iter__(self) -> Iterator[Log]:
        return iter(self._logs.values())

    def __len__(self) -> int:
        return len(self._logs)

    def get(self, partition: TopicPartition) -> Log | None:
        return self._logs.get(partition)

    def stored_cluster_id(self) -> str | None:
        """The cluster that the folders say they belong to, if any does."""
        return self._stored("cluster.id")

    def stored_broker_id(self) -> int | None:
        """The broker that the folders say they belong to, if any does."""
        stored = self._stored("broker.id")
        return int(stored) if stored is not None and stored.isdecimal() else None

    def _stored(self, name: str) -> str | None:
        for folder in self.folders.values():
            with suppress(DiskFault):  # found again when the folder is acquired
                if stored := folder.stored(name):
                    return stored
        return None

    # Starting and stopping

    def acquire(self, broker_id: BrokerId, cluster_id: str) -> None:
        """Take all folders for this broker.

        Raises  ConfigError, none held, if one is in use or belongs to another broker or cluster
                DiskFault, if none is left to use
        """
        try:
            for folder in self.folders.values():
                try:
                    folder.acquire(broker_id, cluster_id)
                except DiskFault as fault:
                    self.take_offline(fault)
        except BarnabasError:
            self.release()
            raise

    def release(self) -> None:
        """Let go of the folders as they are, without the sign of a clean stop."""
        for folder in self.folders.values():
            folder.release()

    def open_all(
        self, config_of: Callable[[str], TopicConfig], progress: Progress | None = None
    ) -> list[Removal]:
        """Open every partition that the folders hold, recovering those that were not closed.

        Returns the removals that a former run did not get to. `progress` hears of each
        partition: how many are open, of how many. Blocks.

        Raises  ConfigError, none opened, if two folders hold what may be the same partition
                DiskFault, if no folder is left
        """
        removals: list[Removal] = []
        openings: list[tuple[LogFolder, Opening]] = []
        watermarks: dict[str, dict[TopicPartition, int]] = {}
        for folder in self._online():
            try:
                names = folder.disk.list()
                openings += _openings(folder, names, config_of)
                watermarks[folder.disk.folder] = folder.read_offsets(HIGH_WATERMARK)
            except DiskFault as fault:
                self.take_offline(fault)
            else:
                doomed = [name for name in names if name.endswith(DELETE)]
                removals += (Removal(folder.disk, [name], 0) for name in doomed)
        removals += self._put_doubles_aside(openings)
        for folder, (partition, *_) in openings:
            if (known := watermarks.get(folder.disk.folder, {}).get(partition)) is not None:
                self.high_watermarks[partition] = known
        for done, (folder, opening) in enumerate(openings, 1):
            if folder.disk.folder not in self.offline:
                try:
                    self._open(folder, opening)
                except DiskFault as fault:
                    self.take_offline(fault)
            if progress:
                progress(done, len(openings))
        for folder in self._online():
            try:
                self._lower_recovery_points(folder)
            except DiskFault as fault:
                self.take_offline(fault)
        return removals

    def _lower_recovery_points(self, folder: LogFolder) -> None:
        """Where a log ends before its recovery point, what comes there next is not flushed yet."""
        known = folder.read_offsets(RECOVERY_POINT)
        points = self._recovery_points(folder)
        if any(points.get(partition, 0) < known[partition] for partition in known):
            folder.write_offsets(RECOVERY_POINT, points).run()

    def _open(self, folder: LogFolder, opening: Opening) -> Log:
        log = open_log(
            folder.disk,
            opening,
            producers=ProducerStates(
                self._producer_expiration_ms, checks_sequences=self._safeguards.sequence_check
            ),
            random=self._random,
            now_ms=self._clock.now_ms(),
            settle=self._settle,
            announce=self._announce,
        )
        self._logs[opening.partition] = log
        self._of_unknown_origin.discard(opening.partition)
        if opening.recovery_point is None and len(log.segments) > 1:
            self._of_unknown_origin.add(opening.partition)
        return log

    def close(self, high_watermarks: Mapping[TopicPartition, int], broker_epoch: int = -1) -> None:
        """Close every log and mark each folder as cleanly left, unless something in it failed."""
        for folder in self._online():
            try:
                self._close_folder(folder, high_watermarks, broker_epoch)
            except DiskFault as fault:
                self.offline[fault.folder] = fault
        self._logs.clear()
        self.release()

    def _close_folder(
        self, folder: LogFolder, high_watermarks: Mapping[TopicPartition, int], broker_epoch: int
    ) -> None:
        logs = self._logs_in(folder)
        for log in logs:
            if log.failure is None:
                log.close(self._clock.now_ms())
        for write in self._checkpoints(folder, high_watermarks):
            write.run()
        if all(log.failure is None for log in logs):
            folder.mark_clean(broker_epoch)

    def take_offline(self, fault: DiskFault) -> list[TopicPartition]:
        """Give up a folder that failed; returns the partitions that went with it.

        Raises  the fault, if no folder is left
        """
        self.offline[fault.folder] = fault
        self.folders[fault.folder].release()
        lost = [log.partition for log in self if log.disk.folder == fault.folder]
        for partition in lost:
            self._logs.pop(partition).cleaning = None
        if len(self.offline) == len(self.folders):
            raise fault
        return lost

    def _online(self) -> list[LogFolder]:
        return [folder for name, folder in self.folders.items() if name not in self.offline]

    def _logs_in(self, folder: LogFolder) -> list[Log]:
        return [log for log in self if log.disk is folder.disk]

    # Partitions

    def create(
        self,
        partition: TopicPartition,
        topic_id: UUID | None,
        config: TopicConfig,
        failed: Collection[str] = (),
    ) -> Log:
        """Begin an empty log in the log directory that has the fewest, none of the `failed`.

        Raises  BrokerError(kafka_storage_error), nothing changed, if all of them are offline
                DiskFault
        """
        law(partition not in self._logs, "LOG-4 a partition has one log", partition=partition)
        online = [each for each in self._online() if each.disk.folder not in failed]
        if not online:
            raise BrokerError(ErrorCode.kafka_storage_error, "all log folders are offline")
        folder = online[0]
        if len(online) > 1:
            folder = min(online, key=lambda folder: len(self._logs_in(folder)))
        folder.forget_deleted(partition, self._logs)
        folder.disk.make_folder(str(partition))
        if topic_id is not None:
            write_topic_id(folder.disk, str(partition), topic_id)
        return self._open(folder, Opening(partition, config, clean=True, recovery_point=0))

    def adopt_topic_id(self, log: Log, topic_id: UUID) -> None:
        """Write down the id of a topic that is older than topic ids. Raises DiskFault."""
        write_topic_id(log.disk, log.folder, topic_id)
        log.topic_id = topic_id

    def _put_doubles_aside(self, openings: list[tuple[LogFolder, Opening]]) -> list[Removal]:
        """Take those out that never held anything, of partitions that are in another folder too."""
        removals = []
        while True:
            online = [each for each in openings if each[0].disk.folder not in self.offline]
            try:
                for folder, opening in empty_doubles(online):
                    removals.append(self._doom(folder.disk, opening.partition, delay_ms=0))
                    openings.remove((folder, opening))
                return removals
            except DiskFault as fault:
                self.take_offline(fault)

    def delete(self, partition: TopicPartition) -> Removal:
        """Take a partition away; its folder is renamed now and removed by the work returned."""
        log = self._logs.pop(partition)
        log.cleaning = None
        self.high_watermarks.pop(partition, None)
        return self._doom(log.disk, partition, log.config.file_delete_delay_ms)

    def _doom(self, disk: Disk, partition: TopicPartition, delay_ms: int) -> Removal:
        suffix = f"-{partition.partition}.{self._random.uuid().hex}{DELETE}"
        name = partition.topic[: _MAX_NAME - len(suffix)] + suffix
        disk.rename(str(partition), name)
        return Removal(disk, [name], delay_ms)

    # What the server does from time to time

    def due_flushes(self) -> list[tuple[Log, Flush]]:
        """What `flush.messages` and `flush.ms` ask for, and segments rolled since the last call.

        Tell each log when its work is done: `on_flushed`.
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
        """Let go of the segments that retention no longer keeps, log by log.

        Raises  DiskFault; what was given before is still to be removed
        """
        now_ms = self._clock.now_ms()
        for log in self:
            if log.failure is None and log.cleaning is None:
                high_watermark = high_watermark_of(log.partition)
                deletable = log.deletable_segments(now_ms, high_watermark)
                if removal := log.delete_segments(deletable, now_ms):
                    yield removal

    # What a truncation leaves to be done

    def start_truncation_sync(self, logs: Sequence[Log]) -> TruncationSync:
        """The work that lets the medium know of the truncations of `logs`, all of them online.

        To be done before anything is appended to them: otherwise checkpoints that tell of records
        which are gone would be believed of those that come in their place. A log that is appended
        to nevertheless does it itself, and blocks.
        """
        folders = dict.fromkeys(log.disk.folder for log in logs)
        return TruncationSync(
            [(log.disk, path) for log in logs for path in log.unsettled_paths],
            [write for name in folders for write in self._checkpoints(self.folders[name], {})],
            [(log, log.cuts) for log in logs],
        )

    def _settle(self, log: Log) -> None:
        settling = self.start_truncation_sync([log])
        settling.run()
        settling.done()

    # Checkpoints

    def checkpoints(self, high_watermarks: Mapping[TopicPartition, int]) -> list[CheckpointWrite]:
        """The work that writes down recovery points, log starts and high watermarks as they are.

        A partition whose high watermark is not given keeps the one it had.
        """
        return [
            write
            for folder in self._online()
            for write in self._checkpoints(folder, high_watermarks)
        ]

    def _checkpoints(
        self, folder: LogFolder, high_watermarks: Mapping[TopicPartition, int]
    ) -> list[CheckpointWrite]:
        logs = self._logs_in(folder)
        starts = {
            log.partition: log.log_start_offset
            for log in logs
            if log.log_start_offset > log.segments[0].base_offset
        }
        known = {}
        for log in logs:
            given = high_watermarks.get(log.partition, self.high_watermarks.get(log.partition))
            if given is not None:
                # Beyond the log's end it would be believed of what is written there next.
                known[log.partition] = min(given, log.log_end_offset)
        self.high_watermarks |= known
        return [
            self._recovery_checkpoint(folder),
            folder.write_offsets(LOG_START_OFFSET, starts),
            folder.write_offsets(HIGH_WATERMARK, known),
            self._cleaner_checkpoint(folder),
        ]

    def recovery_checkpoint(self, log: Log) -> CheckpointWrite:
        """The work that writes down up to where each log beside `log` is on the medium.

        To be done before a compaction: where logs are scanned at a start, they have no gaps then.
        """
        return self._recovery_checkpoint(self.folders[log.disk.folder])

    def _recovery_checkpoint(self, folder: LogFolder) -> CheckpointWrite:
        return folder.write_offsets(RECOVERY_POINT, self._recovery_points(folder))

    def _recovery_points(self, folder: LogFolder) -> dict[TopicPartition, int]:
        proven = self._safeguards.flush_before_checkpoint
        return {
            log.partition: log.recovery_point if proven else log.log_end_offset
            for log in self._logs_in(folder)
            if log.recovery_point or log.partition not in self._of_unknown_origin
        }

    def _announce(self, log: Log) -> None:
        """Let the medium know of a log, if it does not: then its gaps are losses. Blocks if so."""
        folder = self.folders[log.disk.folder]
        if not folder.is_known(RECOVERY_POINT, log.partition):
            self._recovery_checkpoint(folder).run()

    def cleaner_checkpoint(self, log: Log) -> CheckpointWrite:
        """The work that writes down up to where each log beside `log` was compacted.

        To be done after a compaction, and after a truncation before anything is appended.
        """
        return self._cleaner_checkpoint(self.folders[log.disk.folder])

    def _cleaner_checkpoint(self, folder: LogFolder) -> CheckpointWrite:
        cleaned = {
            log.partition: log.first_dirty_offset
            for log in self._logs_in(folder)
            if log.first_dirty_offset is not None
        }
        return folder.write_offsets(FIRST_DIRTY_OFFSET, cleaned)


def _openings(
    folder: LogFolder, names: Sequence[str], config_of: Callable[[str], TopicConfig]
) -> Iterator[tuple[LogFolder, Opening]]:
    """The partitions among `names`, with what the folder's checkpoints say of each."""
    points = folder.read_offsets(RECOVERY_POINT)
    starts = folder.read_offsets(LOG_START_OFFSET)
    dirty = folder.read_offsets(FIRST_DIRTY_OFFSET)
    for match in filter(None, map(_PARTITION.fullmatch, names)):
        partition = TopicPartition(match[1], int(match[2]))
        yield (
            folder,
            Opening(
                partition,
                config_of(partition.topic),
                folder.was_clean,
                points.get(partition),
                starts.get(partition, 0),
                dirty.get(partition),
            ),
        )
