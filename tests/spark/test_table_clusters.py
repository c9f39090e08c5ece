"""`barnabas pipeline table` on a standalone cluster of two workers, and through Spark Connect."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from barnabas.base.ports import free_port
from tests.spark.conftest import create_topic, produce
from tests.spark.connect_server import STARTED_WITHIN_S, answers, connect_server
from tests.spark.spark_home import spark_home
from tests.spark.test_clusters import ENDED_WITHIN_S, SMALL, command, ended, fill, pipeline
from tests.spark.test_table_run import FORMATS, rows
from tests.support.broker import BrokerProcess
from tests.support.cluster import until

__all__ = ["pipeline"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(3_000)]

WORKERS: Final = 2
Pipeline = Callable[..., Any]


@contextmanager
def spark_process(folder: Path, home: Path, name: str, *arguments: str) -> Iterator[Path]:
    """A master or a worker; its log."""
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(home / "bin/spark-class"), *arguments],
            cwd=folder,
            env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield log
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """The address of a master with two workers."""
    port, home = free_port(), spark_home(folder)
    here = ("--host", "127.0.0.1", "--webui-port", "0")
    with ExitStack() as stack:
        master = ("org.apache.spark.deploy.master.Master", *here, "--port", str(port))
        log = stack.enter_context(spark_process(folder, home, "master", *master))
        until(lambda: answers(port), "the master to listen", STARTED_WITHIN_S)
        address = f"spark://127.0.0.1:{port}"
        for number in range(WORKERS):
            options = ("-c", "1", "-m", "1g", "-d", str(folder / f"work-{number}"), *here)
            worker = ("org.apache.spark.deploy.worker.Worker", *options, address)
            stack.enter_context(spark_process(folder, home, f"worker-{number}", *worker))
        until(
            lambda: log.read_text().count("Registering worker") == WORKERS,
            "the workers to register",
            STARTED_WITHIN_S,
        )
        yield address


@pytest.fixture(scope="module", params=["standalone", "connect"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, ...]]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "connect":
        with connect_server(folder) as address:
            yield ("--remote", address)
    else:
        with standalone(folder) as address:
            yield ("--master", address, *SMALL)


@pytest.mark.parametrize("format", FORMATS)
def test_a_table_is_written_audited_and_replayed(
    format: str, pipeline: Pipeline, served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create_topic(served.bootstrap, topic, 2)
    fill(served, topic)
    table = tmp_path / "table"
    options = ("--format", format, "--schema", "id BIGINT", "--step", 30)
    wanted = ("table", topic, "--to", table, *options)

    assert pipeline(*wanted)["rows"] == 50
    assert pipeline(*wanted)["records"] == 0
    assert sorted(row["id"] for row in rows(format, table)) == list(range(50))
    assert pipeline("audit", "--table", table)["compared"] == 50
    replayed = pipeline("replay", topic, "--from-table", table, "--to", f"{topic}-again")
    assert replayed["records"] == 50


@pytest.mark.parametrize("format", FORMATS)
def test_an_upserted_table_has_the_latest_of_each_key(
    format: str, pipeline: Pipeline, served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create_topic(served.bootstrap, topic, 2)
    table = tmp_path / "table"
    wanted = ("table", topic, "--to", table, "--format", format, "--upsert")
    for value in ("old", "new"):
        records = ({"key": f"k{n}", "value": value, "partition": n % 2} for n in range(10))
        produce(served.bootstrap, topic, records)
        assert pipeline(*wanted)["rows"] == 10
    assert [row["value"] for row in rows(format, table)] == [b"new"] * 10


def fill_at_once(broker: BrokerProcess, topic: str, name: str) -> None:
    """Fifty records, which one look of the command sees all or not at all."""
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topic}-{name}"}
    producer = Producer(settings)
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(50):
        producer.produce(topic, b"%d" % number)
    producer.commit_transaction(60)


def test_a_continuous_table_waits_for_more_records_than_its_max_lag(
    place: tuple[str, ...], served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create_topic(served.bootstrap, topic)
    fill_at_once(served, topic, "first")
    table = tmp_path / "table"
    options = ("table", topic, "--to", table, "--max-lag", 60, "--continuous", "--every", 0.5)
    process = command(tmp_path, served, *options, "--json", *place)

    def count() -> int:
        return len(rows("delta", table)) if (table / "_delta_log").exists() else 0

    try:
        until(lambda: process.poll() is not None or count() == 50, "rows", ENDED_WITHIN_S)
        fill_at_once(served, topic, "second")  # not more than the lag that is allowed
        fill_at_once(served, topic, "third")
        until(lambda: process.poll() is not None or count() == 150, "rows", ENDED_WITHIN_S)
        # The last step may have been ended when all was written, before it was counted.
        assert ended(process)["records"] >= 50
    finally:
        process.kill()
    history = [each for each in DeltaTable(str(table)).history() if "barnabas.state" in each]
    assert len(history) == 2
