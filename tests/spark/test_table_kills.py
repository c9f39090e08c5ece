"""SIGKILL to `barnabas pipeline table`, to Spark and to brokers: each record is there once."""

import json
import os
import random
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.spark.conftest import create_topic, produce
from tests.spark.connect_server import connect_server
from tests.spark.copying import EXECUTORS
from tests.spark.table_process import TableProcess, committed, run_table
from tests.spark.test_table_run import rows
from tests.spark.written import values
from tests.support.broker import BrokerProcess
from tests.support.cluster import Cluster, until
from tests.support.confluent_client import admin
from tests.support.zookeeper import zookeeper, zookeeper_chroot

__all__ = ["zookeeper", "zookeeper_chroot"]

FORMATS: Final = ("delta", "iceberg", "parquet")
RECORDS: Final = 80
KEYS: Final = 7
BAD: Final = (0, 50)
SCHEMA: Final = ("--schema", "n BIGINT")
WIDER: Final = ("--schema", "n BIGINT, m BIGINT")
FIRST: Final = (
    "before-write", "written", "placed", "dead-letters", "before-commit", "half-committed",
    "committed", "before-upkeep",
)  # fmt: skip
# After two commits of Delta and three of the others. The step with the eighth file merges.
MERGE: Final = {"delta": ("placed:7", "expiring"), "iceberg": ("placed:6", "half-committed:2"),
                "parquet": ("placed:6", "half-committed:2")}  # fmt: skip

pytestmark = [pytest.mark.long, pytest.mark.timeout(3_000)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("server")) as address:
        yield address


def record(number: int) -> dict[str, Any]:
    value = "bad" if number in BAD else json.dumps({"n": number, "m": -number})
    return {"key": f"k{number % KEYS}", "value": value, "partition": number % KEYS % 2}


def fill(bootstrap: str, topic: str, records: int = RECORDS) -> None:
    create_topic(bootstrap, topic, 2)
    produce(bootstrap, topic, map(record, range(records)))


def expected(records: int = RECORDS) -> list[int]:
    return [number for number in range(records) if number not in BAD]


def check(format: str, table: Path, upsert: bool, records: int = RECORDS) -> None:
    """All that was sent is in the table once; of an upserted one the last of each key."""
    found = sorted(row["n"] for row in rows(format, table))
    good = expected(records)
    if upsert:
        last = {number % KEYS: number for number in good}
        good = sorted(last.values())
    assert found == good


@pytest.mark.parametrize("upsert", [False, True], ids=["append", "upsert"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_command_killed_at_every_point_leaves_each_record_once(
    format: str, upsert: bool, served: BrokerProcess, server: str, topic: str, tmp_path: Path
) -> None:
    """The Connect server survives the command, and may still write what the command asked for."""
    fill(served.bootstrap, topic)
    table = tmp_path / "table"
    common = (topic, "--format", format, "-b", served.bootstrap, "--remote", server)
    options = (*common, *(["--upsert"] if upsert else []))

    def run(point: str, *schema: str, step: int = 4) -> int:
        code = run_table(tmp_path, (*options, *schema, "--step", step), point)
        found = [row["n"] for row in committed(format, table)] if table.exists() else []
        assert len(found) == len(set(found)), point
        return code

    points = [each for each in FIRST if (format, each) != ("delta", "half-committed")]
    points += [] if upsert else MERGE[format]
    for point in points:
        assert run(point, *SCHEMA) == -signal.SIGKILL, point
    if format == "delta":
        assert run("columns-added", *WIDER) == -signal.SIGKILL
    assert run("", *WIDER, step=RECORDS) == 0

    check(format, table, upsert)
    assert len(values(served.bootstrap, f"{topic}-dead-letters")) == len(BAD)


@pytest.mark.parametrize(
    ("format", "upsert"),
    [("delta", False), ("delta", True), ("iceberg", False), ("iceberg", True), ("parquet", True)],
)
def test_drivers_killed_at_random_leave_each_record_once(
    format: str, upsert: bool, served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    fill(served.bootstrap, topic)
    chosen = random.Random(24)
    common = (topic, "--format", format, "-b", served.bootstrap, "--step", 10, *SCHEMA)
    options = (*common, "--master", "local[2]", *(["--upsert"] if upsert else []))
    for _ in range(3):
        process = TableProcess(tmp_path, options)
        if process.amid_a_write():
            threading.Event().wait(chosen.uniform(0, 3))
        process.kill()
    assert TableProcess(tmp_path, options).ended() == 0
    check(format, tmp_path / "table", upsert)


@pytest.mark.parametrize(("format", "upsert"), [("delta", True), ("iceberg", False)])
def test_commands_killed_at_random_leave_each_record_once(
    format: str, upsert: bool, served: BrokerProcess, server: str, topic: str, tmp_path: Path
) -> None:
    """The command alone: the Connect server goes on with what it was asked for."""
    fill(served.bootstrap, topic)
    chosen = random.Random(24)
    common = (topic, "--format", format, "-b", served.bootstrap, "--step", 10, *SCHEMA)
    options = (*common, "--remote", server, *(["--upsert"] if upsert else []))
    for _ in range(5):
        process = TableProcess(tmp_path, options)
        if process.amid_a_write():
            threading.Event().wait(chosen.uniform(0, 3))
        process.kill()
    assert TableProcess(tmp_path, options).ended() == 0
    check(format, tmp_path / "table", upsert)
    assert len(values(served.bootstrap, f"{topic}-dead-letters")) >= len(BAD)


def test_a_driver_killed_alone_is_reported_in_one_line(
    served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    fill(served.bootstrap, topic)
    options = (topic, "-b", served.bootstrap, "--step", 10, *SCHEMA, "--master", "local[2]")
    process = TableProcess(tmp_path, options)
    assert process.amid_a_write()
    for pid in process.processes(b"org.apache.spark.deploy.SparkSubmit"):
        os.kill(pid, signal.SIGKILL)
    assert process.ended() == 1
    [said] = [line for line in process.output.splitlines() if line.startswith("barnabas: ")]
    assert "writing the table of" in said


@pytest.mark.parametrize(("format", "upsert"), [("delta", False), ("iceberg", True)])
def test_executors_killed_amid_writes_leave_each_record_once(
    format: str, upsert: bool, served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    fill(served.bootstrap, topic)
    common = (topic, "--format", format, "-b", served.bootstrap, "--step", 20, *SCHEMA)
    options = (*common, "--master", EXECUTORS, *(["--upsert"] if upsert else []))
    settings = ("spark.executor.memory=512m", "spark.task.maxFailures=20")
    given = [each for setting in settings for each in ("--conf", setting)]
    process = TableProcess(tmp_path, (*options, *given))
    killed = 0
    while killed < 3 and process.amid_a_write():
        for pid in process.processes(b"CoarseGrainedExecutorBackend")[:1]:
            os.kill(pid, signal.SIGKILL)
            killed += 1
    assert killed
    if process.ended():  # Spark gives up after some lost executors
        assert TableProcess(tmp_path, (*options, *given)).ended() == 0
    check(format, tmp_path / "table", upsert)


def test_brokers_killed_amid_writes_leave_each_record_once(
    server: str, tmp_path: Path, zookeeper_chroot: str
) -> None:
    overrides = ["min.insync.replicas=2", "default.replication.factor=3"]
    with Cluster(tmp_path / "cluster", zookeeper_chroot, 3, overrides) as cluster:
        cluster.wait_settled()
        client = admin.AdminClient({"bootstrap.servers": cluster.bootstrap})
        client.create_topics([admin.NewTopic("killed", 2, 3)])["killed"].result(60)
        produce(cluster.bootstrap, "killed", map(record, range(RECORDS)))
        options = ("killed", "-b", cluster.bootstrap, "--step", 8, *SCHEMA, "--remote", server)
        for number in range(3):
            process = TableProcess(tmp_path, options)
            process.amid_a_write()
            cluster.brokers[number].kill()
            process.ended()
            cluster.start([number])
            cluster.wait_settled()
        assert TableProcess(tmp_path, options).ended() == 0
        check("delta", tmp_path / "table", False)
        assert len(values(cluster.bootstrap, "killed-dead-letters")) == len(BAD)


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_continuous_table_outlives_the_death_of_its_brokers(
    format: str, server: str, tmp_path: Path, zookeeper_chroot: str
) -> None:
    """Of a topic with one replica: it has no leader while its broker is away."""
    with Cluster(tmp_path / "cluster", zookeeper_chroot, 2) as cluster:
        client = admin.AdminClient({"bootstrap.servers": cluster.bootstrap})
        topic = admin.NewTopic("kept", 2, replica_assignment=[[0], [1]])
        client.create_topics([topic])["kept"].result(60)
        where = ("-b", cluster.bootstrap, "--remote", server, "--continuous", "--every", 0.1)
        process = TableProcess(tmp_path, ("kept", "--format", format, *where, *SCHEMA))
        try:
            for number in (0, 1):
                sent = range(20 * number, 20 * number + 20)
                produce(cluster.bootstrap, "kept", map(record, sent))
                until(partial(has_rows, process, format, tmp_path, sent.stop), "the rows", 300)
                cluster.brokers[number].kill()
                until(partial(has_failed, process, number + 1), "the failure", 300)
                cluster.start([number])
                cluster.wait_settled()
            produce(cluster.bootstrap, "kept", map(record, range(sent.stop, RECORDS)))
            until(lambda: has_rows(process, format, tmp_path, RECORDS), "the rows", 300)
            assert process.is_running, process.output
        finally:
            process.kill()
        check(format, tmp_path / "table", False)


def has_failed(process: TableProcess, times: int) -> bool:
    return not process.is_running or process.output.count("trying again") >= times


def has_rows(process: TableProcess, format: str, folder: Path, records: int) -> bool:
    return not process.is_running or (
        (folder / "table").exists()
        and len(committed(format, folder / "table")) == len(expected(records))
    )


@pytest.mark.parametrize("format", FORMATS)
def test_of_two_commands_at_once_one_wins_and_the_other_says_so_in_one_line(
    format: str, served: BrokerProcess, server: str, topic: str, tmp_path: Path
) -> None:
    fill(served.bootstrap, topic)
    where = ("-b", served.bootstrap, "--remote", server, *SCHEMA)
    options = (topic, "--format", format, "--step", 4, *where)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "table").symlink_to(tmp_path / "table")
    first = TableProcess(tmp_path, options)
    until(lambda: has_lock(tmp_path / "table") or not first.is_running, "the first", 300)
    second = TableProcess(tmp_path / "other", options)
    codes = second.ended(), first.ended()
    assert codes == (1, 0)
    assert len(second.output.splitlines()) == 1, second.output
    assert "another process is writing to" in second.output
    check(format, tmp_path / "table", False)


def has_lock(table: Path) -> bool:
    return (table / "_lock").exists()
