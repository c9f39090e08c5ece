"""Writes to topics: `df.write` and `df.writeStream` with `format("barnabas")`.

Each task has its own idempotent producer. Delivery is at least once: a failed task is retried, and
the records that it has sent stay. With the option exactlyOnce the writers of `exactly_once` are
used instead.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, StructField, StructType
from pyspark.taskcontext import TaskContext

from barnabas.base.clock import SystemClock
from barnabas.base.randomness import Random
from barnabas.spark.exactly_once.exactly_once_writer import (
    ExactlyOnceBatchWriter,
    ExactlyOnceStreamWriter,
)
from barnabas.spark.sink.batch_sender import Sender, next_sequence, numbered
from barnabas.spark.sink.sink_batches import batches
from barnabas.spark.sink.sink_cluster import new_producer_id, partition_count
from barnabas.spark.sink.sink_options import SinkOptions
from barnabas.spark.sink.sink_rows import ArrowBatch, SinkColumns
from barnabas.spark.user_errors import WrongOption, without_traceback


class RecordsWritten(WriterCommitMessage):
    """The commit message of a task: the number of records written."""

    def __init__(self, records: int) -> None:
        self.records = records


@without_traceback
def writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceArrowWriter:
    """For `df.write.format("barnabas").mode("append").save()`.

    Raises  WrongOption for invalid options or columns, and for mode overwrite
    """
    if overwrite:
        raise WrongOption('a topic cannot be overwritten; use mode("append")')
    chosen, columns = _checked(options, schema)
    if chosen.exactly_once:
        return ExactlyOnceBatchWriter(chosen, columns, str(Random().uuid()))
    return BatchWriter(chosen, columns)


@without_traceback
def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """For `df.writeStream.format("barnabas").start()`; mode complete appends every result.

    Raises  WrongOption for invalid options or columns
    """
    chosen, columns = _checked(options, schema)
    return (ExactlyOnceStreamWriter if chosen.exactly_once else StreamWriter)(chosen, columns)


def _checked(options: Mapping[str, str], schema: StructType) -> tuple[SinkOptions, SinkColumns]:
    chosen = SinkOptions.of(options)
    if not any(name.lower() == "value.format" for name in options):
        return chosen, SinkColumns.of(schema, chosen.topic)
    from barnabas.spark.sink.value_encoder import ValueEncoder

    kinds = {field.name: field.dataType for field in schema.fields}
    encoder = ValueEncoder.of(options, kinds.get("value"), chosen.topic)
    plain = StructType(
        [
            StructField("value", BinaryType()) if field.name == "value" else field
            for field in schema.fields
        ]
    )
    return chosen, SinkColumns.of(plain, chosen.topic)._replace(encoder=encoder)


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[ArrowBatch]) -> RecordsWritten:
        return send(self._options, self._columns, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[ArrowBatch]) -> RecordsWritten:
        return send(self._options, self._columns, iterator)


@without_traceback
def send(options: SinkOptions, columns: SinkColumns, rows: Iterator[ArrowBatch]) -> RecordsWritten:
    """Write all rows; return when the brokers have acknowledged them by `kafka.acks`.

    Raises  SparkFailure if a row cannot be written; others may be written then
    """
    connection = options.connection
    partitions = partial(partition_count, connection)
    producer = None
    sequences: defaultdict[tuple[str, int], int] = defaultdict(int)
    records = 0
    with Sender(connection, acks=options.acks) as sender:
        for partition, batch, count in batches(
            rows, columns, options, partitions, SystemClock(), task_number()
        ):
            producer = producer or new_producer_id(connection)
            sender.send(partition, numbered(batch, producer, sequences[partition]))
            sequences[partition] = next_sequence(sequences[partition], count)
            records += count
        sender.flush()
    return RecordsWritten(records)


def task_number() -> int:
    """The number of this task within its job."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
