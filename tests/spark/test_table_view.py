"""One view over a table and its topic: no gap, no overlap, files that cannot match are skipped."""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import EqualTo, GreaterThan

from barnabas.spark.source.table_view import may_match
from barnabas.spark.table_log.table_file import TableFile
from tests.spark.conftest import Fill, produce, started
from tests.spark.test_table_run import SOME, Table, summary, table
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import admin

__all__ = ["table"]

View = Callable[..., DataFrame]


@pytest.fixture
def view(spark: SparkSession, served: BrokerProcess, tmp_path: Path) -> View:
    """The table and the rest of its topic."""

    def load() -> DataFrame:
        reader = spark.read.format("barnabas").option("table", str(tmp_path / "table"))
        return reader.option("kafka.bootstrap.servers", served.bootstrap).load()

    return load


def values(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [
        {"value": json.dumps({"id": n, "key": f"k{n}"}), "partition": n % 2, "timestamp": n + 1}
        for n in range(first, first + count)
    ]


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    from confluent_kafka import TopicPartition

    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    wanted = [TopicPartition(topic, number, before) for number in (0, 1)]
    for each in client.delete_records(wanted).values():
        each.result(60)


@pytest.mark.parametrize("format", SOME)
def test_the_view_has_every_record_once_also_those_that_the_topic_lost(
    format: str, fill: Fill, table: Table, view: View, served: BrokerProcess, topic: str
) -> None:
    schema = ("--schema", "id BIGINT, key STRING", "--partition-by", "day")
    fill(values(20), partitions=2)
    summary(table(format, *schema))
    produce(served.bootstrap, topic, values(10, 20))
    delete_records(served.bootstrap, topic, 5)

    found = view()
    assert sorted(row.id for row in found.select("id").collect()) == list(range(30))
    assert {row.value_key for row in found.collect()} == {f"k{n}" for n in range(30)}
    assert {str(row.day) for row in found.collect()} == {"1970-01-01"}
    assert [row.id for row in found.where("offset = 14 AND partition = 1").collect()] == [29]
    summary(table(format, *schema))
    assert sorted(row.id for row in view().collect()) == list(range(30))


def test_a_stream_of_the_view_begins_with_the_table_and_goes_on_with_the_topic(
    spark: SparkSession, fill: Fill, table: Table, served: BrokerProcess, topic: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    fill(values(10), partitions=2)
    summary(table("delta"))
    delete_records(served.bootstrap, topic, 5)

    def run() -> list[tuple[int, int]]:
        read = spark.readStream.format("barnabas").option("table", str(tmp_path / "table"))
        query = (
            read.option("kafka.bootstrap.servers", served.bootstrap)
            .option("maxOffsetsPerTrigger", "6")
            .load()
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows = spark.read.parquet(str(tmp_path / "out")).select("partition", "offset").collect()
        return sorted((row[0], row[1]) for row in rows)

    assert started(run) == [(number, offset) for number in (0, 1) for offset in range(5)]
    produce(served.bootstrap, topic, values(6, 10))
    assert started(run) == [(number, offset) for number in (0, 1) for offset in range(8)]


def test_files_whose_statistics_exclude_a_filter_are_skipped() -> None:
    day = {"day": "2026-11-18", "shard": "3", "none": None}
    file = TableFile("a.parquet", 1, 1, day, {"id": (5, 9), "name": ("b", "d")})
    assert may_match(file, [EqualTo(("id",), 7), GreaterThan(("name",), "c")])
    assert not may_match(file, [GreaterThan(("id",), 9)])
    assert not may_match(file, [EqualTo(("name",), "a")])
    assert may_match(file, [EqualTo(("other",), 1), EqualTo(("none",), 1)])
    assert may_match(file, [EqualTo(("day",), date(2026, 11, 18)), EqualTo(("shard",), 3)])
    assert not may_match(file, [GreaterThan(("day",), date(2026, 11, 18))])
    assert not may_match(file, [EqualTo(("shard",), 4)])
