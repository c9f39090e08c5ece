"""Batch reads: `spark.read.format("barnabas")`, planned by the driver, executed by tasks."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from barnabas.spark.source.filters import Selection, push_down
from barnabas.spark.source.offset_ranges import OffsetRange
from barnabas.spark.source.read_task import ALL_TIMES, TimeRange, read_range
from barnabas.spark.source.source_options import SourceOptions, include_headers
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
    """The columns of Spark's Kafka source. Raises WrongOption."""
    return COLUMNS + (HEADERS if include_headers(options) else "")


@without_traceback
def reader(options: Mapping[str, str], schema: StructType) -> "BatchReader":
    """Raises  WrongOption"""
    kind = FilteringReader if _filters_are_pushed() else BatchReader
    return kind(SourceOptions.of(options, streaming=False), schema)


def _filters_are_pushed() -> bool:
    """Whether this process is the worker in which Spark pushes filters down.

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
    batches = ArrowBatches(to_arrow_schema(schema, timezone="UTC"), *wanted.partition)
    with plain_errors():
        for taken in read_range(wanted, options, times):
            yield batches.batch(taken)
