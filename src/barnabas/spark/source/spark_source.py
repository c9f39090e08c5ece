"""Batch reads: `spark.read.format("barnabas")`, planned by the driver, executed by tasks."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from barnabas.spark.source.filters import Selection, push_down
from barnabas.spark.source.offset_ranges import OffsetRange
from barnabas.spark.source.read_task import ALL_TIMES, TimeRange, read_range
from barnabas.spark.source.source_options import SourceOptions, include_headers
from barnabas.spark.source.value_decoder import DecodedBatches, ValueOptions
from barnabas.spark.user_errors import plain_errors, without_traceback

RecordBatch = Any  # of pyarrow, which has no types

_PUSHING_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"
COLUMNS: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,"
    " timestampType int"
)
HEADERS: Final = ", headers array<struct<key: string, value: binary>>"


@without_traceback
def schema(options: Mapping[str, str]) -> str:
    """The columns of Spark's Kafka source, with decoded values if wanted. Raises WrongOption."""
    headers = HEADERS if include_headers(options) else ""
    decoding = ValueOptions.of(options)
    if decoding is None:
        return COLUMNS + headers
    value, kept = decoding.columns()
    return COLUMNS.replace("value binary", value) + headers + kept


@without_traceback
def reader(options: Mapping[str, str], schema: StructType) -> "BatchReader":
    """Raises  WrongOption"""
    kind = FilteringReader if filters_are_pushed() else BatchReader
    return kind(SourceOptions.of(options, streaming=False), schema)


def filters_are_pushed() -> bool:
    """True if this process is the worker in which Spark pushes filters down.

    Unless `spark.sql.python.filterPushdown.enabled` is set, Spark rejects a reader that accepts
    filters. A reader cannot see that setting; but only with it does Spark start this worker.
    """
    main = getattr(sys.modules["__main__"], "__spec__", None)
    return _PUSHING_WORKER in sys.modules or getattr(main, "name", None) == _PUSHING_WORKER


class BatchReader(DataSourceReader):
    """A batch read: planning fixes its ranges of offsets."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._times = ALL_TIMES

    @without_traceback
    def partitions(self) -> list[OffsetRange]:
        from barnabas.spark.source.read_plan import plan  # tasks do not need it

        return plan(self._options, Selection())

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return arrow_batches(partition, self._options, self._schema, self._times)


class FilteringReader(BatchReader):
    """A batch read that accepts filters on partition, offset and timestamp."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._selection = Selection()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._selection, left = push_down(filters)
        self._times = TimeRange(*self._selection.times_ms)
        return left

    @without_traceback
    def partitions(self) -> list[OffsetRange]:
        from barnabas.spark.source.read_plan import plan

        return plan(self._options, self._selection)


def arrow_batches(
    wanted: InputPartition, options: SourceOptions, schema: StructType, times: TimeRange
) -> Iterator[RecordBatch]:
    """Yield the records of a task as Arrow batches. Raises SparkFailure."""
    from barnabas.spark.source.arrow_columns import ArrowBatches

    if not isinstance(wanted, OffsetRange):  # Spark's own, if the plan has no task
        return
    arrow = to_arrow_schema(schema, timezone="UTC")
    with plain_errors():
        decoding = options.values and DecodedBatches(
            options.values, arrow, schema["value"].dataType
        )
        batches = ArrowBatches(_raw(arrow) if decoding else arrow, *wanted.partition)
        for taken in read_range(wanted, options, times):
            batch = batches.batch(taken)
            yield decoding.decoded(batch) if decoding else batch


def _raw(schema: Any) -> Any:
    """The schema before values are decoded."""
    pa: Any = import_module("pyarrow")
    kept = [
        pa.field("value", pa.binary()) if field.name == "value" else field
        for field in schema
        if field.name not in ("rawValue", "valueError")
    ]
    return pa.schema(kept)
