"""kafka-reassign-partitions of Apache Kafka, and ours, move replicas between our log directories.

Optional: skipped, with the reason, where Apache Kafka is not available.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cli.conftest import Barnabas, offline
from tests.support.apache_kafka import apache_kafka
from tests.support.broker import BrokerProcess
from tests.support.clients import Message
from tests.support.cluster import until
from tests.support.confluent_client import ConfluentAdmin, ConfluentClient

__all__ = ["offline"]

pytestmark = pytest.mark.timeout(300)

REASSIGN: Final = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LOG_DIRS: Final = "org.apache.kafka.tools.LogDirsCommand"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    folders = ",".join(str(tmp_path / name) for name in ("one", "two"))
    process = BrokerProcess(tmp_path, [f"log.dirs={folders}", "log.segment.bytes=1000000"])
    process.start()
    yield process
    process.close()


def place(broker: BrokerProcess) -> tuple[Path, Path]:
    one, two = broker.log_folders
    return (one, two) if (one / "orders-0").exists() else (two, one)


def plan(broker: BrokerProcess, tmp_path: Path, log_dir: Path) -> Path:
    entry = {"topic": "orders", "partition": 0, "replicas": [0], "log_dirs": [str(log_dir)]}
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    return file


def test_kafkas_tool_and_ours_move_a_replica(
    broker: BrokerProcess, offline: Barnabas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = apache_kafka()
    ConfluentAdmin(broker.bootstrap).create_topic("orders")
    client = ConfluentClient(broker.bootstrap)
    client.produce("orders", [Message(b"%d" % n + b"x" * 1000) for n in range(3000)])
    source, target = place(broker)
    at = ("--bootstrap-server", broker.bootstrap)
    with_plan = (*at, "--reassignment-json-file", plan(broker, tmp_path, target))
    limited = ("--replica-alter-log-dirs-throttle", "10000000")
    told = kafka.run(REASSIGN, *with_plan, "--execute", *limited)
    assert "Successfully started moving log directory" in told, told
    until(lambda: place(broker) == (target, source), "the replica in the other log directory")
    verified = kafka.run(REASSIGN, *with_plan, "--verify")
    assert "is completed" in verified, verified
    described = kafka.run(LOG_DIRS, *at, "--describe", "--topic-list", "orders")
    (line,) = [each for each in described.splitlines() if each.startswith("{")]
    (told_broker,) = json.loads(line)["brokers"]
    places = {each["logDir"]: each["partitions"] for each in told_broker["logDirs"]}
    (replica,) = places[str(target)]
    assert (replica["partition"], replica["offsetLag"], replica["isFuture"]) == (
        "orders-0",
        0,
        False,
    )
    assert places[str(source)] == []

    monkeypatch.setenv("BARNABAS_BOOTSTRAP", broker.bootstrap)
    ended = offline("reassign", "run", "--file", plan(broker, tmp_path, source), "--timeout", 60)
    assert ended.code == 0, ended.err
    assert b"in the requested log directories: 1 replica" in ended.out
    assert place(broker) == (source, target)
    assert len(client.produce("orders", [Message(b"after")])) == 1
    ended = offline("reassign", "run", "--file", plan(broker, tmp_path, Path("/nowhere")))
    assert (ended.code, "LOG_DIR_NOT_FOUND" in ended.err.upper()) == (1, True), ended.err
