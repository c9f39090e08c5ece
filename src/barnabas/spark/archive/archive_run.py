"""Topics to Parquet, each record exactly once: read a range, write it, check it, then commit it.

One step reads a range of offsets that the manifest does not have, has Spark write it beside the
archive, reads back what was written, moves the files to their places and replaces the manifest.
Only that last act counts: whatever ends the process before it leaves the archive as it was, and the
next run removes what was left lying about and reads the same range again.
"""

import json
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from barnabas.cli.client import Cluster
from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.archive.archive_checksum import checksum_column
from barnabas.spark.archive.archive_files import ArchiveFolder
from barnabas.spark.archive.archive_manifest import (
    ArchivedFile,
    ArchivedPartition,
    ArchivedTopic,
    Manifest,
    Part,
    Partition,
)
from barnabas.spark.archive.archive_source import Range, TopicNow, cut, decide_ranges, topics_now
from barnabas.spark.source.truncation_check import Taken, refuse_truncated
from barnabas.spark.spark_errors import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# As `format("barnabas")` has them; topic and day are the folders.
SCHEMA: Final = (
    "key BINARY, value BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP,"
    " timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>,"
    " topic STRING, day STRING"
)
_COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp", "timestampType", "headers")
# The UTC day, whatever time zone the session has.
_DAY: Final = "string(date_from_unix_date(int(floor(unix_millis(timestamp) / 86400000))))"
RECORDS_IN_A_FILE: Final = 1_000_000
# What an aborted transaction wrote is left out, unless the user says otherwise.
_COMMITTED: Final = {"kafka.isolation.level": "read_committed"}


class Archiving(NamedTuple):
    """What to archive, and in which steps."""

    topics: Sequence[str]
    options: Mapping[str, str]  # of the data source: where the brokers are
    step_records: int = 2 * RECORDS_IN_A_FILE
    allow_gaps: bool = False


class Step(NamedTuple):
    """What one step added, and how many offsets were left to do after it."""

    records: int
    left: int


class Archiver:
    """Brings one archive up to date with its topics; `manifest` is the archive as it is now."""

    def __init__(self, cluster: Cluster, folder: ArchiveFolder, wanted: Archiving) -> None:
        self._cluster = cluster
        self._folder = folder
        self._wanted = wanted
        self.manifest = folder.load()

    def behind(self) -> tuple[dict[str, TopicNow], list[Range]]:
        """The topics as they are now, and what of them is not archived.

        Raises  CommandFailed if topics are missing, or are not those that were archived
        """
        now = topics_now(self._cluster, self._wanted.topics)
        ranges = decide_ranges(self.manifest, now, allow_gaps=self._wanted.allow_gaps)
        refuse_truncated(self._wanted.options, self._taken(), "archived")
        return now, ranges

    def _taken(self) -> dict[Partition, Taken]:
        return {
            Partition(name, number): Taken(each.end, each.leader_epoch)
            for name, topic in self.manifest.topics.items()
            if name in self._wanted.topics
            for number, each in topic.partitions.items()
        }

    def step(self, spark: "SparkSession") -> Step | None:
        """Archive the next range of every topic; None if the archive has all there is.

        Raises  CommandFailed, the archive as before, if it cannot be done
        """
        now, ranges = self.behind()
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
        return Step(sum(file.records for file in files), left)

    def _commit(
        self, now: Mapping[str, TopicNow], ranges: Sequence[Range], files: Sequence[ArchivedFile]
    ) -> None:
        topics = dict(self.manifest.topics)
        for name, topic in now.items():
            before = topics.get(name)
            partitions = dict(before.partitions) if before is not None else {}
            for each in ranges:
                if each.partition.topic == name:
                    grown = partitions.get(each.partition.number) or ArchivedPartition(
                        each.start, each.start
                    )
                    partitions[each.partition.number] = grown.after(
                        each.start, each.end, _parts(files, each), each.leader_epoch
                    )
            topics[name] = ArchivedTopic(topic.topic_id, len(topic.bounds), partitions)
        manifest = Manifest(self.manifest.sequence + 1, topics, (*self.manifest.files, *files))
        self._folder.commit(manifest)
        self.manifest = manifest


def _parts(files: Iterable[ArchivedFile], wanted: Range) -> list[Part]:
    return [
        part
        for file in files
        if file.topic == wanted.partition.topic
        for part in file.parts
        if part.partition == wanted.partition.number
    ]


def write_checked(
    spark: "SparkSession",
    folder: ArchiveFolder,
    rows: "DataFrame",
    sequence: int,
    size: int,
) -> list[ArchivedFile]:
    """Write about `size` rows as files that no manifest names yet, and see that they are there.

    Raises  CommandFailed if what the files hold is not what was read
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    # With INT96, the default, files would have no statistics of times.
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
            f"{folder}: {observed[0]} records were read, the files have {written[0]}, or others;"
            " nothing was archived, and the same command tries again"
        )
    return files


def _contents(spark: "SparkSession", folder: ArchiveFolder) -> dict[str, list[Part]]:
    """What each staged file holds, read back from it."""
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
    folder: ArchiveFolder, sequence: int, contents: Mapping[str, Sequence[Part]]
) -> list[ArchivedFile]:
    """Move the staged files to where they belong, under names that say which step wrote them."""
    files = []
    for position, (staged, size) in enumerate(folder.staged()):
        where = posixpath.dirname(staged)
        topic, day = (each.partition("=")[2] for each in where.split("/"))
        path = f"{where}/{sequence:08}-{position:04}.parquet"
        folder.take(staged, path)
        files.append(ArchivedFile(path, topic, day, size, tuple(contents[staged])))
    folder.clear_staging()
    return files


def read_files(
    spark: "SparkSession", folder: ArchiveFolder, files: Iterable[ArchivedFile]
) -> "DataFrame":
    """The records in these files of an archive, with topic and day."""
    paths = [folder.uri_of(file.path) for file in files]
    reader = spark.read.schema(SCHEMA).option("basePath", folder.uri)
    return reader.parquet(*paths)


def read_ranges(
    spark: "SparkSession", options: Mapping[str, str], ranges: Iterable[Range]
) -> "DataFrame":
    """The records of a cluster in these ranges of offsets, with their headers."""
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for each in ranges:
        topic, number = each.partition.topic, str(each.partition.number)
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
