"""The rows of a view: from a file of the table, or from records of the topic, as Arrow batches."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from barnabas.spark.source.offset_ranges import OffsetRange
from barnabas.spark.source.read_task import ALL_TIMES
from barnabas.spark.source.source_options import SourceOptions
from barnabas.spark.source.spark_source import COLUMNS, RecordBatch, arrow_batches
from barnabas.spark.source.table_view import FileTask
from barnabas.spark.source.value_columns import value_fields
from barnabas.spark.user_errors import SparkFailure, plain_errors

_BATCH_ROWS: Final = 64 * 1024


def view_rows(
    task: InputPartition, options: SourceOptions, schema: StructType, record: StructType
) -> Iterator[RecordBatch]:
    """Yield the rows of one task; `record` is the schema of the topic's records."""
    arrow = to_arrow_schema(schema, timezone="UTC")
    with plain_errors():
        if isinstance(task, FileTask):
            yield from _file_rows(task, arrow)
        elif isinstance(task, OffsetRange):
            for batch in arrow_batches(task, options, record, ALL_TIMES):
                yield _as_rows(batch, arrow, record)


def _file_rows(task: FileTask, schema: Any) -> Iterator[RecordBatch]:
    fs: Any = import_module("pyarrow.fs")
    parquet: Any = import_module("pyarrow.parquet")
    compute: Any = import_module("pyarrow.compute")
    filesystem, path = fs.FileSystem.from_uri(task.uri.replace("s3a://", "s3://", 1))
    try:
        with filesystem.open_input_file(path) as file:
            for batch in parquet.ParquetFile(file).iter_batches(_BATCH_ROWS):
                rows = _conformed(batch, schema, task)
                yield rows.filter(_wanted(rows, task, compute))
    except FileNotFoundError:
        raise SparkFailure(
            f"{task.uri} is gone: upkeep has replaced it since the query began; run it again"
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


def _as_rows(batch: Any, schema: Any, record: StructType) -> Any:
    """Records as rows of the table: fields of the value are columns, bad values are left out."""
    pa: Any = import_module("pyarrow")
    compute: Any = import_module("pyarrow.compute")
    decoded = batch.schema.get_field_index("valueError") >= 0
    if decoded:
        batch = batch.filter(compute.is_null(batch.column("valueError")))
    fields: dict[str, Any] = {}
    if decoded:
        struct = batch.column("value")
        for name, column in value_fields(record["value"].dataType).items():
            fields[column] = compute.struct_field(struct, name)
    columns = []
    for field in schema:
        if field.name in fields:
            columns.append(_cast(fields[field.name], field.type))
        elif field.name == "day" and batch.schema.get_field_index("day") < 0:
            columns.append(batch.column("timestamp").cast(pa.timestamp("us")).cast(field.type))
        elif batch.schema.get_field_index(field.name) >= 0:
            columns.append(_cast(batch.column(field.name), field.type))
        else:
            columns.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def record_schema(table: StructType, values: StructType | None) -> StructType:
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
