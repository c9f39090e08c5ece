"""The replayer: archived records to a topic, with key, value, headers, timestamp and partition."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.base.ids import TopicPartition
from barnabas.cli.client import ClusterClients
from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.archive.archive_checksum import checksum_column
from barnabas.spark.archive.archive_files import ArchiveDirectory
from barnabas.spark.archive.archive_manifest import ArchivedFile
from barnabas.spark.archive.archive_run import read_files, read_ranges
from barnabas.spark.archive.archive_source import (
    Bounds,
    PartitionRange,
    snapshot_topics,
)
from barnabas.spark.replay.replay_plan import (
    PartitionPlan,
    ReplayPlan,
    ReplaySelection,
    parse_plan,
    plan_path,
)
from barnabas.spark.spark_errors import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ReadFiles = Callable[["SparkSession", ArchiveDirectory, Iterable[ArchivedFile]], "DataFrame"]
_WRITTEN: Final = ("key", "value", "headers", "partition", "timestamp")


class ReplaySpec(NamedTuple):
    """The records to replay, the target, and the size of a step."""

    selection: ReplaySelection
    target: str
    options: Mapping[str, str]  # of the data source and sink
    step_records: int = 1_000_000


class ReplayStep(NamedTuple):
    records: int  # written so far
    left: int


class Replayer:
    """Executes the plan of a replay, which is stored in the archive."""

    def __init__(
        self,
        spark: "SparkSession",
        cluster: ClusterClients,
        folder: ArchiveDirectory,
        wanted: ReplaySpec,
        read: ReadFiles = read_files,
    ) -> None:
        self._read = read
        self._spark = spark
        self._cluster = cluster
        self._folder = folder
        self._wanted = wanted
        self._manifest = folder.load(must_exist=True)
        self._next: dict[int, int] = {}  # the next offset in the archive

    def begin(self, target_id: str, *, again: bool = False) -> ReplayPlan:
        """Return the stored plan, or store a new one; with `again` always a new one.

        Once a plan is done, new records in the archive make another plan.
        """
        selection = self._wanted.selection
        path = plan_path(selection, self._wanted.target, target_id)
        text = None if again else self._folder.read(path)
        before = None if text is None else parse_plan(text)
        if before is not None and not (
            before.is_done and before.may_grow(selection, self._manifest)
        ):
            return before
        with spark_failures("reading the archive"):
            plan = self._plan(self._bounds(), before)
        if before is not None and not plan.records:
            return before
        self._folder.write(path, plan.to_json())
        return plan

    def finish(self, plan: ReplayPlan, target_id: str) -> None:
        """Compare the target with the archive, and mark the plan as done.

        Raises  CommandFailed if they differ
        """
        for number, bounds in self._bounds().items():
            if number in plan.partitions and plan.partitions[number].lost_before(bounds.start):
                raise CommandFailed(
                    f"{plan.target}-{number} lacks replayed records before offset {bounds.start}:"
                    " its retention deleted them; replay to a topic that does not exist"
                )
        with spark_failures("reading what was replayed"):
            found = self._checksums(plan)
        for number, each in plan.partitions.items():
            if found.get(number, (0, 0)) != (each.records, each.checksum):
                raise CommandFailed(
                    f"{plan.target}-{number} does not have the replayed records from offset"
                    f" {each.base_offset} on: another producer has written to it"
                )
        path = plan_path(self._wanted.selection, plan.target, target_id)
        self._folder.write(path, plan.done().to_json())

    def written(self, plan: ReplayPlan) -> int:
        """The number of records written to the target."""
        return sum(self._written(plan).values())

    def step(self, plan: ReplayPlan) -> ReplayStep | None:
        """Write the next records of every partition; return None if all are written.

        Raises  CommandFailed; a prefix of each partition is written then
        """
        written = self._written(plan)
        left = {n: each.records - written[n] for n, each in plan.partitions.items()}
        if not any(left.values()):
            return None
        with spark_failures(f"replaying to {plan.target}"):
            # A failed write may have written some records, so the position is unknown until then.
            start, self._next = self._next or self._resume(plan, written), {}
            _check_rest(plan, left, start)
            share = max(1, self._wanted.step_records // sum(map(bool, left.values())))
            # The archive may have more records than the plan.
            until = {
                n: min(start[n] + share, plan.partitions[n].last_offset + 1)
                for n, missing in left.items()
                if missing
            }
            self._write(start, until)
            self._next = {**start, **until}
        done = min(plan.records, sum(written.values()) + share * len(until))
        return ReplayStep(done, plan.records - done)

    # -- with Spark ----------------------------------------------------------

    def _rows(self) -> "DataFrame":
        selection = self._wanted.selection
        files = selection.files(self._manifest)
        return self._read(self._spark, self._folder, files).where(selection.condition())

    def _plan(self, bounds: Mapping[int, Bounds], before: ReplayPlan | None) -> ReplayPlan:
        from pyspark.sql import functions as f

        if not self._wanted.selection.files(self._manifest):
            return ReplayPlan(self._wanted.target, {})
        rows = (
            self._rows()
            .where("true" if before is None else before.rest())
            .groupBy("partition")
            .agg(
                f.count(f.lit(1)),
                f.min("offset"),
                f.max("offset"),
                f.sum(checksum_column(offsets=False)),
            )
            .collect()
        )
        partitions = {
            number: PartitionPlan(records, first, last, checksum, bounds[number].end)
            for number, records, first, last, checksum in sorted(rows)
        }
        for number, each in before.partitions.items() if before is not None else ():
            # Nothing new: remember how far the partition was replayed.
            partitions.setdefault(number, each.nothing_after(bounds[number].end))
        return ReplayPlan(self._wanted.target, partitions)

    def _resume(self, plan: ReplayPlan, written: Mapping[int, int]) -> dict[int, int]:
        """The offset in the archive of the first unwritten record of each partition."""
        first = {number: each.first_offset for number, each in plan.partitions.items()}
        begun = {number: count for number, count in written.items() if count}
        if not begun:
            return first
        from pyspark.sql import functions as f
        from pyspark.sql.window import Window

        place = f.row_number().over(Window.partitionBy("partition").orderBy("offset"))
        wanted = " OR ".join(f"(partition = {n} AND place = {c})" for n, c in begun.items())
        last = self._rows().where(plan.condition()).withColumn("place", place).where(wanted)
        found = {row[0]: row[1] + 1 for row in last.select("partition", "offset").collect()}
        return {**first, **found}

    def _write(self, start: Mapping[int, int], until: Mapping[int, int]) -> None:
        """Write with one task per partition in offset order, so that a failure leaves a prefix."""
        ranges = " OR ".join(
            f"(partition = {number} AND offset >= {start[number]} AND offset < {end})"
            for number, end in until.items()
        )
        (
            self._rows()
            .where(ranges)
            .repartition(len(until), "partition")
            .sortWithinPartitions("partition", "offset")
            .select(*_WRITTEN)
            .write.format("barnabas")
            .options(**self._wanted.options)
            .option("topic", self._wanted.target)
            .mode("append")
            .save()
        )

    def _checksums(self, plan: ReplayPlan) -> dict[int, tuple[int, int]]:
        from pyspark.sql import functions as f

        ranges = [
            PartitionRange(
                TopicPartition(plan.target, n), each.base_offset, each.base_offset + each.records
            )
            for n, each in plan.partitions.items()
            if each.records
        ]
        if not ranges:
            return {}
        rows = (
            read_ranges(self._spark, self._wanted.options, ranges)
            .groupBy("partition")
            .agg(f.count(f.lit(1)), f.sum(checksum_column(offsets=False)))
            .collect()
        )
        return {number: (count, checksum) for number, count, checksum in rows}

    def _written(self, plan: ReplayPlan) -> dict[int, int]:
        return plan.written({number: bounds.end for number, bounds in self._bounds().items()})

    def _bounds(self) -> dict[int, Bounds]:
        return snapshot_topics(self._cluster, [self._wanted.target])[self._wanted.target].bounds


def _check_rest(plan: ReplayPlan, left: Mapping[int, int], start: Mapping[int, int]) -> None:
    for number, missing in left.items():
        if missing and start[number] > plan.partitions[number].last_offset:
            raise CommandFailed(
                f"{plan.target}-{number} lacks {missing} of the records written to it: it was"
                " truncated, or retention deleted them; replay to another topic"
            )
