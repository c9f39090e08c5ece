"""The one view over table and topic while producers go on: it agrees with the log at every look."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.spark.conftest import Fill
from tests.spark.test_table_run import Table, summary, table
from tests.spark.test_table_view import View, view
from tests.support.background import in_background
from tests.support.broker import BrokerProcess

__all__ = ["table", "view"]

RECORDS: Final = 200_000
PARTITIONS: Final = 4
LOOKS: Final = 4
STEP: Final = 150_000


def value(number: int) -> bytes:
    return b"%d-" % number + hashlib.md5(b"%d" % number).digest()


@contextmanager
def producing(bootstrap: str, topic: str) -> Iterator[None]:
    """A producer in the background; all that it sent is acknowledged at the end."""

    def produce(stop: threading.Event) -> None:
        client, number = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5}), RECORDS
        while not stop.wait(0.001):
            for _ in range(20):
                client.produce(topic, value(number), partition=number % PARTITIONS)
                number += 1
            client.poll(0)
        assert client.flush(60) == 0

    with in_background(produce):
        yield


def totals(rows: DataFrame, ends: dict[int, int]) -> list[tuple[int, int, int]]:
    """Partition, number of rows and checksum below the given ends."""
    below = " OR ".join(f"(partition = {n} AND offset < {end})" for n, end in ends.items())
    found = rows.where(below).groupBy("partition").agg(f.count(f.lit(1)), f.sum("checksum"))
    return [(row[0], row[1], row[2]) for row in found.orderBy("partition").collect()]


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("format", ["delta", "iceberg", "parquet"])
def test_view_and_log_agree_at_every_look_while_producers_go_on(
    format: str, spark: SparkSession, fill: Fill, table: Table, view: View,
    served: BrokerProcess, topic: str, tmp_path: Path,
) -> None:  # fmt: skip
    fill(({"value": value(n), "partition": n % PARTITIONS} for n in range(RECORDS)), PARTITIONS)
    checksum = "crc32(value) + offset AS checksum"
    log = spark.read.format("barnabas").option("kafka.bootstrap.servers", served.bootstrap)
    seen = 0
    with producing(served.bootstrap, topic):
        for _ in range(LOOKS):
            summary(table(format, "--step", STEP))
            found = view().selectExpr("partition", "offset", checksum).cache()
            counts = found.groupBy("partition").agg({"offset": "max"}).collect()
            ends = {row[0]: row[1] + 1 for row in counts}
            records = log.option("subscribe", topic).load()
            logged = totals(records.selectExpr("partition", "offset", checksum), ends)
            assert totals(found, ends) == logged
            assert sum(row[1] for row in logged) == sum(ends.values()) > seen
            seen = sum(ends.values())
            found.unpersist()
    assert seen > RECORDS
