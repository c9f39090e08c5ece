"""Transactions across takeovers: Kafka continues on our `__transaction_state`, and we on Kafka's.

Skipped where Apache Kafka is not available.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from barnabas.bench.clusters.bench_topics import create_topics
from tests.cli.conftest import Barnabas
from tests.support.agreement import registered
from tests.support.apache_kafka import apache_kafka
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import ConfluentAdmin
from tests.support.kafka_broker import KafkaBroker, ZooKeeper, running_zookeeper
from tests.support.transforming import PARTITIONS, read_committed
from tests.support.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

BOTH: Final = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "default.replication.factor": "1",
    "zookeeper.session.timeout.ms": "6000",
}
Either = BrokerProcess | KafkaBroker


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[ZooKeeper]:
    with running_zookeeper(apache_kafka(), tmp_path / "zk") as zookeeper:
        yield zookeeper


@pytest.fixture
def brokers(zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[dict[str, Either]]:
    """Kafka's broker and ours, of one number, port and log directory; none runs."""
    data = tmp_path / "data"
    (tmp_path / "ours").mkdir()
    settings = [f"{key}={value}" for key, value in BOTH.items()]
    ours = BrokerProcess(
        tmp_path / "ours", [*settings, f"log.dirs={data}"], zookeeper=zookeeper.address
    )
    theirs = KafkaBroker(zookeeper, tmp_path / "theirs", data, {**BOTH, "broker.id": "0"})
    yield {"ours": ours, "theirs": theirs}
    ours.close()
    theirs.kill()


@contextmanager
def another(zookeeper: ZooKeeper, folder: Path, node_id: int) -> Iterator[BrokerProcess]:
    """Another broker, of ours; it does not run."""
    folder.mkdir()
    settings = [f"{key}={value}" for key, value in BOTH.items()]
    broker = BrokerProcess(folder, settings, node_id=node_id, zookeeper=zookeeper.address)
    yield broker
    broker.close()


@pytest.fixture
def neighbour(zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[BrokerProcess]:
    """It leads a partition of the transactions."""
    with another(zookeeper, tmp_path / "neighbour", 1) as neighbour:
        yield neighbour


@pytest.fixture
def witness(zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[BrokerProcess]:
    """It leads nothing, and is the controller after the takeover.

    Kafka's own controller sends a broker its leaderships first and the metadata after. If its
    coordinator has loaded in between, it takes the partitions of its transactions as deleted, drops
    their markers and completes the transactions (TransactionMarkerChannelManager).
    """
    with another(zookeeper, tmp_path / "witness", 2) as witness:
        yield witness


def producer_of(broker: Either, name: str, timeout_ms: int = 60_000) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": timeout_ms,
            "log_level": 0,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    return producer


def send(producer: Producer, *values: int) -> None:
    for value in values:
        producer.produce("payments", b"%d" % value, partition=value % PARTITIONS)
    assert producer.flush(30) == 0


def states(offline: Barnabas, broker: Either) -> dict[str, Any]:
    ended = offline("txns", "list", "--json", "-b", broker.bootstrap)
    rows = json.loads(ended.out or "[]")
    return {row["transactional_id"]: row for row in rows}


def take_over(zookeeper: ZooKeeper, before: Either, after: Either, how: str) -> None:
    """End a broker and start the other one, once ZooKeeper has forgotten the first."""
    if how == "stopped":
        before.stop()
    else:
        before.kill()
    until(lambda: 0 not in registered(zookeeper.address), "the end of its session", 60)
    after.start()


@pytest.mark.parametrize("how", ["stopped", "killed"])
@pytest.mark.parametrize(("first", "second"), [("theirs", "ours"), ("ours", "theirs")])
def test_the_next_broker_knows_every_transaction_and_ends_the_open_ones(
    zookeeper: ZooKeeper,
    brokers: dict[str, Either],
    offline: Barnabas,
    first: str,
    second: str,
    how: str,
) -> None:
    before, after = brokers[first], brokers[second]
    before.start()
    ConfluentAdmin(before.bootstrap).create_topic("payments", PARTITIONS)
    done = producer_of(before, "done")
    send(done, 1, 2, 3)
    done.commit_transaction(30)
    aborted = producer_of(before, "aborted")
    send(aborted, 4, 5)
    aborted.abort_transaction(30)
    waiting = producer_of(before, "waiting")
    send(waiting, 6)
    late = producer_of(before, "late", 5_000)
    send(late, 7)
    known = until(lambda: _settled(states(offline, before)), "the ended ones to complete") or {}
    take_over(zookeeper, before, after, how)
    found = until(lambda: states(offline, after), "the coordinator to load", 60)
    assert {name: row["producer_id"] for name, row in found.items()} == {
        name: row["producer_id"] for name, row in known.items()
    }
    assert found["waiting"]["state"] == "Ongoing"
    assert found["done"]["state"] == "CompleteCommit"
    # The late one times out; another process takes the epoch of the one that waits.
    until(lambda: states(offline, after)["late"]["state"] == "CompleteAbort", "the timeout", 60)
    successor = producer_of(after, "waiting")
    send(successor, 8, 9)
    successor.commit_transaction(30)
    assert read_committed(after.bootstrap, "payments") == [1, 2, 3, 8, 9]


@pytest.mark.parametrize("how", ["stopped", "killed"])
@pytest.mark.parametrize(("first", "second"), [("theirs", "ours"), ("ours", "theirs")])
def test_the_next_broker_sends_the_markers_that_are_missing(
    zookeeper: ZooKeeper,
    brokers: dict[str, Either],
    neighbour: BrokerProcess,
    witness: BrokerProcess,
    offline: Barnabas,
    first: str,
    second: str,
    how: str,
) -> None:
    """The other leader is down when the transactions end: they stay prepared."""
    before, after = brokers[first], brokers[second]
    before.start()
    producer_of(before, "first").abort_transaction(30)  # creates the topic, while one broker is up
    neighbour.start()
    witness.start()
    each_leads_one = [[0], [1]]
    create_topics(before.bootstrap, {"payments": each_leads_one})
    commits, aborts = producer_of(before, "commits"), producer_of(before, "aborts")
    send(commits, 2, 3)
    send(aborts, 4, 5)
    neighbour.kill()
    commits.commit_transaction(30)
    aborts.abort_transaction(30)
    until(lambda: _prepared(states(offline, before)), "the outcomes")
    take_over(zookeeper, before, after, how)
    until(lambda: _prepared(states(offline, after)), lambda: str(states(offline, after)), 60)
    neighbour.start()
    until(lambda: _settled(states(offline, after), "commits", "aborts"), "the markers", 60)
    assert read_committed(after.bootstrap, "payments") == [2, 3]
    successor = producer_of(after, "commits")
    send(successor, 6, 7)
    successor.commit_transaction(30)
    assert read_committed(after.bootstrap, "payments") == [2, 3, 6, 7]


def _prepared(found: dict[str, Any]) -> bool:
    ended = [found.get(name, {}).get("state", "") for name in ("commits", "aborts")]
    return ended == ["PrepareCommit", "PrepareAbort"]


def _settled(
    found: dict[str, Any], committed: str = "done", aborted: str = "aborted"
) -> dict[str, Any] | None:
    ended = [found.get(name, {}).get("state", "") for name in (committed, aborted)]
    return found if ended == ["CompleteCommit", "CompleteAbort"] else None
