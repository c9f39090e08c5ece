"""The scan of segment files by Spark tasks: a row per batch, and per place without a batch."""

import os
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from barnabas.cli.log.dump_result import Damage
from barnabas.cli.log.segment_dump import SegmentBatch, read_batches
from barnabas.spark.audit.audit_files import SegmentFile
from barnabas.wire.records.batch import check_crc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEGMENTS: Final = (
    "broker INT, topic STRING, partition INT, base_offset LONG, path STRING, size LONG,"
    " is_last BOOLEAN, cleaned_to LONG"
)
# `problem` is why there is no batch; the columns of the batch are null then.
BATCHES: Final = (
    "broker INT, topic STRING, partition INT, segment LONG, cleaned_to LONG, position LONG,"
    " base_offset LONG, last_offset LONG, epoch INT, crc LONG, size LONG, records LONG,"
    " timestamp LONG, intact BOOLEAN, problem STRING"
)
_ROWS_AT_ONCE: Final = 5_000
_TASKS_PER_CORE: Final = 4

Row = tuple[Any, ...]


def read_all_batches(spark: "SparkSession", segments: list[SegmentFile]) -> "DataFrame":
    """The batches of these segments, scanned in parallel."""
    listed = spark.createDataFrame(sorted(segments, key=lambda each: -each.size), SEGMENTS)
    return spread(listed, len(segments)).mapInArrow(scan, BATCHES)


def spread(segments: "DataFrame", count: int) -> "DataFrame":
    """Distribute the segments over tasks."""
    return segments.repartition(min(count, _TASKS_PER_CORE * (os.cpu_count() or 1)))


def scan(segments: Iterator[Any]) -> Iterator[Any]:
    """The work of a task: scan its segments into Arrow batches of rows."""
    arrow: Any = import_module("pyarrow")
    kinds = {"INT": "int32", "LONG": "int64", "STRING": "string", "BOOLEAN": "bool_"}
    columns = [column.split() for column in BATCHES.split(", ")]
    schema = arrow.schema([(name, getattr(arrow, kinds[kind])()) for name, kind in columns])
    for some in segments:
        for fields in some.to_pylist():
            rows: list[Row] = []
            for row in scan_segment(SegmentFile(**fields)):
                rows.append(row)
                if len(rows) == _ROWS_AT_ONCE:
                    yield _as_arrow(arrow, schema, rows)
                    rows = []
            yield _as_arrow(arrow, schema, rows)


def scan_segment(segment: SegmentFile) -> Iterator[Row]:
    """The rows of one segment, without a batch that a broker is writing at the end of the log."""
    broker, topic, partition, base_offset, *_, cleaned_to = segment
    where = (broker, topic, partition, base_offset, cleaned_to)
    try:
        with open(segment.path, "rb") as file:
            for found in read_batches(file, segment.size):
                if isinstance(found, SegmentBatch):
                    yield (*where, found.position, *_fields(found), None)
                elif isinstance(found, Damage):
                    if not (segment.is_last and os.path.getsize(segment.path) > segment.size):
                        yield _problem(where, found.position, found.message)
                elif not segment.is_last:
                    position = found.fields["position"]
                    yield _problem(where, position, "zeros where the next batch is expected")
    except FileNotFoundError:  # deleted by retention
        return
    except OSError as error:
        yield _problem(where, 0, f"cannot be read: {error.strerror}")


def _fields(batch: SegmentBatch) -> Row:
    header = batch.header
    return (
        header.base_offset,
        header.last_offset,
        header.leader_epoch,
        header.crc,
        header.size,
        header.record_count,
        header.max_timestamp,
        check_crc(batch.data),
    )


def _problem(where: Row, position: object, what: str) -> Row:
    return (*where, position, None, None, None, None, None, None, None, None, what)


def _as_arrow(arrow: Any, schema: Any, rows: list[Row]) -> Any:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [
        arrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)
    ]
    return arrow.RecordBatch.from_arrays(arrays, schema=schema)
