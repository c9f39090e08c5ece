"""Copies records from one cluster to another, each once, in the order of each partition.

One task writes a partition, so whatever ends it leaves a beginning of what it was to write. How far
that goes, the end of the target's log tells: the next step begins there. What is done is noted
after each step, so there is little to find out.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.cli.client import Cluster
from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.archive.archive_manifest import Partition
from barnabas.spark.archive.archive_run import read_ranges
from barnabas.spark.archive.archive_source import Bounds, Range, TopicNow, cut, topics_now
from barnabas.spark.mirror.mirror_state import Lineage, MirrorState, Sync
from barnabas.spark.source.truncation_check import Taken, refuse_truncated
from barnabas.spark.spark_errors import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WRITTEN: Final = ("topic", "partition", "key", "value", "headers", "timestamp")


class Mirroring(NamedTuple):
    """What is copied, by its name there and here, and in which steps."""

    topics: Mapping[str, str]
    source: Mapping[str, str]  # options of the data source: where the brokers are
    target: Mapping[str, str]
    step_records: int = 1_000_000
    allow_gaps: bool = False


class Step(NamedTuple):
    """What one step copied, and how many offsets of the source were left after it."""

    records: int
    left: int


class Mirror:
    """Brings topics of one cluster up to date with those of another."""

    def __init__(
        self, source: Cluster, target: Cluster, state: MirrorState, wanted: Mirroring
    ) -> None:
        self._source = source
        self._target = target
        self._state = state
        self._wanted = wanted
        self._cluster_id = cluster_id(source)
        self._committed = {**wanted.source, "kafka.isolation.level": "read_committed"}

    def lineages(self) -> dict[str, Lineage]:
        """Which topic is copied to which, by the name in the source."""
        there, here = self._now()
        return self._lineages(there, here)

    def check(self) -> None:
        """Look at the topics of the target that are there already; nothing is changed.

        Raises  CommandFailed if one holds something else, or is a copy of another
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
                        " mirror has written; delete it, or give the copies other names with"
                        " --prefix"
                    )

    def begin(self) -> None:
        """Note where partitions begin of which nothing has been copied yet; all topics are there"""
        there, here = self._now()
        for source, lineage in self._lineages(there, here).items():
            starts = {
                number: Sync(
                    bounds.start, here[lineage.target].bounds[number].end, bounds.leader_epoch
                )
                for number, bounds in there[source].bounds.items()
                if not self._state.syncs(lineage, number)
            }
            if starts:
                self._state.write(lineage, starts)

    def step(self, spark: "SparkSession") -> Step | None:
        """Copy the next range of every topic; None if the target has all there is.

        Raises  CommandFailed; what is copied by then is a beginning of each partition
        """
        there, here = self._now()
        lineages = self._lineages(there, here)
        refuse_truncated(self._wanted.source, self._taken(lineages, there), "copied")
        with spark_failures("finding out what is copied already"):
            ranges = self._ranges(spark, lineages, there, here)
        if not ranges:
            return None
        chosen = cut(ranges, self._wanted.step_records)
        with spark_failures("mirroring"):
            records = self._copy(spark, chosen)
        copied = self._note(lineages, chosen, records, here)
        left = sum(each.size for each in ranges) - sum(each.size for each in chosen)
        return Step(copied, left)

    def count(self, spark: "SparkSession", topic: str, partition: int, start: int, end: int) -> int:
        """How many records of the source lie in [start, end): less where there are gaps."""
        options = {**self._committed, "failOnDataLoss": "false"}
        wanted = Range(Partition(topic, partition), start, end)
        with spark_failures("counting records"):
            return read_ranges(spark, options, [wanted]).count()

    def _now(
        self, copies: Collection[str] | None = None
    ) -> tuple[dict[str, TopicNow], dict[str, TopicNow]]:
        """The topics in both clusters, of all copies or of these."""
        chosen = self._wanted.topics.values() if copies is None else copies
        names = [name for name, copy in self._wanted.topics.items() if copy in chosen]
        return topics_now(self._source, names), topics_now(self._target, chosen)

    def _lineages(
        self, there: Mapping[str, TopicNow], here: Mapping[str, TopicNow]
    ) -> dict[str, Lineage]:
        return {
            source: Lineage(
                self._cluster_id, source, there[source].topic_id, target, here[target].topic_id
            )
            for source, target in self._wanted.topics.items()
            if target in here
        }

    def _taken(
        self, lineages: Mapping[str, Lineage], there: Mapping[str, TopicNow]
    ) -> dict[Partition, Taken]:
        return {
            Partition(source, number): Taken(sync.source, sync.leader_epoch)
            for source, lineage in lineages.items()
            for number in there[source].bounds
            for sync in self._state.syncs(lineage, number)[-1:]
        }

    def _ranges(
        self,
        spark: "SparkSession",
        lineages: Mapping[str, Lineage],
        there: Mapping[str, TopicNow],
        here: Mapping[str, TopicNow],
    ) -> list[Range]:
        ranges = []
        for source, lineage in lineages.items():
            for number, bounds in there[source].bounds.items():
                sync = self._state.syncs(lineage, number)[-1]
                written = here[lineage.target].bounds[number].end - sync.target
                partition = Partition(source, number)
                start = self._position(spark, partition, sync, written, bounds)
                ranges.append(self._range(partition, start, bounds))
        return [each for each in ranges if each.size]

    def _position(
        self, spark: "SparkSession", partition: Partition, sync: Sync, written: int, bounds: Bounds
    ) -> int:
        """The next offset to copy, when `written` records have been since it was last noted."""
        if written < 0:
            raise CommandFailed(
                f"the copy of {partition} ends {-written} records before what was copied: it was"
                " truncated, or made anew; delete it to begin again"
            )
        if written == 0:
            return sync.source
        if bounds.start > sync.source:
            raise CommandFailed(
                f"{partition}: the records from {sync.source} to {bounds.start} were deleted before"
                " it was noted how many of them are copied; delete the copy to begin again"
            )
        from pyspark.sql import functions as f

        rest = Range(partition, sync.source, bounds.end)
        copied = self._read(spark, [rest]).select("offset").orderBy("offset").limit(written)
        count, last = copied.agg(f.count("*"), f.max("offset")).collect()[0]
        if count < written:
            raise CommandFailed(
                f"the copy of {partition} has {written - count} records more than the source:"
                " somebody else has written to it"
            )
        return int(last) + 1

    def _range(self, partition: Partition, start: int, bounds: Bounds) -> Range:
        if bounds.end < start:
            raise CommandFailed(
                f"{partition} ends at offset {bounds.end}, but was copied up to {start}: it was"
                " truncated since, and the copy has what it has not any more"
            )
        if bounds.start > start and not self._wanted.allow_gaps:
            raise CommandFailed(
                f"{partition}: the records from {start} to {bounds.start} were deleted before they"
                " were copied; --allow-gaps goes on without them"
            )
        return Range(partition, max(start, bounds.start), bounds.end, bounds.leader_epoch)

    def _read(self, spark: "SparkSession", ranges: list[Range]) -> "DataFrame":
        return read_ranges(spark, self._committed, ranges)

    def _copy(self, spark: "SparkSession", ranges: list[Range]) -> int:
        """One task for each partition, in the order of offsets; tells how many were read."""
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

    def _note(
        self,
        lineages: Mapping[str, Lineage],
        ranges: list[Range],
        records: int,
        before: Mapping[str, TopicNow],
    ) -> int:
        """Note how far each partition is, if the target has exactly what was read."""
        after = topics_now(self._target, self._wanted.topics.values())
        grown = 0
        syncs: dict[str, dict[int, Sync]] = {}
        for each in ranges:
            topic, number = each.partition
            target = self._wanted.topics[topic]
            end = after[target].bounds[number].end
            grown += end - before[target].bounds[number].end
            syncs.setdefault(topic, {})[number] = Sync(each.end, end, each.leader_epoch)
        if grown != records:
            raise CommandFailed(
                f"{records} records were read, but the target has {grown} more: somebody else"
                " writes to it"
            )
        for topic, noted in syncs.items():
            self._state.write(lineages[topic], noted)
        return records


def cluster_id(cluster: Cluster) -> str:
    """The id that the cluster has for ever. Raises CommandFailed."""
    _, metadata = cluster.admin()
    return str(metadata.cluster_id)


def _conflict(before: Lineage, now: Lineage) -> str:
    if (before.cluster_id, before.source) == (now.cluster_id, now.source):
        return (
            f"topic {now.source} was deleted and made again since it was copied to {now.target};"
            " delete the copy too, or give the new one another name with --prefix"
        )
    return (
        f"topic {now.target} is the copy of {before.source} of cluster {before.cluster_id};"
        " give this one another name with --prefix"
    )
