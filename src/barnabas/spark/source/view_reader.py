"""Reads of a view: `format("barnabas").option("table", PATH)`, batch and streaming."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from barnabas.base.ids import TopicPartition
from barnabas.spark.source.offset_ranges import limited
from barnabas.spark.source.spark_source import RecordBatch, filters_are_pushed
from barnabas.spark.source.table_view import (
    Offsets,
    ViewedTable,
    ends,
    starts,
    tasks,
    view,
)
from barnabas.spark.source.view_rows import record_schema, view_rows
from barnabas.spark.user_errors import without_traceback


@without_traceback
def view_reader(options: Mapping[str, str], schema: StructType) -> "ViewReader":
    """Raises  WrongOption"""
    kind = FilteringViewReader if filters_are_pushed() else ViewReader
    return kind(view(options, streaming=False), schema)


@without_traceback
def view_stream_reader(options: Mapping[str, str], schema: StructType) -> "ViewStreamReader":
    """Raises  WrongOption"""
    return ViewStreamReader(dict(options), view(options, streaming=True), schema)


class ViewReader(DataSourceReader):
    """A batch read of the table and the topic up to its current end."""

    def __init__(self, viewed: ViewedTable, schema: StructType) -> None:
        self._viewed = viewed
        self._schema = schema
        self._record = _record(viewed, schema)
        self._filters: list[Filter] = []

    @without_traceback
    def partitions(self) -> list[InputPartition]:
        return tasks(self._viewed, starts(self._viewed), ends(self._viewed), self._filters)

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return view_rows(partition, self._viewed, self._schema, self._record)


class FilteringViewReader(ViewReader):
    """A batch read that skips files in which no row can match the filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._filters = list(filters)
        return filters  # files are skipped, rows are not: Spark still has to filter


class ViewStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read: offsets of the topic, wherever their rows are."""

    def __init__(self, options: dict[str, str], viewed: ViewedTable, schema: StructType) -> None:
        self._options = options
        self._viewed = viewed
        self._schema = schema
        self._record = _record(viewed, schema)
        self._end: Offsets | None = None

    @without_traceback
    def initialOffset(self) -> dict[str, Any]:
        return _to_json(starts(self._viewed))

    @without_traceback
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begun, latest = _from_json(start), self._end or ends(self._viewed)
        if not isinstance(limit, ReadMaxRows):
            return _to_json(latest)
        some = limited(_keyed(begun, latest), _keyed(latest, latest), limit.max_rows)
        return _to_json({each.partition: end for each, end in some.items()})

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._viewed.options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:
        self._end = ends(self._viewed)

    @without_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        # The table may cover by now what the topic has deleted since.
        viewed = view(self._options, streaming=True)
        return tasks(viewed, _from_json(start), _from_json(end))

    def commit(self, end: dict[str, Any]) -> None:
        """Spark's checkpoint has the offsets."""

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return view_rows(partition, self._viewed, self._schema, self._record)


def _record(viewed: ViewedTable, schema: StructType) -> StructType:
    definition = viewed.snapshot.state.definition
    if not definition.is_decoded:
        return record_schema(None)
    kinds = {field.name: field.dataType for field in schema.fields}
    fields = StructType()
    for name, column in definition.columns.items():
        if column in kinds:  # newer columns than the query knows are left out
            fields = fields.add(name, kinds[column])
    return record_schema(fields)


def _keyed(offsets: Offsets, known: Offsets) -> dict[TopicPartition, int]:
    return {TopicPartition("", number): offsets.get(number, 0) for number in known}


def _to_json(offsets: Offsets) -> dict[str, Any]:
    return {str(number): offset for number, offset in sorted(offsets.items())}


def _from_json(found: Mapping[str, Any]) -> Offsets:
    return {int(number): int(offset) for number, offset in found.items()}
