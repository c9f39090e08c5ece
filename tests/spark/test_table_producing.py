"""The one view over table and topic while producers go on: it agrees with the log at every look."""

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from barnabas.spark.table_log.table_directory import TableDirectory
from barnabas.spark.table_log.table_log import open_log
from tests.spark.conftest import create_topic, started
from tests.spark.table_process import TableProcess
from tests.spark.test_table_view import View, view
from tests.support.background import in_background
from tests.support.broker import BrokerProcess
from tests.support.cluster import until

__all__ = ["view"]

# `make tables` has ten million.
RECORDS: Final = int(os.environ.get("BARNABAS_TABLE_RECORDS", "200000"))
PARTITIONS: Final = 4
LOOKS: Final = 5
STEPS: Final = 8
COVERED_WITHIN_S: Final = 900
CHECKSUM: Final = (
    "crc32(concat(value, encode(concat(offset, ' ', unix_millis(timestamp)), 'utf-8'))) AS checksum"
)
# A Parquet table has no snapshots.
REPLACED: Final = "upkeep has replaced it since the query began"

Totals = dict[int, tuple[int, int, int]]


class Producing:
    """Sends records to the partitions in turns; all that it sent is acknowledged at the end."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all"}
        self._client = Producer(settings)
        self._topic = topic
        self.sent = 0

    def send(self, records: int) -> None:
        for number in range(self.sent, self.sent + records):
            value = b"%d-" % number + 5 * hashlib.md5(b"%d" % number).digest()
            while True:
                try:
                    self._client.produce(self._topic, value, partition=number % PARTITIONS)
                    break
                except BufferError:
                    self._client.poll(0.1)
        self.sent += records

    def flush(self) -> None:
        assert self._client.flush(60) == 0

    @contextmanager
    def going_on(self) -> Iterator[None]:
        def send(stop: threading.Event) -> None:
            while not stop.wait(0.001):
                self.send(20)
            self.flush()

        with in_background(send):
            yield


def totals(rows: DataFrame) -> Totals:
    """By partition the offset after the last one, the number of rows, and their checksum."""
    found = rows.selectExpr("partition", "offset", CHECKSUM).groupBy("partition")
    sums = found.agg(f.max("offset") + 1, f.count(f.lit(1)), f.sum("checksum"))
    return {row[0]: (row[1], row[2], row[3]) for row in started(sums.collect)}


def look(view: View) -> Totals:
    while True:
        try:
            return totals(view())
        except PySparkException as failure:
            if REPLACED not in str(failure):
                raise


@pytest.mark.long
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("format", ["delta", "iceberg", "parquet"])
def test_view_and_log_agree_at_every_look_while_the_topic_and_its_table_grow(
    format: str, spark: SparkSession, view: View, served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create_topic(served.bootstrap, topic, PARTITIONS)
    producing = Producing(served.bootstrap, topic)
    producing.send(RECORDS)
    producing.flush()
    options = ("--format", format, "-b", served.bootstrap, "--step", RECORDS // STEPS)
    log = open_log(TableDirectory(str(tmp_path / "table")), format)

    def covered() -> int:
        found = log.load()
        return found.state.rows if found is not None else 0

    def from_log(ends: dict[int, int]) -> DataFrame:
        reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", served.bootstrap)
        ending = json.dumps({topic: ends})
        return reader.option("subscribe", topic).option("endingOffsets", ending).load()

    with producing.going_on():
        command = TableProcess(tmp_path, (topic, *options, "--continuous", "--every", 0.5))
        try:
            looks = seen = 0
            until(lambda: bool(covered()) or not command.is_running, "rows", COVERED_WITHIN_S)
            while looks < LOOKS or covered() < RECORDS:
                assert command.is_running, command.output
                in_table, began = covered(), time.monotonic()
                found = look(view)
                took = time.monotonic() - began
                assert found == totals(from_log({n: end for n, (end, *_) in found.items()}))
                count = sum(rows for _, rows, _ in found.values())
                assert count == sum(end for end, *_ in found.values()) > seen
                assert count >= RECORDS
                looks, seen = looks + 1, count
                print(f"{format}: {in_table:,} of {count:,} rows in the table; {took:.1f} s")
        finally:
            command.kill()
