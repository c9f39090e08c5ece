"""What Spark writes to topics: batches and micro-batches, each task by a producer of its own.

At least once: a task that fails is run again, and what it had sent already stays. With the option
exactlyOnce the other writers are used, see `exactly_once.py`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType
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
from barnabas.spark.sink.sink_rows import ArrowBatch, Columns
from barnabas.spark.user_errors import WrongOption, told_plainly


class Written(WriterCommitMessage):
    """What a task tells the driver: how many records it wrote."""

    def __init__(self, records: int) -> None:
        self.records = records


@told_plainly
def writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceArrowWriter:
    """For `df.write.format("barnabas").mode("append").save()`.

    Raises  WrongOption for wrong options, for columns that are no record, and for mode overwrite
    """
    if overwrite:
        raise WrongOption('a topic cannot be overwritten: write with mode("append")')
    chosen, columns = _checked(options, schema)
    if chosen.exactly_once:
        return ExactlyOnceBatchWriter(chosen, columns, str(Random().uuid()))
    return BatchWriter(chosen, columns)


@told_plainly
def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """For `df.writeStream.format("barnabas").start()`; in mode complete each result is appended.

    Raises  WrongOption for wrong options, and for columns that are no record
    """
    chosen, columns = _checked(options, schema)
    return (ExactlyOnceStreamWriter if chosen.exactly_once else StreamWriter)(chosen, columns)


def _checked(options: Mapping[str, str], schema: StructType) -> tuple[SinkOptions, Columns]:
    chosen = SinkOptions.of(options)
    return chosen, Columns.of(schema, chosen.topic)


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions, columns: Columns) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[ArrowBatch]) -> Written:
        return send(self._options, self._columns, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, columns: Columns) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[ArrowBatch]) -> Written:
        return send(self._options, self._columns, iterator)


@told_plainly
def send(options: SinkOptions, columns: Columns, rows: Iterator[ArrowBatch]) -> Written:
    """Write all rows, and return when every one is in the log as `kafka.acks` wants it.

    Raises  SparkFailure, some rows written, if one could not be
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
    return Written(records)


def task_number() -> int:
    """Which of the job's tasks this is."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
