"""Transactions of Java clients on three brokers: copies, Kafka Streams, and Kafka's own tools.

Skipped where Java, Apache Kafka or an artifact is not available.
"""

import json
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.bench.compare.maven import Artifact, Unavailable, fetched
from tests.cluster.test_exactly_once import coordinator, started
from tests.support.apache_kafka import VERSION, ApacheKafka, apache_kafka
from tests.support.clients import PATIENCE_S
from tests.support.cluster import Cluster
from tests.support.confluent_client import ConfluentAdmin
from tests.support.transforming import PARTITIONS, read_committed
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
def program(java: ApacheKafka, log: Path, name: str, *arguments: object) -> Iterator[Path]:
    """A Java program that runs during the block; its output is in the file."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            java.command(str(HERE / name), *arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield log
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
    with program(java, tmp_path / "copy.log", "ExactlyOnceCopy.java", *arguments) as log:
        out = HighWatermarks(cluster.bootstrap, "out")
        until(lambda: out.total() > 40, log.read_text, 90)
        victim = coordinator(cluster, "java-copy")
        cluster.brokers[victim].kill()
        until(lambda: "copied all" in log.read_text(), log.read_text, WITHIN_S)
    cluster.start([victim])
    cluster.wait_settled()
    assert read_committed(cluster.bootstrap, "out") == list(range(count))


class HighWatermarks:
    """The ends of a topic's partitions."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})

    def total(self) -> int:
        from confluent_kafka import TopicPartition

        at = [TopicPartition(self._topic, n) for n in range(PARTITIONS)]
        return sum(self._consumer.get_watermark_offsets(each, PATIENCE_S)[1] for each in at)


def test_a_streams_application_counts_words_exactly_once_through_kills(
    fresh_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    java = libraries("kafka-streams", VERSION)
    cluster = started(fresh_cluster, 0)
    admin = ConfluentAdmin(cluster.bootstrap)
    for topic in ("lines", "counts"):
        admin.create_topic(topic, PARTITIONS, replicas=3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    sent: Counter[str] = Counter()

    def send(lines: int) -> None:
        for n in range(lines):
            words = [WORDS[n % 3], WORDS[(n // 3) % 3]]
            sent.update(words)
            producer.produce("lines", " ".join(words).encode(), partition=n % PARTITIONS)
        assert producer.flush(PATIENCE_S) == 0

    send(300)
    log, state = tmp_path / "streams.log", tmp_path / "state"
    arguments = (cluster.bootstrap, state, 3)
    with program(java, log, "WordCount.java", *arguments):
        until(lambda: counts(cluster.bootstrap) == sent, log.read_text, WITHIN_S)
        send(300)
        cluster.brokers[coordinator(cluster, "word-count")].kill()
        send(300)
    revive = [n for n, broker in cluster.brokers.items() if not broker.is_running]
    # The application was killed, too: another process goes on.
    with program(java, log, "WordCount.java", *arguments):
        cluster.start(revive)
        cluster.wait_settled()
        until(lambda: counts(cluster.bootstrap) == sent, log.read_text, WITHIN_S)


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
