"""The mirror: copies records to another cluster, each once, in the order of its partition.

One task writes a partition in order, so a failure leaves a prefix of its records. The end of the
target's log gives the length of that prefix, and the next step starts there. Progress is stored
after each step, so only the last step ever has to be counted.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.base.ids import TopicPartition
from barnabas.cli.client import ClusterClients
from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.archive.archive_run import read_ranges
from barnabas.spark.archive.archive_source import (
    Bounds,
    PartitionRange,
    TopicSnapshot,
    cut,
    snapshot_topics,
)
from barnabas.spark.mirror.mirror_state import Lineage, MirrorState, OffsetSync
from barnabas.spark.source.truncation_check import ReadUpTo, check_not_truncated
from barnabas.spark.spark_errors import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WRITTEN: Final = ("topic", "partition", "key", "value", "headers", "timestamp")


class MirrorSpec(NamedTuple):
    """The target name of each source topic, and the size of a step."""

    topics: Mapping[str, str]
    source: Mapping[str, str]  # options of the data source
    target: Mapping[str, str]
    step_records: int = 1_000_000
    allow_gaps: bool = False


class MirrorStep(NamedTuple):
    """The records that a step copied, and the source offsets that are left after it."""

    records: int
    left: int


class Mirror:
    """Brings topics of the target cluster up to date with those of the source cluster."""

    def __init__(
        self, source: ClusterClients, target: ClusterClients, state: MirrorState, wanted: MirrorSpec
    ) -> None:
        self._source = source
        self._target = target
        self._state = state
        self._wanted = wanted
        self._cluster_id = cluster_id(source)
        self._committed = {**wanted.source, "kafka.isolation.level": "read_committed"}

    def lineages(self) -> dict[str, Lineage]:
        """The lineage of each topic, by its name in the source."""
        there, here = self._now()
        return self._lineages(there, here)

    def check(self) -> None:
        """Check the existing topics of the target, without changing them.

        Raises  CommandFailed if one has other records, or is a copy of another topic
        """
        _, metadata = self._target.admin()
        there, here = self._now([t for t in self._wanted.topics.values() if t in metadata.topics])
        for lineage in self._lineages(there, here).values():
            before = self._state.copied_from(lineage.target, lineage.target_id)
            if before is not None and before != lineage:
                raise CommandFailed(_conflict(before, lineage))
            for number, bounds in here[lineage.target].bounds.items():
                if bounds.start < bounds.end and not self._state.syncs(lineage, number):
                    raise CommandFailed(
                        f"topic {lineage.target} on {self._target.bootstrap} has records that no"
                        " mirror wrote; delete it, or rename the copies with --prefix"
                    )

    def begin(self) -> None:
        """Store the starting offsets of new partitions. All target topics must exist."""
        there, here = self._now()
        for source, lineage in self._lineages(there, here).items():
            starts = {
                number: OffsetSync(
                    bounds.start, here[lineage.target].bounds[number].end, bounds.leader_epoch
                )
                for number, bounds in there[source].bounds.items()
                if not self._state.syncs(lineage, number)
            }
            if starts:
                self._state.write(lineage, starts)

    def step(self, spark: "SparkSession") -> MirrorStep | None:
        """Copy the next range of every topic; return None if the target is up to date.

        Raises  CommandFailed; a prefix of each partition is copied then
        """
        there, here = self._now()
        lineages = self._lineages(there, here)
        check_not_truncated(self._wanted.source, self._read_up_to(lineages, there), "copied")
        with spark_failures("counting copied records"):
            ranges = self._ranges(spark, lineages, there, here)
        if not ranges:
            return None
        chosen = cut(ranges, self._wanted.step_records)
        with spark_failures("mirroring"):
            records = self._copy(spark, chosen)
        copied = self._store(lineages, chosen, records, here)
        left = sum(each.size for each in ranges) - sum(each.size for each in chosen)
        return MirrorStep(copied, left)

    def count(self, spark: "SparkSession", topic: str, partition: int, start: int, end: int) -> int:
        """The number of source records in [start, end), which may have gaps."""
        options = {**self._committed, "failOnDataLoss": "false"}
        wanted = PartitionRange(TopicPartition(topic, partition), start, end)
        with spark_failures("counting records"):
            return read_ranges(spark, options, [wanted]).count()

    def _now(
        self, copies: Collection[str] | None = None
    ) -> tuple[dict[str, TopicSnapshot], dict[str, TopicSnapshot]]:
        """The topics in both clusters, for all copies or for these."""
        chosen = self._wanted.topics.values() if copies is None else copies
        names = [name for name, copy in self._wanted.topics.items() if copy in chosen]
        return snapshot_topics(self._source, names), snapshot_topics(self._target, chosen)

    def _lineages(
        self, there: Mapping[str, TopicSnapshot], here: Mapping[str, TopicSnapshot]
    ) -> dict[str, Lineage]:
        return {
            source: Lineage(
                self._cluster_id, source, there[source].topic_id, target, here[target].topic_id
            )
            for source, target in self._wanted.topics.items()
            if target in here
        }

    def _read_up_to(
        self, lineages: Mapping[str, Lineage], there: Mapping[str, TopicSnapshot]
    ) -> dict[TopicPartition, ReadUpTo]:
        return {
            TopicPartition(source, number): ReadUpTo(sync.source, sync.leader_epoch)
            for source, lineage in lineages.items()
            for number in there[source].bounds
            for sync in self._state.syncs(lineage, number)[-1:]
        }

    def _ranges(
        self,
        spark: "SparkSession",
        lineages: Mapping[str, Lineage],
        there: Mapping[str, TopicSnapshot],
        here: Mapping[str, TopicSnapshot],
    ) -> list[PartitionRange]:
        ranges = []
        for source, lineage in lineages.items():
            for number, bounds in there[source].bounds.items():
                sync = self._state.syncs(lineage, number)[-1]
                written = here[lineage.target].bounds[number].end - sync.target
                partition = TopicPartition(source, number)
                start = self._position(spark, partition, sync, written, bounds)
                ranges.append(self._range(partition, start, bounds))
        return [each for each in ranges if each.size]

    def _position(
        self,
        spark: "SparkSession",
        partition: TopicPartition,
        sync: OffsetSync,
        written: int,
        bounds: Bounds,
    ) -> int:
        """The next offset to copy, if `written` records were copied since the last stored one."""
        if written < 0:
            raise CommandFailed(
                f"the copy of {partition} lacks its last {-written} records: it was truncated or"
                " recreated; delete the copy to start over"
            )
        if written == 0:
            return sync.source
        if bounds.start > sync.source:
            raise CommandFailed(
                f"{partition}: the records from {sync.source} to {bounds.start} were deleted before"
                " the mirror stored how many it had copied; delete the copy to start over"
            )
        from pyspark.sql import functions as f

        rest = PartitionRange(partition, sync.source, bounds.end)
        copied = self._read(spark, [rest]).select("offset").orderBy("offset").limit(written)
        count, last = copied.agg(f.count("*"), f.max("offset")).collect()[0]
        if count < written:
            raise CommandFailed(
                f"the copy of {partition} has {written - count} more records than the source:"
                " another producer has written to it"
            )
        return int(last) + 1

    def _range(self, partition: TopicPartition, start: int, bounds: Bounds) -> PartitionRange:
        if bounds.end < start:
            raise CommandFailed(
                f"{partition} ends at offset {bounds.end} but was copied up to {start}: it was"
                f" truncated since, and no longer has the copied records from {bounds.end} on"
            )
        if bounds.start > start and not self._wanted.allow_gaps:
            raise CommandFailed(
                f"{partition}: the records from {start} to {bounds.start} were deleted before they"
                " were copied; --allow-gaps continues without them"
            )
        return PartitionRange(partition, max(start, bounds.start), bounds.end, bounds.leader_epoch)

    def _read(self, spark: "SparkSession", ranges: list[PartitionRange]) -> "DataFrame":
        return read_ranges(spark, self._committed, ranges)

    def _copy(self, spark: "SparkSession", ranges: list[PartitionRange]) -> int:
        """Copy with one task per partition, in offset order; return the number of records read."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        seen = Observation()
        names = f.create_map(
            *(f.lit(name) for pair in self._wanted.topics.items() for name in pair)
        )
        (
            self._read(spark, ranges)
            .repartition(len(ranges), "topic", "partition")
            .sortWithinPartitions("topic", "partition", "offset")
            .withColumn("topic", names[f.col("topic")])
            .select(*_WRITTEN)
            .observe(seen, f.count(f.lit(1)).alias("records"))
            .write.format("barnabas")
            .options(**self._wanted.target)
            .mode("append")
            .save()
        )
        return int(seen.get["records"] or 0)

    def _store(
        self,
        lineages: Mapping[str, Lineage],
        ranges: list[PartitionRange],
        records: int,
        before: Mapping[str, TopicSnapshot],
    ) -> int:
        """Store the progress of each partition, if the target has exactly the records read."""
        after = snapshot_topics(self._target, self._wanted.topics.values())
        grown = 0
        syncs: dict[str, dict[int, OffsetSync]] = {}
        for each in ranges:
            topic, number = each.partition
            target = self._wanted.topics[topic]
            end = after[target].bounds[number].end
            grown += end - before[target].bounds[number].end
            syncs.setdefault(topic, {})[number] = OffsetSync(each.end, end, each.leader_epoch)
        if grown != records:
            raise CommandFailed(
                f"{records} records were copied, but the target has grown by {grown}: another"
                " producer writes to it"
            )
        for topic, partitions in syncs.items():
            self._state.write(lineages[topic], partitions)
        return records


def cluster_id(cluster: ClusterClients) -> str:
    """The cluster's permanent id. Raises CommandFailed."""
    _, metadata = cluster.admin()
    return str(metadata.cluster_id)


def _conflict(before: Lineage, now: Lineage) -> str:
    if (before.cluster_id, before.source) == (now.cluster_id, now.source):
        return (
            f"topic {now.source} was deleted and recreated since it was copied to {now.target};"
            " delete the copy too, or give the new copy another name with --prefix"
        )
    return (
        f"topic {now.target} is the copy of {before.source} of cluster {before.cluster_id};"
        " give this copy another name with --prefix"
    )
