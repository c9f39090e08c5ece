"""The checkpoint files of all log directories: recovery points, log starts, high watermarks, and
the ends of the compacted parts.

The event loop decides their contents; a thread writes them.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.base.errors import DiskFault
from barnabas.base.ids import TopicPartition
from barnabas.base.safeguards import Safeguards
from barnabas.log.log import Log
from barnabas.log.log_dir import (
    FIRST_DIRTY_OFFSET,
    HIGH_WATERMARK,
    LOG_START_OFFSET,
    RECOVERY_POINT,
    CheckpointWrite,
    LogDir,
)
from barnabas.log.open_logs import OpenLogs
from barnabas.log.truncation_sync import TruncationSync

NO_HIGH_WATERMARKS: Final[Mapping[TopicPartition, int]] = {}


class LogCheckpoints:
    """The checkpoints of the open logs. A log directory that is offline has none."""

    def __init__(
        self,
        log_dirs: Mapping[str, LogDir],
        offline: Mapping[str, DiskFault],
        logs: OpenLogs,
        safeguards: Safeguards,
    ) -> None:
        self.high_watermarks: dict[TopicPartition, int] = {}
        self._log_dirs = log_dirs
        self._offline = offline
        self._logs = logs
        self._safeguards = safeguards
        # Logs whose gaps compaction may have left: a recovery point of 0 would deny that.
        self._of_unknown_origin: set[TopicPartition] = set()

    def on_opened(self, log: Log, recovery_point: int | None) -> None:
        """Note that a log was opened; None if no checkpoint had a recovery point of it."""
        self._of_unknown_origin.discard(log.partition)
        if recovery_point is None and len(log.segments) > 1:
            self._of_unknown_origin.add(log.partition)

    def writes(self, high_watermarks: Mapping[TopicPartition, int]) -> list[CheckpointWrite]:
        """The work that checkpoints the current recovery points, log starts and high watermarks.

        A partition that `high_watermarks` does not name keeps its old entry.
        """
        return [
            write
            for name, log_dir in self._log_dirs.items()
            if name not in self._offline
            for write in self.writes_in(log_dir, high_watermarks)
        ]

    def writes_in(
        self, log_dir: LogDir, high_watermarks: Mapping[TopicPartition, int]
    ) -> list[CheckpointWrite]:
        """The same of one log directory."""
        logs = self._logs.on(log_dir.disk)
        starts = {
            log.partition: log.log_start_offset
            for log in logs
            if log.log_start_offset > log.segments[0].base_offset
        }
        known = {}
        for log in logs:
            given = high_watermarks.get(log.partition, self.high_watermarks.get(log.partition))
            if given is not None:
                # Beyond the log's end it would apply to records that are appended there next.
                known[log.partition] = min(given, log.log_end_offset)
        self.high_watermarks |= known
        return [
            self._recovery_points_write(log_dir),
            log_dir.write_offsets(LOG_START_OFFSET, starts),
            log_dir.write_offsets(HIGH_WATERMARK, known),
            self._compacted_write(log_dir),
        ]

    # Recovery points

    def recovery_points_beside(self, log: Log) -> CheckpointWrite:
        """The work that writes the recovery points of `log` and of all logs beside it.

        It must be done before a compaction: recovery then scans only parts of logs without gaps.
        """
        return self._recovery_points_write(self._log_dir_of(log))

    def announce(self, log: Log) -> None:
        """Write the log's first recovery point: from then on its gaps are losses. Blocks if so."""
        log_dir = self._log_dir_of(log)
        if not log_dir.is_known(RECOVERY_POINT, log.partition):
            self._recovery_points_write(log_dir).run()

    def lower_recovery_points(self, log_dir: LogDir) -> None:
        """Lower each recovery point beyond its log's end: records appended there are unflushed.

        Blocks. Raises DiskFault.
        """
        known = log_dir.read_offsets(RECOVERY_POINT)
        points = self._recovery_points(log_dir)
        if any(points.get(partition, 0) < known[partition] for partition in known):
            log_dir.write_offsets(RECOVERY_POINT, points).run()

    def _recovery_points_write(self, log_dir: LogDir) -> CheckpointWrite:
        return log_dir.write_offsets(RECOVERY_POINT, self._recovery_points(log_dir))

    def _recovery_points(self, log_dir: LogDir) -> dict[TopicPartition, int]:
        proven = self._safeguards.flush_before_checkpoint
        return {
            log.partition: log.recovery_point if proven else log.log_end_offset
            for log in self._logs.on(log_dir.disk)
            if log.recovery_point or log.partition not in self._of_unknown_origin
        }

    # Compacted parts

    def compacted_beside(self, log: Log) -> CheckpointWrite:
        """The work that checkpoints the end of the compacted part of `log` and the logs beside it.

        It must be done after a compaction, and between a truncation and the next append.
        """
        return self._compacted_write(self._log_dir_of(log))

    def _compacted_write(self, log_dir: LogDir) -> CheckpointWrite:
        cleaned = {
            log.partition: log.first_dirty_offset
            for log in self._logs.on(log_dir.disk)
            if log.first_dirty_offset is not None
        }
        return log_dir.write_offsets(FIRST_DIRTY_OFFSET, cleaned)

    # After a truncation

    def start_truncation_sync(self, logs: Sequence[Log]) -> TruncationSync:
        """The work that brings the truncations of `logs`, all of them online, to disk.

        It must be done before the next append to them: otherwise checkpoints that refer to removed
        records would apply to the records appended in their place. A log that is appended to
        earlier does it itself, and blocks.
        """
        names = dict.fromkeys(log.disk.log_dir for log in logs)
        return TruncationSync(
            [(log.disk, path) for log in logs for path in log.unsettled_paths],
            [
                write
                for name in names
                for write in self.writes_in(self._log_dirs[name], NO_HIGH_WATERMARKS)
            ],
            [(log, log.cuts) for log in logs],
        )

    def settle(self, log: Log) -> None:
        """Do all of that now, for one log; blocks. Raises DiskFault."""
        settling = self.start_truncation_sync([log])
        settling.run()
        settling.done()

    def _log_dir_of(self, log: Log) -> LogDir:
        return self._log_dirs[log.disk.log_dir]
