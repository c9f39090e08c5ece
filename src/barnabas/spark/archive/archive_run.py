"""The archiver: topics to Parquet, each record exactly once.

A step reads a range of offsets that the manifest does not have, writes it to the staging directory,
reads it back, moves the files to their places and replaces the manifest. Only replacing the
manifest commits the step. If the process dies before that, the archive is unchanged: the next run
deletes the leftover files and reads the same range again.
"""

import json
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from barnabas.base.ids import TopicPartition
from barnabas.cli.client import ClusterClients
from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.archive.archive_checksum import checksum_column
from barnabas.spark.archive.archive_files import ArchiveDirectory
from barnabas.spark.archive.archive_manifest import (
    ArchivedFile,
    ArchivedPartition,
    ArchivedTopic,
    Manifest,
    Part,
)
from barnabas.spark.archive.archive_source import (
    PartitionRange,
    TopicSnapshot,
    cut,
    decide_ranges,
    snapshot_topics,
)
from barnabas.spark.source.truncation_check import ReadUpTo, check_not_truncated
from barnabas.spark.spark_errors import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The columns of `format("barnabas")`; topic and day are directories.
SCHEMA: Final = (
    "key BINARY, value BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP,"
    " timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>,"
    " topic STRING, day STRING"
)
_COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp", "timestampType", "headers")
# The UTC day, in every session time zone.
_DAY: Final = "string(date_from_unix_date(int(floor(unix_millis(timestamp) / 86400000))))"
RECORDS_IN_A_FILE: Final = 1_000_000
# Records of aborted transactions are skipped, unless the user sets another isolation level.
_COMMITTED: Final = {"kafka.isolation.level": "read_committed"}


class ArchiveSpec(NamedTuple):
    """The topics to archive, and the size of a step."""

    topics: Sequence[str]
    options: Mapping[str, str]  # of the data source
    step_records: int = 2 * RECORDS_IN_A_FILE
    allow_gaps: bool = False


class ArchiveStep(NamedTuple):
    """The records that a step added, and the offsets that are left after it."""

    records: int
    left: int


class Archiver:
    """Brings an archive up to date with its topics; `manifest` is its current content."""

    def __init__(
        self, cluster: ClusterClients, folder: ArchiveDirectory, wanted: ArchiveSpec
    ) -> None:
        self._cluster = cluster
        self._folder = folder
        self._wanted = wanted
        self.manifest = folder.load()

    def unarchived(self) -> tuple[dict[str, TopicSnapshot], list[PartitionRange]]:
        """Return the topics as they are now, and the ranges that are not archived.

        Raises  CommandFailed if topics are missing, or were recreated or truncated
        """
        now = snapshot_topics(self._cluster, self._wanted.topics)
        ranges = decide_ranges(self.manifest, now, allow_gaps=self._wanted.allow_gaps)
        check_not_truncated(self._wanted.options, self._read_up_to(), "archived")
        return now, ranges

    def _read_up_to(self) -> dict[TopicPartition, ReadUpTo]:
        return {
            TopicPartition(name, number): ReadUpTo(each.end, each.leader_epoch)
            for name, topic in self.manifest.topics.items()
            if name in self._wanted.topics
            for number, each in topic.partitions.items()
        }

    def step(self, spark: "SparkSession") -> ArchiveStep | None:
        """Archive the next range of every topic; return None if the archive is up to date.

        Raises  CommandFailed; the archive is unchanged then
        """
        now, ranges = self.unarchived()
        if not ranges:
            return None
        chosen = cut(ranges, self._wanted.step_records)
        with spark_failures("archiving"):
            files = write_checked(
                spark,
                self._folder,
                read_ranges(spark, {**_COMMITTED, **self._wanted.options}, chosen),
                self.manifest.sequence + 1,
                sum(each.size for each in chosen),
            )
        self._commit(now, chosen, files)
        left = sum(each.size for each in ranges) - sum(each.size for each in chosen)
        return ArchiveStep(sum(file.records for file in files), left)

    def _commit(
        self,
        now: Mapping[str, TopicSnapshot],
        ranges: Sequence[PartitionRange],
        files: Sequence[ArchivedFile],
    ) -> None:
        topics = dict(self.manifest.topics)
        for name, topic in now.items():
            before = topics.get(name)
            partitions = dict(before.partitions) if before is not None else {}
            for each in ranges:
                if each.partition.topic == name:
                    grown = partitions.get(each.partition.partition) or ArchivedPartition(
                        each.start, each.start
                    )
                    partitions[each.partition.partition] = grown.after(
                        each.start, each.end, _parts(files, each), each.leader_epoch
                    )
            topics[name] = ArchivedTopic(topic.topic_id, len(topic.bounds), partitions)
        manifest = Manifest(self.manifest.sequence + 1, topics, (*self.manifest.files, *files))
        self._folder.commit(manifest)
        self.manifest = manifest


def _parts(files: Iterable[ArchivedFile], wanted: PartitionRange) -> list[Part]:
    return [
        part
        for file in files
        if file.topic == wanted.partition.topic
        for part in file.parts
        if part.partition == wanted.partition.partition
    ]


def write_checked(
    spark: "SparkSession",
    folder: ArchiveDirectory,
    rows: "DataFrame",
    sequence: int,
    size: int,
) -> list[ArchivedFile]:
    """Write about `size` rows as files that no manifest lists yet, and read them back.

    Raises  CommandFailed if the files do not contain the records that were read
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    # INT96, the default, would leave the files without statistics of timestamps.
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    folder.clear_staging()
    seen = Observation(f"archive-{sequence}")
    (
        rows.withColumn("day", f.expr(_DAY))
        .select(*_COLUMNS, "topic", "day")
        .coalesce(max(1, -(-size // RECORDS_IN_A_FILE)))
        .sortWithinPartitions("topic", "day", "partition", "offset")
        .observe(seen, f.count(f.lit(1)).alias("records"), f.sum(checksum_column()).alias("sum"))
        .write.partitionBy("topic", "day")
        .option("maxRecordsPerFile", RECORDS_IN_A_FILE)
        .option("compression", "zstd")
        .parquet(folder.staging_uri)
    )
    files = _placed(folder, sequence, _contents(spark, folder))
    observed = (int(seen.get["records"] or 0), int(seen.get["sum"] or 0))
    written = (
        sum(file.records for file in files),
        sum(part.checksum for file in files for part in file.parts),
    )
    if observed != written:
        raise CommandFailed(
            f"{folder}: the {written[0]} records in the new files are not the {observed[0]} records"
            " that were read; nothing was archived, run the command again"
        )
    return files


def _contents(spark: "SparkSession", folder: ArchiveDirectory) -> dict[str, list[Part]]:
    """The parts of each staged file, read back from it."""
    from pyspark.sql import functions as f

    if not folder.staged():
        return {}
    rows = (
        spark.read.schema(SCHEMA)
        .parquet(folder.staging_uri)
        .groupBy(f.col("_metadata.file_path").alias("file"), "partition")
        .agg(
            f.count(f.lit(1)),
            f.min("offset"),
            f.max("offset"),
            f.expr("unix_millis(min(timestamp))"),
            f.expr("unix_millis(max(timestamp))"),
            f.sum(checksum_column()),
        )
        .collect()
    )
    contents: dict[str, list[Part]] = {}
    for file, *part in sorted(rows, key=lambda row: (row[0], row[1])):
        path = unquote(file).partition(f"{posixpath.basename(folder.staging_uri)}/")[2]
        contents.setdefault(path, []).append(Part(*part))
    return contents


def _placed(
    folder: ArchiveDirectory, sequence: int, contents: Mapping[str, Sequence[Part]]
) -> list[ArchivedFile]:
    """Move the staged files to their places, under names that contain the step."""
    files = []
    for position, (staged, size) in enumerate(folder.staged()):
        where = posixpath.dirname(staged)
        topic, day = (each.partition("=")[2] for each in where.split("/"))
        path = f"{where}/{sequence:08}-{position:04}.parquet"
        folder.move_staged(staged, path)
        files.append(ArchivedFile(path, topic, day, size, tuple(contents[staged])))
    folder.clear_staging()
    return files


def read_files(
    spark: "SparkSession", folder: ArchiveDirectory, files: Iterable[ArchivedFile]
) -> "DataFrame":
    """The records in these files of an archive, with the columns topic and day."""
    paths = [folder.uri_of(file.path) for file in files]
    reader = spark.read.schema(SCHEMA).option("basePath", folder.uri)
    return reader.parquet(*paths)


def read_ranges(
    spark: "SparkSession", options: Mapping[str, str], ranges: Iterable[PartitionRange]
) -> "DataFrame":
    """The records of a cluster in these ranges of offsets, with headers."""
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for each in ranges:
        topic, number = each.partition.topic, str(each.partition.partition)
        starts.setdefault(topic, {})[number] = each.start
        ends.setdefault(topic, {})[number] = each.end
    assigned = {topic: sorted(map(int, offsets)) for topic, offsets in starts.items()}
    return (
        spark.read.format("barnabas")
        .options(**options)
        .option("assign", json.dumps(assigned))
        .option("startingOffsets", json.dumps(starts))
        .option("endingOffsets", json.dumps(ends))
        .option("includeHeaders", "true")
        .load()
    )
