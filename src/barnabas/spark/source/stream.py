"""Streaming reads: `spark.readStream.format("barnabas")`, micro-batch by micro-batch.

The reader lives on the driver as long as the query. Spark asks it for the end of a batch, then for
the ranges of the tasks, and writes both ends to the checkpoint. When Spark asks for the next end,
all records before the start of that batch are processed: then the reader commits progress.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from barnabas.spark.source.offset_ranges import OffsetRange
from barnabas.spark.source.read_task import ALL_TIMES
from barnabas.spark.source.source_options import SourceOptions
from barnabas.spark.source.spark_source import RecordBatch, arrow_batches
from barnabas.spark.user_errors import without_traceback

if TYPE_CHECKING:
    from barnabas.spark.source.query import Query


@without_traceback
def stream_reader(options: Mapping[str, str], schema: StructType) -> "StreamReader":
    """Raises  WrongOption"""
    return StreamReader(SourceOptions.of(options, streaming=True), schema)


@dataclass(frozen=True)
class Task(InputPartition):
    """The offsets that one task reads, and the group in which it hands over the query's name."""

    wanted: OffsetRange
    token_group: str | None


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's interface to `Query`; tasks get a copy of it without connections."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._query: Query | None = None

    @property
    def query(self) -> "Query":
        if self._query is None:
            from barnabas.spark.source.query import Query  # tasks do not need it

            self._query = Query(self._options)
        return self._query

    @without_traceback
    def initialOffset(self) -> dict[str, Any]:
        return self.query.initial()

    @without_traceback
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self.query.latest(start, limit)

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self.query.last_seen()

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:
        self.query.fix_end()

    @without_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Task]:
        ranges, group = self.query.ranges(start, end)
        return [Task(each, group if number == 0 else None) for number, each in enumerate(ranges)]

    @without_traceback
    def commit(self, end: dict[str, Any]) -> None:
        self.query.done(end)

    def stop(self) -> None:
        if self._query is not None:
            self._query.close()

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        assert isinstance(partition, Task)
        if partition.token_group is not None:
            from barnabas.spark.source.query_group import send_query_group  # first tasks only

            send_query_group(partition.token_group, partition.wanted.partition, self._options)
        return arrow_batches(partition.wanted, self._options, self._schema, ALL_TIMES)
