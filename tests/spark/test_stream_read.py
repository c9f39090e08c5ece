"""Streaming reads with a real Spark session: options and triggers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.conftest import Fill, create_topic, make_again, produce, started
from tests.support.broker import BrokerProcess

Stream = Callable[..., DataFrame]


@pytest.fixture
def stream(spark: SparkSession, served: BrokerProcess, topic: str) -> Stream:
    """A streaming read of the test's topic, from its beginning unless options say otherwise."""

    def load(**options: str) -> DataFrame:
        reader = spark.readStream.format("barnabas")
        reader = reader.option("kafka.bootstrap.servers", served.bootstrap)
        if not options.keys() & {"subscribe", "subscribePattern", "assign"}:
            reader = reader.option("subscribe", topic)
        return reader.options(**{"startingOffsets": "earliest"} | options).load()

    return load


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[list[Any], list[int]]]:
    """Run a query up to the current end; return its rows and the row count of each batch."""

    def once(frame: DataFrame, name: str = "query") -> tuple[list[Any], list[int]]:
        rows: list[Any] = []
        sizes: list[int] = []

        def take(batch: DataFrame, _: int) -> None:
            found = batch.collect()
            rows.extend(found)
            sizes.append(len(found))

        def go() -> None:
            query = (
                frame.writeStream.queryName(name)
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .foreachBatch(take)
                .start()
            )
            query.awaitTermination()

        started(go)
        return rows, sizes

    return once


Run = Callable[..., tuple[list[Any], list[int]]]


def test_available_now_reads_to_the_end_and_resumes_from_the_checkpoint(
    fill: Fill, stream: Stream, run: Run, served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """As much to a batch as is allowed; where it is shows in a group named by the query."""
    fill([{"value": b"%d" % n, "partition": n % 2} for n in range(50)], partitions=2)
    create_topic(served.bootstrap, f"{topic}-other")

    first, sizes = run(stream(maxOffsetsPerTrigger="30"), name=f"{topic}-query")
    produce(served.bootstrap, topic, [{"value": b"%d" % n, "partition": 1} for n in (50, 51)])
    second, _ = run(stream(), name=f"{topic}-query")

    assert sorted(int(row.value) for row in first) == list(range(50))
    assert sizes == [30, 20]
    assert [int(row.value) for row in second] == [50, 51]
    lines = (tmp_path / "checkpoint" / "offsets" / "2").read_text().splitlines()
    kept = json.loads(lines[-1])[topic]
    assert len(kept["id"]) == 36
    assert kept["partitions"]["1"] == {"offset": 27, "leaderEpoch": 0}
    assert committed(served, f"spark-{topic}-query", topic) == [25, 27]

    with pytest.raises(PySparkException) as told:
        run(stream(subscribe=f"{topic}-other"))
    assert f"the checkpoint is for topic {topic} but the query reads {topic}-other" in str(
        told.value
    )
    assert "Traceback" not in str(told.value)


def committed(served: BrokerProcess, group: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": served.bootstrap, "group.id": group})
    try:
        found = consumer.committed([TopicPartition(topic, n) for n in range(2)], timeout=30)
    finally:
        consumer.close()
    return [each.offset for each in found]


@pytest.mark.long  # as without Spark, in test_query.py
def test_a_recreated_topic_fails_the_query_or_is_read_from_its_beginning(
    fill: Fill, stream: Stream, run: Run, served: BrokerProcess, topic: str
) -> None:
    fill([{"value": b"x"}] * 3)
    run(stream())
    make_again(served.bootstrap, topic)
    produce(served.bootstrap, topic, [{"value": b"new"}] * 2)

    with pytest.raises(PySparkException, match=f"topic {topic} was deleted and recreated"):
        run(stream())
    rows, _ = run(stream(failOnDataLoss="false"))
    assert [row.value for row in rows] == [b"new"] * 2
