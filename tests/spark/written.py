"""The content of a topic, read by another client; and rows to write without Spark."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql.types import StringType, StructField, StructType

from barnabas.spark.sink.sink_options import SinkOptions
from barnabas.spark.sink.sink_rows import SinkColumns

pa: Any = pyarrow
READ_WITHIN_S: Final = 60.0
SCHEMA: Final = StructType([StructField("key", StringType()), StructField("value", StringType())])


def topics_of(bootstrap: str) -> list[str]:
    client = AdminClient({"bootstrap.servers": bootstrap})
    return sorted(client.list_topics(timeout=READ_WITHIN_S).topics)


def values(bootstrap: str, topic: str) -> list[str]:
    """Every value, partition by partition, in order."""
    return [value for listed in by_partition(bootstrap, topic).values() for value in listed]


def by_partition(bootstrap: str, topic: str) -> dict[int, list[str]]:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    try:
        found = consumer.list_topics(topic, READ_WITHIN_S).topics[topic].partitions
        read: dict[int, list[str]] = {number: [] for number in sorted(found)}
        consumer.assign([TopicPartition(topic, number, 0) for number in read])
        ended: set[int] = set()
        while len(ended) < len(read):
            message = consumer.poll(READ_WITHIN_S)
            assert message is not None, f"{topic} cannot be read to its end"
            error, number = message.error(), message.partition()
            assert number is not None
            if error is None:
                read[number].append((message.value() or b"").decode(errors="replace"))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error.str()
                ended.add(number)
        return read
    finally:
        consumer.close()


def rows(texts: Iterable[str], batch_rows: int = 10) -> Iterator[Any]:
    """As Spark hands them to a task: Arrow batches of the columns of SCHEMA."""
    listed = list(texts)
    for start in range(0, len(listed), batch_rows):
        part = listed[start : start + batch_rows]
        yield pa.record_batch({"key": pa.array(part), "value": pa.array(part)})


def sink(bootstrap: str, topic: str, **options: str) -> tuple[SinkOptions, SinkColumns]:
    """Options with batches so small that a few rows need several."""
    given = {"kafka.bootstrap.servers": bootstrap, "topic": topic, **options}
    chosen = SinkOptions.of(given)._replace(batch_bytes=300)
    return chosen, SinkColumns.of(SCHEMA, topic)
