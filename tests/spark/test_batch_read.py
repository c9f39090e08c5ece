"""Batch reads of real topics by a real Spark session."""

from collections.abc import Callable

from pyspark.sql import DataFrame

from tests.spark.conftest import Fill

Read = Callable[..., DataFrame]


def test_all_records_of_a_topic_are_rows(fill: Fill, read: Read, topic: str) -> None:
    fill({"key": b"k%d" % n, "value": b"v%d" % n, "timestamp": 1_000 + n} for n in range(1000))

    rows = read().orderBy("offset").collect()

    assert [bytes(row.value) for row in rows] == [b"v%d" % n for n in range(1000)]
    assert [bytes(row.key) for row in rows] == [b"k%d" % n for n in range(1000)]
    assert [row.offset for row in rows] == list(range(1000))
    assert {(row.topic, row.partition, row.timestampType) for row in rows} == {(topic, 0, 0)}
    assert rows[7].timestamp.timestamp() == 1.007
