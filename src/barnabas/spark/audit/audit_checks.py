"""The checks of an audit: Spark queries over one row per batch of every replica."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.base.ids import TopicPartition
from barnabas.log.leader_epochs import LeaderEpochs
from barnabas.spark.audit.audit_files import ReplicaFiles
from barnabas.spark.audit.audit_findings import (
    AuditCheck,
    AuditFinding,
    AuditResult,
    ComparedRange,
    Key,
    ReplicaTotals,
    key_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_KEY: Final = ("broker", "topic", "partition")
_RANGES: Final = (
    "broker INT, topic STRING, partition INT, reference INT, from_offset LONG, to_offset LONG"
)
_PLOTTED_MOMENTS: Final = 120


class _OrderCheck(NamedTuple):
    """A condition that no batch may meet; `other` is the column to report."""

    kind: AuditCheck
    condition: str
    other: str
    what: str


_ORDER: Final = (
    _OrderCheck(
        AuditCheck.OFFSETS,
        "base_offset > greatest(expected, cleaned_to)",
        "expected",
        "offset %d where %d is expected: offsets are missing",
    ),
    _OrderCheck(
        AuditCheck.OFFSETS,
        "base_offset < expected",
        "expected",
        "offset %d where %d is expected: offsets are duplicated",
    ),
    _OrderCheck(
        AuditCheck.EPOCHS,
        "epoch < before",
        "before",
        "the batch at offset %d has a lower leader epoch than %d, which is before it",
    ),
)


def sum_up(batches: "DataFrame") -> dict[Key, ReplicaTotals]:
    from pyspark.sql import functions as f

    rows = (
        batches.where("problem IS NULL")
        .groupBy(*_KEY)
        .agg(
            f.count("*"),
            f.sum("records"),
            f.sum("size"),
            f.min("base_offset"),
            f.max("last_offset") + 1,
            f.max("epoch"),
            f.coalesce(f.min(f.expr("if(timestamp >= 0, timestamp, null)")), f.lit(-1)),
            f.max("timestamp"),
        )
        .collect()
    )
    return {_key(row): ReplicaTotals(*row[3:]) for row in rows}


def damaged(batches: "DataFrame") -> Iterator[AuditFinding]:
    """Bytes that are not a batch, and batches with a wrong CRC."""
    from pyspark.sql import functions as f

    wrong = batches.where("problem IS NOT NULL OR NOT intact").withColumn(
        "what",
        f.when(
            f.isnull("problem"),
            f.format_string("the CRC of the batch at offset %d is wrong", "base_offset"),
        ).otherwise(f.format_string("segment %d, byte %d: %s", "segment", "position", "problem")),
    )
    kinds = wrong.groupBy(*_KEY, f.isnull("problem").alias("kind"))
    found = kinds.agg(
        f.count("*"),
        f.min("base_offset"),
        f.min_by("what", f.struct("segment", "position")),
    )
    for row in found.orderBy(*_KEY).collect():
        yield _finding(AuditCheck.FILES, row, row[5], row[6], row[4])


def disordered(batches: "DataFrame") -> Iterator[AuditFinding]:
    """Missing or duplicated offsets, and decreasing leader epochs.

    Compaction leaves gaps, so missing offsets count only above the cleaned part of the log.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    order = Window.partitionBy(*_KEY).orderBy("segment", "position")
    lined_up = (
        batches.where("problem IS NULL")
        .withColumn("expected", f.lag("last_offset").over(order) + 1)
        .withColumn("before", f.max("epoch").over(order.rowsBetween(Window.unboundedPreceding, -1)))
    )
    sums = []
    for check in _ORDER:
        place = f.when(f.expr(check.condition), f.col("base_offset"))
        sums += [f.count(place), f.min(place), f.min_by(check.other, place)]
    for row in lined_up.groupBy(*_KEY).agg(*sums).orderBy(*_KEY).collect():
        for number, check in enumerate(_ORDER):
            places, offset, other = row[3 + 3 * number : 6 + 3 * number]
            if places:
                yield _finding(check.kind, row, offset, check.what % (offset, other), places)


def epochs(batches: "DataFrame", replicas: Sequence[ReplicaFiles]) -> Iterator[AuditFinding]:
    """Differences between a replica's leader-epoch checkpoint and its batches."""
    from pyspark.sql import functions as f

    known = {key_of(each): LeaderEpochs(each.epochs) for each in replicas if each.epochs}
    rows = (
        batches.where("problem IS NULL")
        .groupBy(*_KEY, "epoch")
        .agg(f.min("base_offset"), f.max("last_offset"))
        .orderBy(*_KEY, "epoch")
        .collect()
    )
    for row in rows:
        epoch, offsets = row[3], row[4:6]
        checkpoint = known.get(_key(row))
        # The checkpoint has nothing before its first entry, and is written after the batches.
        if checkpoint is None or epoch > checkpoint.latest:
            continue
        for offset in offsets:
            if offset < checkpoint.entries[0].start_offset:
                continue
            if (expected := checkpoint.epoch_for_offset(offset)) != epoch:
                what = (
                    f"offset {offset} has leader epoch {epoch}, but the leader-epoch checkpoint has"
                    f" {expected}"
                )
                yield _finding(AuditCheck.EPOCHS, row, offset, what)
                break


def different(
    spark: "SparkSession",
    batches: "DataFrame",
    ranges: Sequence[ComparedRange],
    audited: AuditResult,
) -> Iterator[AuditFinding]:
    """Batches that differ between a replica and its reference, or that one of them lacks."""
    if not ranges:
        return
    rows = [
        (each.replica.broker, *each.replica.partition, each.reference.broker, each.start, each.end)
        for each in ranges
    ]
    wanted = spark.createDataFrame(rows, _RANGES)
    for row in _compare(batches.where("problem IS NULL"), wanted).collect():
        audited.compared[_key(row)] = row["equal"]
        if row["places"]:
            what = (
                f"at offset {row['offset']} it has {_describe(row['mine'])},"
                f" but broker {row['reference']} has {_describe(row['other'])}"
            )
            yield _finding(AuditCheck.REPLICAS, row, row["offset"], what, row["places"])


def _compare(batches: "DataFrame", wanted: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f

    content = f.struct("last_offset", "epoch", "crc", "size")
    inside = "base_offset >= from_offset AND last_offset < to_offset"
    place = [*_KEY, "reference", "base_offset"]
    mine = batches.join(wanted, [*_KEY]).where(inside).select(*place, content.alias("mine"))
    others = batches.withColumnRenamed("broker", "reference")
    other = (
        others.join(wanted, ["reference", "topic", "partition"])
        .where(inside)
        .select(*place, content.alias("other"))
    )
    differs = f.expr("NOT (mine <=> other)")
    return (
        mine.join(other, place, "full_outer")
        .groupBy(*_KEY, "reference")
        .agg(
            f.count_if(differs).alias("places"),
            f.count_if(~differs).alias("equal"),
            f.min(f.when(differs, f.col("base_offset"))).alias("offset"),
            f.min_by("mine", f.when(differs, f.col("base_offset"))).alias("mine"),
            f.min_by("other", f.when(differs, f.col("base_offset"))).alias("other"),
        )
        .orderBy(*_KEY)
    )


def _describe(batch: "Row | None") -> str:
    if batch is None:
        return "no batch"
    return (
        f"a batch up to {batch.last_offset} with epoch {batch.epoch}, {batch['size']:,} bytes,"
        f" CRC {batch.crc:08x}"
    )


def history(batches: "DataFrame", totals: Iterable[ReplicaTotals]) -> list[tuple[int, int, int]]:
    """Records by time of their batches, in about a hundred intervals, and by broker."""
    from pyspark.sql import functions as f

    timed = batches.where("timestamp >= 0")
    times = [each for each in totals if each.last_timestamp >= 0]
    if not times:
        return []
    first = min(each.first_timestamp for each in times)
    last = max(each.last_timestamp for each in times)
    step = max(1, (last - first) // _PLOTTED_MOMENTS)
    moment = (f.floor(f.col("timestamp") / step) * step).cast("long")
    grouped = timed.groupBy(moment.alias("moment"), "broker").agg(f.sum("records"))
    return [(row[0], row[1], row[2]) for row in grouped.orderBy("moment", "broker").collect()]


def _key(row: Sequence[Any]) -> Key:
    return row[0], TopicPartition(row[1], row[2])


def _finding(
    kind: AuditCheck, row: Sequence[Any], offset: int | None, what: str, places: int = 1
) -> AuditFinding:
    broker, partition = _key(row)
    return AuditFinding(kind, partition, broker, offset, what, places)
