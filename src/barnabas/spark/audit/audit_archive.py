"""The audit of an archive: against its own manifest, and against the log."""

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.base.errors import BrokerError
from barnabas.base.ids import TopicPartition
from barnabas.cli.log.segment_dump import SegmentBatch, read_batches
from barnabas.spark.audit.audit_files import ReplicaFiles, SegmentFile
from barnabas.spark.audit.audit_findings import AuditCheck, AuditFinding, AuditResult, by_partition
from barnabas.spark.audit.audit_scan import SEGMENTS, spread
from barnabas.spark.source.record_decoder import LEAST_LONG, MOST_LONG, Columns
from barnabas.spark.user_errors import SparkFailure
from barnabas.wire.records.batch import HEADER_SIZE, check_crc
from barnabas.wire.records.compression import decompress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from barnabas.spark.archive.archive_files import ArchiveDirectory
    from barnabas.spark.archive.archive_manifest import ArchivedPartition, ArchivedTopic

_RECORDS: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP,"
    " timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
_RANGES: Final = "topic STRING, partition INT, from_offset LONG, to_offset LONG"
_PLACE: Final = ("topic", "partition")
# Checksums are compared by blocks of this many offsets, so a difference is located to a block.
_BLOCK: Final = 1_000
_ARROW_BYTES: Final = 8 * 1024 * 1024


class Overlap(NamedTuple):
    """The offsets [start, end) that both the log and the archive must have."""

    replica: ReplicaFiles
    start: int
    end: int


def audit_archive(spark: "SparkSession", folder: "ArchiveDirectory", audited: AuditResult) -> None:
    """Append everything wrong with the archive to the findings.

    Raises  CommandFailed if there is no archive, or its files cannot be read
    """
    from barnabas.spark.archive.archive_run import SCHEMA, read_files

    manifest = folder.load(must_exist=True)
    partitions = by_partition(audited.replicas)
    topics = {name: manifest.topics[name] for name in _names(partitions) if name in manifest.topics}
    files = [file for file in manifest.files if file.topic in topics]
    overlaps = {}
    for partition, replicas in partitions.items():
        if (archived := _archived(topics, partition)) is not None:
            longest = max(replicas, key=lambda each: audited.totals_of(each).end)
            audited.findings += _conflicts(topics[partition.topic], archived, longest, audited)
            overlaps[partition] = _overlap(archived, longest, audited)
    if not overlaps:
        audited.notes.append(f"{folder} has no records of these topics")
        return
    records = read_files(spark, folder, files) if files else spark.createDataFrame([], SCHEMA)
    audited.findings += _against_manifest(records, topics, overlaps)
    audited.findings += _against_log(spark, records, overlaps, audited)


def _names(partitions: Iterable[TopicPartition]) -> list[str]:
    return sorted({partition.topic for partition in partitions})


def _archived(
    topics: "Mapping[str, ArchivedTopic]", partition: TopicPartition
) -> "ArchivedPartition | None":
    topic = topics.get(partition.topic)
    return None if topic is None else topic.partitions.get(partition.partition)


def _conflicts(
    topic: "ArchivedTopic",
    archived: "ArchivedPartition",
    replica: ReplicaFiles,
    audited: AuditResult,
) -> Iterator[AuditFinding]:
    """Findings about a manifest that contradicts the log."""
    end = audited.totals_of(replica).end
    if replica.topic_id is not None and topic.topic_id != replica.topic_id:
        what = f"the archive is of a topic with another id: {topic.topic_id}"
        yield AuditFinding(AuditCheck.ARCHIVE, replica.partition, replica.broker, None, what)
    elif archived.end > end:
        what = f"archived up to offset {archived.end}, but all replicas end at {end} or before"
        yield AuditFinding(AuditCheck.ARCHIVE, replica.partition, replica.broker, end, what)


def _overlap(archived: "ArchivedPartition", replica: ReplicaFiles, audited: AuditResult) -> Overlap:
    start = max(archived.start, replica.first_offset, replica.cleaned_to)
    end = min(archived.end, audited.totals_of(replica).end)
    return Overlap(replica, start, max(start, end))


def _against_manifest(
    records: "DataFrame",
    topics: "Mapping[str, ArchivedTopic]",
    overlaps: Mapping[TopicPartition, Overlap],
) -> Iterator[AuditFinding]:
    from pyspark.sql import functions as f

    from barnabas.spark.archive.archive_checksum import checksum_column

    summed = records.groupBy(*_PLACE).agg(f.count("*"), f.sum(checksum_column()))
    found = {TopicPartition(row[0], row[1]): (row[2], row[3]) for row in summed.collect()}
    for partition, overlap in overlaps.items():
        archived = _archived(topics, partition)
        assert archived is not None
        records_found, checksum = found.get(partition, (0, 0))
        if (records_found, checksum) != (archived.records, archived.checksum):
            what = (
                f"the archive has {records_found:,} records with checksum {checksum}, but its"
                f" manifest has {archived.records:,} with {archived.checksum}"
            )
            yield AuditFinding(AuditCheck.ARCHIVE, partition, overlap.replica.broker, None, what)


def _against_log(
    spark: "SparkSession",
    records: "DataFrame",
    overlaps: Mapping[TopicPartition, Overlap],
    audited: AuditResult,
) -> Iterator[AuditFinding]:
    from pyspark.sql import functions as f

    rows = [(*partition, each.start, each.end) for partition, each in overlaps.items()]
    wanted = f.broadcast(spark.createDataFrame(rows, _RANGES))
    segments = [segment for each in overlaps.values() for segment in each.replica.segments]
    logged = spread(spark.createDataFrame(segments, SEGMENTS), len(segments)).mapInArrow(
        records_of, _RECORDS
    )
    place = [*_PLACE, "first"]
    compared = _summed(logged, wanted, "log").join(
        _summed(records, wanted, "archive"), place, "full_outer"
    )
    equal = f.expr("log <=> archive")
    found = (
        compared.groupBy(*_PLACE)
        .agg(
            f.count_if(~equal).alias("places"),
            f.sum(f.when(equal, f.col("log.records")).otherwise(0)).alias("equal"),
            f.min(f.when(~equal, f.col("first"))).alias("first"),
            f.min_by("log", f.when(~equal, f.col("first"))).alias("log"),
            f.min_by("archive", f.when(~equal, f.col("first"))).alias("archive"),
        )
        .orderBy(*_PLACE)
        .collect()
    )
    for row in found:
        partition = TopicPartition(row.topic, row.partition)
        audited.archived[partition] = row.equal
        if row.places:
            what = (
                f"offsets {row['first']} to {row['first'] + _BLOCK - 1}: the log has"
                f" {_describe(row.log)}, the archive {_describe(row.archive)}"
            )
            broker = overlaps[partition].replica.broker
            yield AuditFinding(
                AuditCheck.ARCHIVE, partition, broker, row["first"], what, row.places
            )


def _summed(records: "DataFrame", wanted: "DataFrame", name: str) -> "DataFrame":
    """The record count and checksum of each block, as one column of this name."""
    from pyspark.sql import functions as f

    from barnabas.spark.archive.archive_checksum import checksum_column

    first = (f.floor(f.col("offset") / _BLOCK) * _BLOCK).cast("long").alias("first")
    return (
        records.join(wanted, [*_PLACE])
        .where("offset >= from_offset AND offset < to_offset")
        .withColumn("checksum", checksum_column())
        .groupBy(*_PLACE, first)
        .agg(f.struct(f.count("*").alias("records"), f.sum("checksum").alias("sum")).alias(name))
    )


def _describe(summed: Any) -> str:
    if summed is None:
        return "no records"
    return f"{summed.records:,} records with checksum {summed.sum}"


def records_of(segments: Iterator[Any]) -> Iterator[Any]:
    """The work of a task: decode the records of its segments into Arrow batches.

    A batch with a wrong CRC is skipped; the scan of the batches has reported it.
    Raises  SparkFailure if a batch with a correct CRC cannot be decoded
    """
    arrow: Any = import_module("pyarrow")
    schema = _arrow_schema(arrow)
    for some in segments:
        for fields in some.to_pylist():
            yield from _decoded(SegmentFile(**fields), schema)


def _decoded(segment: SegmentFile, schema: Any) -> Iterator[Any]:
    from barnabas.spark.source.arrow_columns import ArrowBatches

    batches = ArrowBatches(schema, segment.topic, segment.partition)
    columns = Columns(0, MOST_LONG, LEAST_LONG, MOST_LONG, headers=True)
    with open(segment.path, "rb") as file:
        for found in read_batches(file, segment.size):
            if (
                isinstance(found, SegmentBatch)
                and not found.header.is_control
                and check_crc(found.data)
            ):
                _append(columns, found, segment.path)
                if columns.size > _ARROW_BYTES:
                    yield batches.batch(columns.take())
    if columns.rows:
        yield batches.batch(columns.take())


def _append(columns: Columns, batch: SegmentBatch, path: str) -> None:
    header, payload = batch.header, memoryview(batch.data)[HEADER_SIZE:]
    is_append_time = header.log_append_time
    time = header.max_timestamp if is_append_time else header.base_timestamp
    try:
        content = decompress(header.codec, payload) if header.codec else payload
        columns.append(content, header.base_offset, time, is_append_time, header.record_count)
    except (ValueError, BrokerError) as failure:
        raise SparkFailure(
            f"{path}: the batch at offset {header.base_offset} cannot be decoded: {failure}"
        ) from None


def _arrow_schema(arrow: Any) -> Any:
    header = arrow.struct([("key", arrow.string()), ("value", arrow.binary())])
    return arrow.schema(
        [
            ("key", arrow.binary()),
            ("value", arrow.binary()),
            ("topic", arrow.string()),
            ("partition", arrow.int32()),
            ("offset", arrow.int64()),
            ("timestamp", arrow.timestamp("us", tz="UTC")),
            ("timestampType", arrow.int32()),
            ("headers", arrow.list_(header)),
        ]
    )
