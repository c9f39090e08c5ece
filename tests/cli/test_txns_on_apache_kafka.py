"""`txns` against Apache Kafka, beside Kafka's own tool for it.

Skipped where Apache Kafka is not available.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from barnabas.base.ids import TopicPartition
from barnabas.client.connection import AsyncConnection
from barnabas.client.produce import Produce, read_produce_response, write_produce_request
from barnabas.wire.records.records import Record, build_batch
from tests.cli.conftest import Barnabas
from tests.support.apache_kafka import apache_kafka
from tests.support.kafka_broker import KafkaBroker, running_kafka, running_zookeeper

pytestmark = pytest.mark.timeout(300)

TOOL = "org.apache.kafka.tools.TransactionsCommand"
_PORTABLE = 9
AT = TopicPartition("payments", 0)
HANGING_PRODUCER = 4711


@pytest.fixture
def kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaBroker]:
    """A broker that does not verify partitions, so that a transaction may hang."""
    with running_zookeeper(apache_kafka(), tmp_path / "zk") as zookeeper:
        trusting = {"transaction.partition.verification.enable": "false"}
        broker = KafkaBroker(zookeeper, tmp_path / "kafka", tmp_path / "data", trusting)
        with running_kafka(broker):
            monkeypatch.setenv("BARNABAS_BOOTSTRAP", broker.bootstrap)
            yield broker


def hang_transaction(bootstrap: str, at: TopicPartition, timestamp_ms: int) -> int:
    """Write a transactional batch that no coordinator knows; returns its offset."""
    batch = build_batch(
        [Record(0, timestamp_ms, b"key", b"hanging")],
        producer_id=HANGING_PRODUCER,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    produce = Produce(at.topic, at.partition, batch, -1, 5_000, "nobody")

    async def send() -> int:
        host, _, port = bootstrap.partition(":")
        connection = await AsyncConnection.connect(host, int(port), client_id="t", timeout_s=5)
        answer = await connection.exchange(
            lambda number: write_produce_request(_PORTABLE, number, "t", produce), 10
        )
        produced = read_produce_response(_PORTABLE, answer)
        connection.close()
        assert produced.error.name == "none"
        return produced.base_offset

    return asyncio.run(send())


@pytest.mark.long
def test_an_open_transaction_is_listed_and_described_as_kafka_does(
    kafka: KafkaBroker, offline: Barnabas
) -> None:
    assert offline("topics", "create", "payments", "-p", 2, "-r", 1).code == 0
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "clerk-1"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("payments", b"one", partition=1)
    producer.flush(30)

    (row,) = json.loads(offline("txns", "list", "--json").out)
    assert (row["transactional_id"], row["coordinator"]) == ("clerk-1", 0)
    assert row["state"] == "Ongoing"
    assert json.loads(offline("txns", "list", "--state", "Empty", "--json").out) == []
    old = offline("txns", "list", "--duration-filter", 3_600_000, "--json")
    assert json.loads(old.out) == []
    listed = offline("txns", "list", "--producer-id", row["producer_id"])
    theirs = kafka.kafka.run(TOOL, "--bootstrap-server", kafka.bootstrap, "list")
    assert [line.split() for line in listed.lines] == [
        line.split() for line in theirs.splitlines() if "TransactionalId" in line or "clerk" in line
    ]

    (described,) = json.loads(offline("txns", "describe", "clerk-1", "--json").out)
    assert described["partitions"] == ["payments-1"]
    assert described["state"] == "Ongoing"
    assert described["duration_ms"] >= 0
    headings, _cells = offline("txns", "describe", "--transactional-id", "clerk-1").lines
    theirs = kafka.kafka.run(
        TOOL, "--bootstrap-server", kafka.bootstrap, "describe", "--transactional-id", "clerk-1"
    )
    assert headings.split() == next(
        line.split() for line in theirs.splitlines() if "CoordinatorId" in line
    )
    producer.commit_transaction(30)
    (described,) = json.loads(offline("txns", "describe", "clerk-1", "--json").out)
    assert described["state"] in ("PrepareCommit", "CompleteCommit")
    ended = offline("txns", "describe", "nobody")
    assert (ended.code, ended.err) == (1, "barnabas: unknown transactional id nobody\n")


@pytest.mark.long
def test_a_hanging_transaction_is_found_and_aborted(kafka: KafkaBroker, offline: Barnabas) -> None:
    assert offline("topics", "create", "payments", "-p", 1, "-r", 1).code == 0
    an_hour_ago = 1_790_000_000_000
    start = hang_transaction(kafka.bootstrap, AT, an_hour_ago)

    found = offline("txns", "find-hanging", "--topic", "payments", "--json")
    assert found.code == 0, found.err
    (row,) = json.loads(found.out)
    assert (row["topic"], row["partition"], row["start_offset"]) == ("payments", 0, start)
    assert (row["producer_id"], row["coordinator_epoch"]) == (HANGING_PRODUCER, -1)
    assert json.loads(offline("txns", "find-hanging", "--broker-id", 0, "--json").out) == [row]
    headings, _cells = offline("txns", "find-hanging", "--broker-id", 0).lines
    theirs = kafka.kafka.run(
        TOOL, "--bootstrap-server", kafka.bootstrap, "find-hanging", "--broker-id", 0
    )
    assert headings.split() == next(line.split() for line in theirs.splitlines() if "Topic" in line)
    assert str(HANGING_PRODUCER) in theirs

    where = ("--topic", "payments", "--partition", 0)
    ended = offline("txns", "abort", *where, "--start-offset", start + 1)
    assert ended.code == 1
    assert "no open transaction starts at offset" in ended.err
    ended = offline("txns", "abort", *where, "--start-offset", start)
    assert ended.code == 0, ended.err
    assert json.loads(offline("txns", "find-hanging", "--topic", "payments", "--json").out) == []
    (producer,) = json.loads(offline("txns", "describe-producers", *where, "--json").out)
    assert producer["current_start_offset"] is None
    read = offline("consume", "payments", "-X", "isolation.level=read_committed")
    assert read.out == b""


def test_wrong_arguments_are_refused_before_anything_is_asked(offline: Barnabas) -> None:
    for arguments, hint in (
        (("find-hanging",), "--topic or --broker-id"),
        (("find-hanging", "--broker-id", 1, "--partition", 0), "--partition needs --topic"),
        (("abort", "--topic", "a", "--partition", 0), "--start-offset"),
        (("describe",), "TRANSACTIONAL_ID"),
        (("list", "--state", "Asleep"), "expected Empty"),
    ):
        ended = offline("txns", *arguments)
        assert ended.code == 2, ended.err
        assert hint in ended.err
