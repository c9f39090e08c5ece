"""Reads with `kafka.isolation.level=read_committed`: aborted and open transactions, failover."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from barnabas.spark.source.query import Query
from barnabas.spark.source.source_options import SourceOptions
from tests.spark.conftest import Fill, started
from tests.spark.test_failover import create
from tests.spark.test_read_task import read_all, read_options
from tests.spark.transactions import abort, begun, commit, commit_abort_commit
from tests.support.broker import BrokerProcess
from tests.support.cluster import Cluster

COMMITTED = {"kafka.isolation.level": "read_committed"}
UNCOMMITTED = {"kafka.isolation.level": "read_uncommitted"}


def names(values: list[bytes]) -> dict[str, int]:
    """How many records each transaction has in the values."""
    found: dict[str, int] = {}
    for value in values:
        found[value.decode()[0]] = found.get(value.decode()[0], 0) + 1
    return found


def test_a_batch_read_ends_before_the_first_open_transaction(
    fill: Fill, served: BrokerProcess, topic: str
) -> None:
    fill()
    commit_abort_commit(served.bootstrap, topic)
    opened = begun(served.bootstrap, "d", topic)
    commit(begun(served.bootstrap, "e", topic), served.bootstrap, topic)

    def found(level: dict[str, str]) -> dict[str, int]:
        return names(read_all(read_options(served.bootstrap, topic, **level)))

    assert found(UNCOMMITTED) == dict.fromkeys("abcde", 5)
    assert found(COMMITTED) == {"a": 5, "c": 5}
    abort(opened, served.bootstrap, topic)
    assert found(COMMITTED) == {"a": 5, "c": 5, "e": 5}


def test_a_stream_waits_for_an_open_transaction(
    fill: Fill, served: BrokerProcess, topic: str
) -> None:
    fill()
    commit(begun(served.bootstrap, "a", topic), served.bootstrap, topic)
    opened = begun(served.bootstrap, "b", topic)
    given = {"kafka.bootstrap.servers": served.bootstrap, "subscribe": topic}
    options = SourceOptions.of(
        {**given, **COMMITTED, "startingOffsets": "earliest"}, streaming=True
    )
    with closing(Query(options)) as query:
        end = query.latest(query.initial(), ReadAllAvailable())
        assert end[topic]["partitions"]["0"]["offset"] == 6, "five records and a marker"
        commit(opened, served.bootstrap, topic)
        assert query.latest(end, ReadAllAvailable())[topic]["partitions"]["0"]["offset"] == 12


def test_spark_returns_committed_records_in_batch_and_in_stream(
    fill: Fill,
    read: Callable[..., DataFrame],
    spark: SparkSession,
    served: BrokerProcess,
    topic: str,
    tmp_path: Path,
) -> None:
    fill()
    commit_abort_commit(served.bootstrap, topic)
    opened = begun(served.bootstrap, "d", topic)
    expected = {"a": 5, "c": 5}

    batch = started(lambda: read(**COMMITTED).select("value").collect())
    assert names([bytes(row.value) for row in batch]) == expected

    frame = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", served.bootstrap)
        .options(**COMMITTED, subscribe=topic, startingOffsets="earliest")
        .load()
    )
    assert _streamed(frame, tmp_path) == expected
    commit(opened, served.bootstrap, topic)
    assert _streamed(frame, tmp_path) == {"d": 5}


def _streamed(frame: DataFrame, folder: Path) -> dict[str, int]:
    """The records of a query that resumes from its checkpoint and ends at the current end."""
    rows: list[Any] = []

    def go() -> None:
        rows.clear()
        query = (
            frame.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .foreachBatch(lambda batch, _: rows.extend(batch.collect()))
            .start()
        )
        query.awaitTermination()

    started(go)
    return names([bytes(row.value) for row in rows])


@pytest.mark.long
def test_a_new_leader_knows_which_transactions_are_aborted_and_which_are_open(
    tmp_path: Path, zookeeper_chroot: str
) -> None:
    topic = "orders"
    with Cluster(tmp_path, zookeeper_chroot) as cluster:
        create(cluster.bootstrap)
        commit_abort_commit(cluster.bootstrap, topic)
        opened = begun(cluster.bootstrap, "d", topic)
        commit(begun(cluster.bootstrap, "e", topic), cluster.bootstrap, topic)

        def found() -> dict[str, int]:
            return names(read_all(read_options(cluster.bootstrap, topic, **COMMITTED)))

        assert found() == {"a": 5, "c": 5}
        cluster.brokers[cluster.leader(topic)].kill()
        assert found() == {"a": 5, "c": 5}
        commit(opened, cluster.bootstrap, topic)
        assert found() == {"a": 5, "c": 5, "d": 5, "e": 5}
