"""Transactions of Java clients on three brokers: copies, Kafka Streams, and Kafka's own tools.

Skipped where Java, Apache Kafka or an artifact is not available.
"""

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.bench.compare.maven import Artifact, Unavailable, fetched
from tests.cluster.test_exactly_once import (
    PAUSED_S,
    coordinator,
    is_paused_amid_a_transaction,
    started,
)
from tests.support.apache_kafka import VERSION, ApacheKafka, apache_kafka
from tests.support.clients import PATIENCE_S
from tests.support.cluster import Cluster
from tests.support.confluent_client import ConfluentAdmin
from tests.support.transforming import PARTITIONS, fill, read_committed
from tests.support.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

HERE: Final = Path(__file__).parent.parent / "clients"
NEWER: Final = "4.1.0"
WITHIN_S: Final = 240.0
WORDS: Final = ("alpha", "beta", "gamma")


def libraries(name: str, version: str) -> ApacheKafka:
    """Java with one artifact of Kafka and its dependencies; skips if it cannot be had."""
    artifact = Artifact("org.apache.kafka", name, version)
    try:
        return ApacheKafka(apache_kafka().java, fetched(f"{name}-{version}", [artifact]))
    except Unavailable as why:
        pytest.skip(f"no {name} {version}: {why}")


@contextmanager
def program(
    java: ApacheKafka, log: Path, name: str, *arguments: object
) -> Iterator["subprocess.Popen[bytes]"]:
    """A Java program that runs during the block; its output is in the file."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            java.command(str(HERE / name), *arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("version", [VERSION, NEWER])
def test_the_java_client_copies_exactly_once_though_the_coordinator_is_killed(
    fresh_cluster: Callable[..., Cluster], tmp_path: Path, version: str
) -> None:
    java = libraries("kafka-clients", version)
    count = 600
    cluster = started(fresh_cluster, count)
    arguments = (cluster.bootstrap, "in", "out", count)
    log = tmp_path / "copy.log"
    with program(java, log, "ExactlyOnceCopy.java", *arguments):
        out = HighWatermarks(cluster.bootstrap, "out")
        until(lambda: out.total() > 40, log.read_text, 90)
        victim = coordinator(cluster, "java-copy")
        cluster.brokers[victim].kill()
        until(lambda: "copied all" in log.read_text(), log.read_text, WITHIN_S)
    cluster.start([victim])
    cluster.wait_settled()
    assert read_committed(cluster.bootstrap, "out") == list(range(count))


@pytest.mark.parametrize("version", [VERSION, NEWER])
def test_the_java_client_copies_exactly_once_though_it_and_the_coordinator_pause_for_minutes(
    fresh_cluster: Callable[..., Cluster], tmp_path: Path, version: str
) -> None:
    """Another process goes on meanwhile; the one that paused is refused, and finds all copied."""
    java = libraries("kafka-clients", version)
    count, at_once = 4000, 200
    cluster = started(fresh_cluster, at_once)
    firsts = iter(range(at_once, count, at_once))
    arguments = (cluster.bootstrap, "in", "out", count)
    paused, other = tmp_path / "paused.log", tmp_path / "other.log"
    with program(java, paused, "ExactlyOnceCopy.java", *arguments) as client:
        out = HighWatermarks(cluster.bootstrap, "out")
        until(lambda: out.total() > 40, paused.read_text, 90)
        until(partial(is_caught_amid_its_work, cluster, client, firsts, at_once), paused.read_text)
        for first in firsts:
            fill(cluster.bootstrap, "in", at_once, first)
        with (
            resting(cluster, "java-copy", client),
            program(java, other, "ExactlyOnceCopy.java", *arguments),
        ):
            until(lambda: "copied all" in other.read_text(), other.read_text, WITHIN_S)
        until(lambda: "copied all" in paused.read_text(), paused.read_text, WITHIN_S)
    assert "starts again" in paused.read_text()
    cluster.wait_settled()
    assert read_committed(cluster.bootstrap, "out") == list(range(count))


def is_caught_amid_its_work(
    cluster: Cluster, client: "subprocess.Popen[bytes]", firsts: Iterator[int], count: int
) -> bool:
    """True if the client is paused amid a transaction; each attempt gives it more to copy.

    So it is not done before, however slowly this test asks. An EndTxn that was on its way at first
    is replicated by the time that the new records are.
    """
    amid = partial(is_paused_amid_a_transaction, cluster, "java-copy", client)
    is_paused = amid()
    if (first := next(firsts, None)) is not None:
        fill(cluster.bootstrap, "in", count, first)
    return is_paused and amid()


@contextmanager
def resting(
    cluster: Cluster, transactional_id: str, client: "subprocess.Popen[bytes]"
) -> Iterator[None]:
    """The client and the coordinator of the id are paused, for the block and for minutes."""
    broker = cluster.brokers[coordinator(cluster, transactional_id)]
    client.send_signal(signal.SIGSTOP)
    broker.pause()
    until_s = time.monotonic() + PAUSED_S
    try:
        yield
        time.sleep(max(0.0, until_s - time.monotonic()))  # what is tested is this time
    finally:
        broker.resume()
        client.send_signal(signal.SIGCONT)


class HighWatermarks:
    """The ends of a topic's partitions."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})

    def total(self) -> int:
        from confluent_kafka import TopicPartition

        at = [TopicPartition(self._topic, n) for n in range(PARTITIONS)]
        return sum(self._consumer.get_watermark_offsets(each, PATIENCE_S)[1] for each in at)


class Words:
    """Lines of two words, sent to a topic and counted."""

    def __init__(self, bootstrap: str) -> None:
        self.sent: Counter[str] = Counter()
        self._producer = Producer({"bootstrap.servers": bootstrap})

    def send(self, lines: int) -> None:
        for n in range(lines):
            words = [WORDS[n % 3], WORDS[(n // 3) % 3]]
            self.sent.update(words)
            self._producer.produce("lines", " ".join(words).encode(), partition=n % PARTITIONS)
        assert self._producer.flush(PATIENCE_S) == 0


def counting(make: Callable[..., Cluster]) -> tuple[Cluster, Words]:
    """A cluster with the topics of the application."""
    cluster = started(make, 0)
    admin = ConfluentAdmin(cluster.bootstrap)
    for topic in ("lines", "counts"):
        admin.create_topic(topic, PARTITIONS, replicas=3)
    return cluster, Words(cluster.bootstrap)


def test_a_streams_application_counts_words_exactly_once_through_kills(
    fresh_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    java = libraries("kafka-streams", VERSION)
    cluster, words = counting(fresh_cluster)
    words.send(300)
    log, arguments = tmp_path / "streams.log", (cluster.bootstrap, tmp_path / "state", 3)
    with program(java, log, "WordCount.java", *arguments):
        until(lambda: counts(cluster.bootstrap) == words.sent, log.read_text, WITHIN_S)
        words.send(300)
        cluster.brokers[coordinator(cluster, "word-count")].kill()
        words.send(300)
    revive = [n for n, broker in cluster.brokers.items() if not broker.is_running]
    # The application was killed, too: another process goes on.
    with program(java, log, "WordCount.java", *arguments):
        cluster.start(revive)
        cluster.wait_settled()
        until(lambda: counts(cluster.bootstrap) == words.sent, log.read_text, WITHIN_S)


def test_a_streams_application_counts_words_exactly_once_though_it_and_a_coordinator_pause(
    fresh_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    """For minutes, amid its work: others have ended its transactions when it goes on."""
    java = libraries("kafka-streams", VERSION)
    cluster, words = counting(fresh_cluster)
    words.send(300)
    log, arguments = tmp_path / "streams.log", (cluster.bootstrap, tmp_path / "state", 3)
    with program(java, log, "WordCount.java", *arguments) as application:
        until(lambda: counts(cluster.bootstrap) == words.sent, log.read_text, WITHIN_S)
        words.send(3000)
        with resting(cluster, "word-count", application):
            pass
        cluster.wait_settled()
        words.send(300)
        until(lambda: counts(cluster.bootstrap) == words.sent, log.read_text, WITHIN_S)


def counts(bootstrap: str) -> Counter[str]:
    """The last committed count of each word; it only grows, and by one at a time."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    from confluent_kafka import TopicPartition

    consumer.assign([TopicPartition("counts", n, 0) for n in range(PARTITIONS)])
    found: Counter[str] = Counter()
    while (message := consumer.poll(2.0)) is not None:
        if message.error() is None:
            word, count = (message.key() or b"").decode(), int(message.value() or b"0")
            assert count >= found[word], f"{word} went back from {found[word]} to {count}"
            found[word] = count
    consumer.close()
    return found


def test_kafkas_own_tools_use_transactions(
    fresh_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    java = apache_kafka()
    count = 200
    cluster = started(fresh_cluster, count)
    bootstrap = cluster.bootstrap
    # Commits after so many messages, and aborts some at random: the copier of Kafka's system tests.
    said = java.run(
        "org.apache.kafka.tools.TransactionalMessageCopier",
        "--broker-list", bootstrap, "--input-topic", "in", "--input-partition", 0,
        "--output-topic", "out", "--consumer-group", "copier", "--transactional-id", "copier",
        "--transaction-size", 20, "--enable-random-aborts", "--max-messages", count // PARTITIONS,
    )  # fmt: skip
    assert json.loads(said.splitlines()[-1])["remaining"] == 0, said
    mine = [n for n in range(count) if n % PARTITIONS == 0]
    assert read_committed(bootstrap, "out") == mine
    said = java.run(
        "org.apache.kafka.tools.ProducerPerformance",
        "--topic", "in", "--num-records", 500, "--record-size", 10, "--throughput", -1,
        "--transactional-id", "perf", "--transaction-duration-ms", 50,
        "--producer-props", f"bootstrap.servers={bootstrap}",
    )  # fmt: skip
    assert "500 records sent" in said
    listed = java.run(
        "org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", bootstrap, "list"
    )
    assert "copier" in listed
    assert "CompleteCommit" in listed
