"""The rows of a table: records with decoded values, and records that do not fit."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from barnabas.cli.exit_codes import Misused
from barnabas.spark.archive.archive_run import read_ranges
from barnabas.spark.archive.archive_source import PartitionRange
from barnabas.spark.source.value_columns import (
    DAY_COLUMN,
    END_TIME_MS,
    FIRST_TIME_MS,
    RECORD_COLUMNS,
    TOMBSTONE,
    quoted,
)
from barnabas.spark.table_log.table_state import TableDefinition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORD: Final = (
    "key", "value", "headers", "topic", "partition", "offset", "timestamp", "timestampType",
)  # fmt: skip
# The UTC day, in every session time zone.
_FROM_DAY: Final = "date_from_unix_date(int(floor(unix_millis(timestamp) / 86400000)))"
# Null beyond the years 1 to 9999, which formats and readers do not agree on.
DAY: Final = (
    f"CASE WHEN timestamp >= timestamp_millis({FIRST_TIME_MS})"
    f" AND timestamp < timestamp_millis({END_TIME_MS}) THEN {_FROM_DAY} END"
)
COMMITTED: Final = {"kafka.isolation.level": "read_committed"}


def read_records(
    spark: "SparkSession",
    options: Mapping[str, str],
    definition: TableDefinition,
    ranges: Iterable[PartitionRange],
) -> "DataFrame":
    """The records in these ranges; with decoded values also `rawValue` and `valueError`."""
    decoding = {"value.errors": "keep", **definition.values} if definition.is_decoded else {}
    return read_ranges(spark, {**COMMITTED, **options, **decoding}, ranges)


def table_rows(records: "DataFrame", definition: TableDefinition) -> "DataFrame":
    """The rows of the table. Raises Misused if a partition column does not exist."""
    from pyspark.sql import functions as f

    deleted = [f.col("value").isNull().alias(TOMBSTONE)] if definition.upsert else []
    if not definition.is_decoded:
        rows = records.select(*RECORD, *deleted)
    else:
        columns = [
            f.col(f"value.{quoted(name)}").alias(column)
            for name, column in definition.columns.items()
        ]
        rows = records.where("valueError IS NULL").select(*RECORD_COLUMNS, *columns, *deleted)
    if DAY_COLUMN in definition.partition_by:
        rows = rows.withColumn(DAY_COLUMN, f.expr(DAY))
    for name in definition.partition_by:
        if name not in rows.columns:
            raise Misused(
                f"--partition-by {name}: no such column; the columns are"
                f" {', '.join(rows.columns)}, and day is the UTC day of the timestamp"
            )
    return rows


def bad_reason(definition: TableDefinition) -> str | None:
    """An SQL expression for the reason why a record is no row, or null; None if all are rows."""
    cases = ["WHEN valueError IS NOT NULL THEN valueError"] if definition.is_decoded else []
    if definition.upsert:
        cases.append("WHEN key IS NULL THEN 'the record has no key'")
    return f"CASE {' '.join(cases)} END" if cases else None
