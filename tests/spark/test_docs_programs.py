"""The programs of docs/quickstart.md and docs/spark.md run, and so do the commands of a backup."""

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.commands import barnabas
from tests.spark.conftest import create_topic, produce, started
from tests.support.broker import BrokerProcess
from tests.support.documents import BIN, TITLED, blocks, document
from tests.support.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def here(text: str, broker: BrokerProcess, topic: str, folder: Path) -> str:
    """A block for this broker, with the test's own topic and directory."""
    local = text.replace("127.0.0.1:9092", broker.bootstrap).replace("./checkpoints", f"{folder}")
    return re.sub(r"(?<=[\"'])orders(?=[\"'])", topic, local)


def test_the_spark_job_of_the_quick_start_shows_what_was_sent(
    served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    ((_, program),) = TITLED.findall(document("docs/quickstart.md"))
    create_topic(served.bootstrap, topic)
    produce(served.bootstrap, topic, [{"value": b'{"id": 1, "cents": 250}'}])
    ran = subprocess.run(
        [sys.executable, "-c", here(program, served, topic, tmp_path)],
        env={**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert re.search(r"\| *1\| *250\|", ran.stdout), ran.stdout


def test_the_programs_and_queries_of_the_page_on_spark_run(
    spark: SparkSession, served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create_topic(served.bootstrap, topic)
    produce(served.bootstrap, topic, [{"value": b"1"}])
    page = document("docs/spark.md")
    read, pushdown, write = (here(each, served, topic, tmp_path) for each in blocks(page, "python"))
    names: dict[str, Any] = {"spark": spark}
    exec(pushdown, names)
    started(partial(exec, read, names))
    assert started(names["orders"].count) == 1
    assert started(spark.table("revenue").count) == 1
    names["df"] = spark.createDataFrame([(7, 2.5)], "id INT, cents DOUBLE")
    names["stream"] = spark.readStream.format("rate").load().selectExpr("cast(value AS STRING)")
    started(partial(until_a_batch_is_done, spark, write, names))
    (queries,) = blocks(page, "sql")
    statements = [
        each for each in here(queries, served, topic, tmp_path).split(";") if each.strip()
    ]
    counted = [started(partial(collected, spark, each)) for each in statements]
    assert all(row["count(1)"] > 2 for row in (counted[1][0], counted[3][0])), "with the stream's"


def until_a_batch_is_done(spark: SparkSession, program: str, names: dict[str, Any]) -> None:
    """Run a program that starts a query; stop the query when it has done its first batch of rows.

    Raises  the failure of the query
    """
    exec(program, names)
    queries = spark.streams.active
    try:
        for query in queries:
            until(partial(has_failed_or_rows, query), f"rows of {query.id}", 300)
            if (failure := query.exception()) is not None:
                raise failure
    finally:
        for query in queries:
            query.stop()


def has_failed_or_rows(query: StreamingQuery) -> bool:
    done = (progress.numInputRows > 0 for progress in query.recentProgress)
    return query.exception() is not None or any(done)


def collected(spark: SparkSession, statement: str) -> list[Row]:
    return spark.sql(statement).collect()


def test_a_topic_comes_back_from_its_backup(
    served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """The commands of docs/backup.md, one after the other."""
    create_topic(served.bootstrap, topic, partitions=3)
    produce(served.bootstrap, topic, [{"value": b"%d" % n, "partition": n % 3} for n in range(9)])
    for line in "".join(blocks(document("docs/backup.md"), "sh")).splitlines():
        words = line.replace("./backup", f"{tmp_path}/backup").split()[1:]
        words = [re.sub(r"^orders", topic, word) for word in words]
        words = [str(served.data) if word == "./barnabas-data" else word for word in words]
        connect = () if words[:2] == ["pipeline", "audit"] else ("-b", served.bootstrap)
        ended = barnabas(*words, *connect)
        assert ended.code == 0, (line, ended)
    ended = barnabas("consume", f"{topic}-restored", "-b", served.bootstrap)
    assert sorted(ended.out.split()) == sorted(str(n) for n in range(9))
