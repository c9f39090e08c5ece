"""The writer of a table: brings it up to date with its topic, each record exactly once.

A step reads a range of offsets that the table does not cover, lets Spark write data files, and
commits the files with the offsets. Only the commit counts. If the process dies before it, the table
is unchanged: the next run deletes the leftover files and reads the same range again.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.cli.client import ClusterClients
from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.archive.archive_manifest import ArchivedPartition, ArchivedTopic, Manifest
from barnabas.spark.archive.archive_source import (
    PartitionRange,
    TopicSnapshot,
    cut,
    decide_ranges,
    snapshot_topics,
)
from barnabas.spark.kill_points import reached
from barnabas.spark.source.truncation_check import ReadUpTo, check_not_truncated
from barnabas.spark.spark_errors import spark_failures
from barnabas.spark.table.table_dead_letters import DeadLetters
from barnabas.spark.table.table_files import (
    RECORDS_IN_A_FILE,
    TARGET_BYTES,
    FileWriter,
    Written,
    decide_file_records,
    tasks_for,
)
from barnabas.spark.table.table_rows import read_records, table_rows
from barnabas.spark.table.table_schema import merged_schema
from barnabas.spark.table.table_upsert import upserting
from barnabas.spark.table_log.table_directory import TableDirectory
from barnabas.spark.table_log.table_file import TableFile, total_rows
from barnabas.spark.table_log.table_log import CommitConflict, TableChange, TableLog, TableSnapshot
from barnabas.spark.table_log.table_state import CoveredPartition, TableDefinition, TableState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession


class TableSpec(NamedTuple):
    """The table that the user wants, and the sizes of its steps and files."""

    definition: TableDefinition
    options: Mapping[str, str]  # of the data source
    step_records: int = 2 * RECORDS_IN_A_FILE
    allow_gaps: bool = False
    target_bytes: int = TARGET_BYTES


class TableStep(NamedTuple):
    """The records of a step: into the table, to dead letters, and left for later."""

    records: int
    dead: int
    left: int


class TableWriter:
    """Brings a table up to date; `snapshot` is the newest one, None before the first commit.

    If `is_unfinished`, a step or its upkeep has failed: the next step first deletes its files.
    """

    def __init__(
        self, cluster: ClusterClients, directory: TableDirectory, log: TableLog, wanted: TableSpec
    ) -> None:
        self._cluster = cluster
        self._directory = directory
        self._log = log
        self._wanted = wanted
        self._topic = wanted.definition.topic
        self._files = FileWriter(directory, log, wanted.definition.partition_by)
        self._dead_letters = DeadLetters(cluster, wanted.options, wanted.definition)
        self.snapshot: TableSnapshot | None = None
        self.is_unfinished = False
        self._recover()

    def _recover(self) -> None:
        """Load the newest snapshot, and delete the files of a step that was not committed."""
        self.snapshot = self._log.load()
        if self.snapshot is None:
            self._directory.check_unused()
        self._check_definition()
        self._log.finish()
        live = None if self._log.has_snapshots else {file.path for file in self._log.files()}
        self._directory.remove_uncommitted(self.state.sequence, live)
        self.is_unfinished = False

    @property
    def state(self) -> TableState:
        return TableState(self._wanted.definition) if not self.snapshot else self.snapshot.state

    def _check_definition(self) -> None:
        """Raises CommandFailed if the table is of another topic, or laid out in another way."""
        if self.snapshot is None:
            return
        before, now = self.snapshot.state.definition, self._wanted.definition
        for what in ("topic", "partition_by", "upsert"):
            was, wanted = getattr(before, what), getattr(now, what)
            if was != wanted:
                raise CommandFailed(
                    f"{self._directory} is a table with {what.replace('_', ' ')} {was!r}, not"
                    f" {wanted!r}; use another directory"
                )
        if before.is_decoded != now.is_decoded:
            kind = "decoded" if before.is_decoded else "raw"
            raise CommandFailed(
                f"{self._directory} is a table of {kind} values; use another directory"
            )

    def uncovered(self) -> tuple[TopicSnapshot, list[PartitionRange]]:
        """The topic as it is now, and the ranges that the table does not cover.

        Raises  CommandFailed if the topic is missing, or was recreated or truncated
        """
        now = snapshot_topics(self._cluster, [self._topic])
        covered = _as_manifest(self.state) if self.snapshot else Manifest()
        ranges = decide_ranges(
            covered, now, allow_gaps=self._wanted.allow_gaps, done="in the table"
        )
        read = {
            TopicPartition(self._topic, number): ReadUpTo(each.end, each.epoch)
            for number, each in self.state.partitions.items()
        }
        check_not_truncated(self._wanted.options, read, "read")
        return now[self._topic], ranges

    def step(self, spark: "SparkSession") -> TableStep | None:
        """Write and commit the next range; return None if the table is up to date.

        Raises  CommandFailed; the table is unchanged then, and the step can run again
        """
        if self.is_unfinished:
            self._recover()
        topic, ranges = self.uncovered()
        if not ranges:
            return None
        chosen = cut(ranges, self._wanted.step_records)
        self.is_unfinished = True
        with spark_failures(f"writing the table of {self._topic}"):
            records, dead = self._write(spark, topic, chosen)
        self.is_unfinished = False
        left = sum(each.size for each in ranges) - sum(each.size for each in chosen)
        return TableStep(records, dead, left)

    def _write(
        self, spark: "SparkSession", topic: TopicSnapshot, chosen: Sequence[PartitionRange]
    ) -> tuple[int, int]:
        definition = merged_schema(spark, self._wanted, self.snapshot, chosen)
        records = read_records(spark, self._wanted.options, definition, chosen)
        seen, counted = self._counting_bad(records)
        rows = table_rows(counted, definition)
        size = sum(each.size for each in chosen)
        removed: Sequence[TableFile] = ()
        with ExitStack() as stack:
            if definition.upsert:
                changed = upserting(spark, self._log, self._files, self.snapshot, rows)
                rows, removed = stack.enter_context(changed)
                size += total_rows(removed)
            written = self._files.write(
                rows,
                self.state.sequence + 1,
                tasks_for(size),
                in_order=not definition.upsert,
                most_records=decide_file_records(self._log.files(), self._wanted.target_bytes),
            )
        dead = self._bad(seen, records)
        dead_ends = self.state.dead_letter_ends
        if dead:
            dead_ends = self._dead_letters.write(records, chosen, dead_ends)
        state = self._after(topic, chosen, definition, written, removed)
        self._commit(replace(state, dead_letter_ends=dead_ends), written, removed)
        return total_rows(written.files) - total_rows(removed), dead

    def _counting_bad(self, records: "DataFrame") -> tuple["Observation | None", "DataFrame"]:
        """Count bad records while the rows are written, except for upserts, which read twice."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        reason = self._dead_letters.reason
        if reason is None or self._wanted.definition.upsert:
            return None, records
        seen = Observation(f"bad-{Random().uuid()}")
        return seen, records.observe(seen, f.count(f.expr(reason)).alias("bad"))

    def _bad(self, seen: "Observation | None", records: "DataFrame") -> int:
        if seen is not None:
            return int(seen.get["bad"] or 0)
        reason = self._dead_letters.reason
        return records.where(f"{reason} IS NOT NULL").count() if reason is not None else 0

    def _after(
        self,
        topic: TopicSnapshot,
        chosen: Sequence[PartitionRange],
        definition: TableDefinition,
        written: Written,
        removed: Sequence[TableFile],
    ) -> TableState:
        partitions = dict(self.state.partitions)
        for number, bounds in topic.bounds.items():
            partitions.setdefault(number, CoveredPartition(bounds.start, bounds.start))
        for each in chosen:
            number = each.partition.partition
            before = partitions[number]
            partitions[number] = before.extended(each.start, each.end, each.leader_epoch)
        return self.state.next(
            definition=definition,
            topic_id=topic.topic_id,
            partition_count=len(topic.bounds),
            partitions=partitions,
            rows=self.state.rows + total_rows(written.files) - total_rows(removed),
        )

    def _commit(self, state: TableState, written: Written, removed: Sequence[TableFile]) -> None:
        schema = written.schema
        change = TableChange(state, schema, written.files, removed)
        reached("before-commit")
        self.snapshot = commit(self._log, self.snapshot, change)
        reached("committed")


def commit(log: TableLog, base: TableSnapshot | None, change: TableChange) -> TableSnapshot:
    """Commit a change; again if another program changed the table but not what it covers.

    Raises  CommandFailed if another writer covered the same offsets first
    """
    for _ in range(10):
        try:
            log.commit(base, change)
            break
        except CommitConflict:
            now = log.load()
            if now is not None and _has(log, now, change):
                return now  # what failed came after the commit
            if now is None or base is None or now.state != base.state or change.removed:
                raise CommandFailed(
                    "another writer has committed to the table meanwhile, and won; nothing of this"
                    " step is in the table; let only one writer run"
                ) from None
            base = now
    found = log.load()
    assert found is not None
    return found


def _has(log: TableLog, snapshot: TableSnapshot, change: TableChange) -> bool:
    added = {file.path for file in change.added}
    return snapshot.state == change.state and added <= {file.path for file in log.files()}


def _as_manifest(state: TableState) -> Manifest:
    partitions = {
        number: ArchivedPartition(each.start, each.end, leader_epoch=each.epoch, gaps=each.gaps)
        for number, each in state.partitions.items()
    }
    topic = ArchivedTopic(state.topic_id, state.partition_count, partitions)
    return Manifest(topics={state.definition.topic: topic})
