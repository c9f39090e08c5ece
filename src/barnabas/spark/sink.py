"""What Spark writes to topics: batches and micro-batches, each task by a producer of its own.

At least once: a task that fails is run again, and what it had sent already stays. With the option
exactlyOnce the other writers are used, see `exactly_once.py`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from barnabas.spark.failures import SparkFailure, WrongOption, told_plainly
from barnabas.spark.sink_options import SinkOptions
from barnabas.spark.sink_rows import ArrowBatch, Columns

_SERVED_EVERY: Final = 10_000  # rows between two looks at what was delivered
_ROOM_S: Final = 0.1


class WriteFailed(SparkFailure):
    """Records could not be delivered; the message says to where and why."""


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
    return BatchWriter(*_checked(options, schema))


@told_plainly
def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """For `df.writeStream.format("barnabas").start()`; in mode complete each result is appended.

    Raises  WrongOption for wrong options, and for columns that are no record
    """
    return StreamWriter(*_checked(options, schema))


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
def send(options: SinkOptions, columns: Columns, batches: Iterator[ArrowBatch]) -> Written:
    """Write all rows, and return when every one is in the log as `kafka.acks` wants it.

    Raises  WriteFailed, some rows written, if one could not be delivered
    """
    failures: list[str] = []

    def on_failure(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(f"{message.topic()}: {error.str()}")

    producer = _producer(options)
    count = 0
    for count, row in enumerate(columns.rows(batches), 1):
        topic, partition, timestamp_ms, key, value, headers = row
        given: dict[str, Any] = {}
        if partition is not None:
            given["partition"] = partition
        if timestamp_ms is not None:
            given["timestamp"] = timestamp_ms
        if headers:
            given["headers"] = headers
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=on_failure, **given)
                break
            except BufferError:
                producer.poll(_ROOM_S)
        if count % _SERVED_EVERY == 0:
            producer.poll(0)
        if failures:
            break
    _finish(producer, failures)
    return Written(count)


def _producer(options: SinkOptions) -> Producer:
    try:
        return Producer(options.client)
    except KafkaException as failure:
        raise WrongOption(f"the producer cannot be set so: {failure.args[0].str()}") from None


def _finish(producer: Producer, failures: list[str]) -> None:
    """Wait until every record is delivered or given up, which `delivery.timeout.ms` bounds."""
    while not failures and producer.flush(_ROOM_S * 10):
        pass
    if failures:
        producer.purge()
        producer.flush()
        raise WriteFailed(f"records could not be written to {failures[0]}")
