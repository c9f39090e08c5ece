"""Upkeep of a table: small files are merged, old snapshots expire."""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from barnabas.base.clock import Clock, SystemClock
from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.kill_points import reached
from barnabas.spark.spark_errors import spark_failures
from barnabas.spark.table.table_files import FileWriter
from barnabas.spark.table_log.table_directory import TableDirectory
from barnabas.spark.table_log.table_file import TableFile, total_rows
from barnabas.spark.table_log.table_log import CommitConflict, TableChange, TableLog, TableSnapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES_OF_A_TIER: Final = 8
_COMMITS_BETWEEN_EXPIRIES: Final = 20
_MS_PER_HOUR: Final = 3_600_000


def decide_merges(files: Sequence[TableFile], target_bytes: int) -> list[list[TableFile]]:
    """The files to merge: each list becomes one file, and has the same partition values.

    Files fall into tiers by size, so that a row is written again a few times at most. A merged file
    has at most the target's size.
    """
    tiers: dict[tuple[str, int], list[TableFile]] = {}
    for file in files:
        if 0 < file.bytes < target_bytes // 2:
            tier = int(math.log(file.bytes, FILES_OF_A_TIER))
            tiers.setdefault((repr(sorted(file.partition_values.items())), tier), []).append(file)
    full = [found for _, found in sorted(tiers.items()) if len(found) >= FILES_OF_A_TIER]
    return [_fitting(found, target_bytes) for found in full]


def _fitting(files: Sequence[TableFile], target_bytes: int) -> list[TableFile]:
    sizes = accumulate(file.bytes for file in files)
    return [file for file, size in zip(files, sizes, strict=True) if size <= target_bytes]


class Upkeep:
    """Merges and expires after the steps of one table."""

    def __init__(
        self,
        directory: TableDirectory,
        log: TableLog,
        target_bytes: int,
        keep_hours: float,
        clock: Clock | None = None,
    ) -> None:
        self._directory = directory
        self._log = log
        self._target_bytes = target_bytes
        self._keep_hours = keep_hours
        self._clock = clock or SystemClock()

    def run(
        self, spark: "SparkSession", snapshot: TableSnapshot | None
    ) -> tuple[TableSnapshot | None, int]:
        """Do what is due; return the newest snapshot and the number of files merged.

        Raises  CommandFailed if Spark fails; the rows of the table are the same then
        """
        if snapshot is None:
            return None, 0
        reached("before-upkeep")
        merged = 0
        while merges := decide_merges(self._log.files(), self._target_bytes):
            try:
                snapshot = self._merge(spark, snapshot, merges[0])
            except CommitConflict:
                return self._log.load(), merged
            merged += len(merges[0])
        if merged or snapshot.state.sequence % _COMMITS_BETWEEN_EXPIRIES == 0:
            before = self._clock.now_ms() - int(self._keep_hours * _MS_PER_HOUR)
            self._log.expire(before)
            snapshot = self._log.load() or snapshot
        return snapshot, merged

    def _merge(
        self, spark: "SparkSession", snapshot: TableSnapshot, old: Sequence[TableFile]
    ) -> TableSnapshot:
        from pyspark.sql.types import StructType

        state = snapshot.state.next()
        files = FileWriter(self._directory, self._log, state.definition.partition_by)
        with spark_failures("merging small files"):
            rows = files.read(spark, old, StructType.fromJson(dict(snapshot.schema)))
            written = files.write(rows, state.sequence, 1, most_records=0)
        if (found := total_rows(written.files)) != (wanted := total_rows(old)):
            raise CommandFailed(f"{self._directory}: {wanted} rows became {found} when merged")
        change = TableChange(state, snapshot.schema, written.files, old, is_upkeep=True)
        self._log.commit(snapshot, change)
        return self._log.load() or snapshot
