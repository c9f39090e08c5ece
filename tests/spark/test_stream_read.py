"""Streaming reads of real topics by a real Spark session: what each option and trigger does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.conftest import Fill, produce, started
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
    """Run a query over all that is there; gives its rows, and how many each batch had."""

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


def test_available_now_reads_what_is_there_and_goes_on_from_the_checkpoint(
    fill: Fill, stream: Stream, run: Run, served: BrokerProcess, topic: str
) -> None:
    fill([{"value": b"%d" % n, "partition": n % 3} for n in range(90)], partitions=3)

    first, _ = run(stream())
    produce(served.bootstrap, topic, [{"value": b"%d" % n, "partition": 1} for n in (90, 91)])
    second, _ = run(stream())

    assert sorted(int(row.value) for row in first) == list(range(90))
    assert [int(row.value) for row in second] == [90, 91]


def test_a_batch_takes_no_more_than_max_offsets_per_trigger(
    fill: Fill, stream: Stream, run: Run
) -> None:
    fill([{"value": b"%d" % n, "partition": n % 2} for n in range(50)], partitions=2)

    rows, sizes = run(stream(maxOffsetsPerTrigger="20"))

    assert sorted(int(row.value) for row in rows) == list(range(50))
    assert sizes == [20, 20, 10]


def test_the_checkpoint_carries_topic_id_and_leader_epoch(
    fill: Fill, stream: Stream, run: Run, topic: str, tmp_path: Path
) -> None:
    fill([{"value": b"x"}])

    run(stream())

    lines = (tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()
    kept = json.loads(lines[-1])[topic]
    assert len(kept["id"]) == 36
    assert kept["partitions"]["0"] == {"offset": 1, "leaderEpoch": 0}
