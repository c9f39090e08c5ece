"""The audit of a table: its rows against the records of the topic that it covers.

Rows are compared by number and checksum in blocks of offsets, so that a difference is located. For
the log the values are decoded again, as when the table was written.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.base.ids import TopicPartition
from barnabas.cli.client import ClusterClients, admin, await_all
from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.archive.archive_source import PartitionRange, snapshot_topics
from barnabas.spark.source.value_columns import TOMBSTONE, quoted
from barnabas.spark.spark_errors import spark_failures
from barnabas.spark.table.table_files import FileWriter
from barnabas.spark.table.table_rows import read_records, table_rows
from barnabas.spark.table.table_upsert import latest
from barnabas.spark.table_log.table_directory import TableDirectory
from barnabas.spark.table_log.table_file import total_rows
from barnabas.spark.table_log.table_log import TableLog, TableSnapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BLOCK: Final = 1_000
Block = tuple[int, int]  # a partition, and the number of a block of offsets
_CHECKSUM: Final = (
    "sum(crc32(cast(to_json(struct({}), map('ignoreNullFields', 'false')) AS BINARY)))"
)


class TableAudit(NamedTuple):
    """The outcome: `problems` are differences, `notes` are only worth knowing."""

    rows: int
    compared: int
    problems: list[str]
    notes: list[str]


class Comparable(NamedTuple):
    """The offsets that both the table and the log have."""

    ranges: list[PartitionRange]
    notes: list[str]


class Totals(NamedTuple):
    rows: int
    checksum: int


def audit_table(
    spark: "SparkSession",
    cluster: ClusterClients,
    options: Mapping[str, str],
    directory: TableDirectory,
    log: TableLog,
    snapshot: TableSnapshot,
    comparable: Comparable,
) -> TableAudit:
    """Compare the table with its topic. Raises CommandFailed if one cannot be read."""
    from pyspark.sql.types import StructType

    definition, state = snapshot.state.definition, snapshot.state
    files = log.files(snapshot.version)
    ranges, notes, problems = comparable.ranges, list(comparable.notes), []
    if (found := total_rows(files)) != state.rows:
        problems.append(f"the files have {found:,} rows, but {state.rows:,} were committed")
    if not ranges or not files:
        return TableAudit(found, 0, problems, notes)
    schema = StructType.fromJson(dict(snapshot.schema))
    with spark_failures("comparing the table with the log"):
        stored = FileWriter(directory, log, definition.partition_by).read(spark, files, schema)
        logged = table_rows(read_records(spark, options, definition, ranges), definition)
        if definition.upsert:
            logged = latest(logged).where(f"NOT {TOMBSTONE}").drop(TOMBSTONE)
        stored = stored.where(_within(ranges))
        if _is_compacted(cluster, definition.topic):
            notes.append(
                f"{definition.topic} is compacted: rows are compared if the log has their records"
            )
            there = logged.select("partition", "offset")
            stored = stored.join(there, ["partition", "offset"], "left_semi")
        columns = sorted(set(stored.columns) & set(logged.columns))
        in_table, in_log = _totals(stored, columns), _totals(logged, columns)
    problems += decide_differences(in_table, in_log, definition.topic)
    return TableAudit(found, sum(each.rows for each in in_log.values()), problems, notes)


def find_comparable(cluster: ClusterClients, snapshot: TableSnapshot) -> Comparable:
    """Raises CommandFailed if the topic is missing, or another one than the table's."""
    topic, known = snapshot.state.definition.topic, snapshot.state.topic_id
    now = snapshot_topics(cluster, [topic])[topic]
    if now.topic_id != known:
        raise CommandFailed(
            f"topic {topic} was deleted and recreated since the table was written (its id was"
            f" {known}, now {now.topic_id}); there is no log to compare the table with"
        )
    ranges, notes = [], []
    for number, each in sorted(snapshot.state.partitions.items()):
        bounds = now.bounds.get(number)
        if bounds is None:
            continue
        start = max(each.start, bounds.start)
        if start > each.start:
            notes.append(
                f"{topic}-{number}: the log begins at {start}; only the table has offsets from"
                f" {each.start} on"
            )
        if start < each.end:
            ranges.append(PartitionRange(TopicPartition(topic, number), start, each.end))
    return Comparable(ranges, notes)


def _is_compacted(cluster: ClusterClients, topic: str) -> bool:
    resource = admin.ConfigResource(admin.ResourceType.TOPIC, topic)
    client, _ = cluster.admin()
    (configs,) = await_all(client.describe_configs([resource]))
    return "compact" in (configs["cleanup.policy"].value or "")


def _within(ranges: Sequence[PartitionRange]) -> str:
    return " OR ".join(
        f"(partition = {each.partition.partition} AND offset >= {each.start}"
        f" AND offset < {each.end})"
        for each in ranges
    )


def _totals(rows: "DataFrame", columns: Sequence[str]) -> dict[Block, Totals]:
    from pyspark.sql import functions as f

    names = ", ".join(map(quoted, columns))
    found: list[Any] = (
        rows.groupBy("partition", f.expr(f"offset div {BLOCK}"))
        .agg(f.count(f.lit(1)), f.expr(_CHECKSUM.format(names)))
        .collect()
    )
    return {(row[0], row[1]): Totals(row[2], int(row[3] or 0)) for row in found}


def decide_differences(
    in_table: Mapping[Block, Totals], in_log: Mapping[Block, Totals], topic: str
) -> list[str]:
    """A sentence for each block of offsets in which the table and the log differ."""
    problems = []
    for block in sorted(in_table.keys() | in_log.keys()):
        stored, logged = in_table.get(block, Totals(0, 0)), in_log.get(block, Totals(0, 0))
        if stored == logged:
            continue
        number, first = block[0], block[1] * BLOCK
        where = f"{topic}-{number}, offsets {first} to {first + BLOCK}"
        what = (
            f"{stored.rows} rows in the table, {logged.rows} records in the log"
            if stored.rows != logged.rows
            else f"{stored.rows} rows, but their content differs"
        )
        problems.append(f"{where}: {what}")
    return problems
