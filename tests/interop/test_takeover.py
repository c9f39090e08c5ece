"""Our broker on the log directory of a real Kafka: clients consume the same records."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.golden.observe import as_json, read_partition
from tests.interop.trees import enter_topics
from tests.support.broker import BrokerProcess
from tests.support.clients import Message
from tests.support.confluent_client import ConfluentClient

GOLDEN = Path(__file__).parent.parent / "golden" / "kafka-3.9.1"


@pytest.fixture(params=["clean", "killed"])
def state(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def broker(state: str, tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path)
    shutil.copytree(GOLDEN / state, process.data)
    enter_topics(process.data, {"retention.ms": "-1"})
    process.start()
    yield process
    process.close()


@pytest.fixture
def described(state: str) -> dict[str, Any]:
    known: dict[str, Any] = json.loads((GOLDEN / f"{state}.json").read_text())["partitions"]
    return known


def test_a_broker_on_kafkas_files_serves_every_record(
    broker: BrokerProcess, described: dict[str, Any]
) -> None:
    client = ConfluentClient(broker.bootstrap)
    for name, partition in described.items():
        records = read_partition(client, name.removesuffix("-0"))
        assert [as_json(record) for record in records] == partition["records"], name
        assert all(record.log_append_time == partition["log_append_time"] for record in records)
    broker.stop()


def test_a_broker_on_kafkas_files_appends_where_kafka_ended(
    broker: BrokerProcess, described: dict[str, Any]
) -> None:
    client = ConfluentClient(broker.bootstrap)
    message = Message(b"one more", b"key", (), described["segments-0"]["times"][-1][0])
    for name in ("segments", "idempotent", "deleted", "preallocated", "empty"):
        offsets = client.produce(name, [message], idempotent=True)
        assert offsets == [described[f"{name}-0"]["end"]], name
    broker.kill()
    broker.start()
    records = read_partition(client, "segments")
    assert [as_json(record) for record in records[:-1]] == described["segments-0"]["records"]
    assert records[-1].message == message
    broker.stop()
