"""The rows of a view: from a file of the table, or from records of the topic, as Arrow batches."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from barnabas.spark.small_files import Directory
from barnabas.spark.source.offset_ranges import OffsetRange
from barnabas.spark.source.read_task import ALL_TIMES
from barnabas.spark.source.spark_source import COLUMNS, RecordBatch, arrow_batches
from barnabas.spark.source.table_view import FileTask, ViewedTable
from barnabas.spark.source.value_columns import DAY_COLUMN, END_TIME_MS, FIRST_TIME_MS
from barnabas.spark.table_log.table_state import TableDefinition
from barnabas.spark.user_errors import SparkFailure, plain_errors

_BATCH_ROWS: Final = 64 * 1024


def view_rows(
    task: InputPartition, viewed: ViewedTable, schema: StructType, record: StructType
) -> Iterator[RecordBatch]:
    """Yield the rows of one task; `record` is the schema of the topic's records."""
    arrow = to_arrow_schema(schema, timezone="UTC")
    with plain_errors():
        if isinstance(task, FileTask):
            yield from _file_rows(task, arrow)
        elif isinstance(task, OffsetRange):
            definition = viewed.snapshot.state.definition
            for batch in arrow_batches(task, viewed.options, record, ALL_TIMES):
                yield _as_rows(batch, arrow, definition)


def _file_rows(task: FileTask, schema: Any) -> Iterator[RecordBatch]:
    parquet: Any = import_module("pyarrow.parquet")
    compute: Any = import_module("pyarrow.compute")
    try:
        with Directory(task.place).open(task.path) as file:
            for batch in parquet.ParquetFile(file).iter_batches(_BATCH_ROWS):
                rows = _conformed(batch, schema, task)
                yield rows.filter(_wanted(rows, task, compute))
    except FileNotFoundError:
        raise SparkFailure(
            f"{task.place}/{task.path} is gone: upkeep has replaced it since the query began; run"
            " it again"
        ) from None


def _wanted(rows: Any, task: FileTask, compute: Any) -> Any:
    partitions = rows.column(rows.schema.get_field_index("partition"))
    offsets = rows.column(rows.schema.get_field_index("offset"))
    found: Any = None
    for number, (start, end) in task.ranges.items():
        here = compute.and_(
            compute.equal(partitions, number),
            compute.and_(compute.greater_equal(offsets, start), compute.less(offsets, end)),
        )
        found = here if found is None else compute.or_(found, here)
    return found


def _conformed(batch: Any, schema: Any, task: FileTask) -> Any:
    """The batch with the columns of the table: those that it lacks are null, or in its path."""
    pa: Any = import_module("pyarrow")
    columns = []
    for field in schema:
        place = batch.schema.get_field_index(field.name)
        if place >= 0:
            columns.append(_cast(batch.column(place), field.type))
        elif (value := task.partition_values.get(field.name)) is not None:
            columns.append(pa.repeat(pa.scalar(value), batch.num_rows).cast(field.type))
        else:
            columns.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: Any, kind: Any) -> Any:
    return column if column.type == kind else column.cast(kind)


def _as_rows(batch: Any, schema: Any, definition: TableDefinition) -> Any:
    """Records as rows of the table: fields of the value are columns, bad values are left out."""
    pa: Any = import_module("pyarrow")
    compute: Any = import_module("pyarrow.compute")
    fields: dict[str, Any] = {}
    if definition.is_decoded:
        batch = batch.filter(compute.is_null(batch.column("valueError")))
        known = [name for name in definition.columns.values() if name in schema.names]
        for place, column in enumerate(known):
            fields[column] = compute.struct_field(batch.column("value"), [place])
    if DAY_COLUMN in definition.partition_by:
        fields[DAY_COLUMN] = _days(batch.column("timestamp"))
    columns = []
    for field in schema:
        if field.name in fields:
            columns.append(_cast(fields[field.name], field.type))
        elif batch.schema.get_field_index(field.name) >= 0:
            columns.append(_cast(batch.column(field.name), field.type))
        else:
            columns.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _days(timestamps: Any) -> Any:
    """The UTC days; null where the column of the table is null, too."""
    pa: Any = import_module("pyarrow")
    compute: Any = import_module("pyarrow.compute")
    at = timestamps.cast(pa.int64())
    inside = compute.and_(
        compute.greater_equal(at, FIRST_TIME_MS * 1000), compute.less(at, END_TIME_MS * 1000)
    )
    known = compute.if_else(inside, at, pa.scalar(None, pa.int64()))
    return known.cast(pa.timestamp("us")).cast(pa.date32())


def record_schema(values: StructType | None) -> StructType:
    """The schema in which the topic's records are read for a table with these decoded values."""
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        IntegerType,
        LongType,
        StringType,
        TimestampType,
    )

    headers = ArrayType(
        StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    )
    kinds: dict[str, Any] = {
        "binary": BinaryType(), "string": StringType(), "int": IntegerType(),
        "bigint": LongType(), "timestamp": TimestampType(),
    }  # fmt: skip
    pairs = [each.split() for each in COLUMNS.split(", ")]
    fields = [StructField(name, kinds[kind]) for name, kind in pairs]
    fields.append(StructField("headers", headers))
    if values is not None:
        fields[1] = StructField("value", values)
        fields += [StructField("rawValue", BinaryType()), StructField("valueError", StringType())]
    return StructType(fields)
