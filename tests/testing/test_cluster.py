"""In-process clusters: fast to start, usable by any client, and gone afterwards."""

import asyncio
import gc
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import aiokafka
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.base.errors import ErrorCode
from barnabas.testing import Cluster, Misuse
from barnabas.wire.apis import ApiKey
from tests.support.asking import ask

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it reads its schemas in a deprecated way
    import kafka as kafka_python

# They have no types.
kafka_library: Any = kafka_python
aiokafka_library: Any = aiokafka
# Generous, since test machines are busy; the time is printed.
READY_WITHIN_S = 2.0


def produce(kafka: Cluster, topic: str, *values: bytes, **settings: Any) -> None:
    """Send and wait for all acknowledgements."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **settings})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda e, _: failed.append(e) if e else None)
    assert producer.flush(60) == 0
    assert failed == []


def consume(kafka: Cluster, topic: str, count: int) -> list[bytes]:
    """The first `count` records of partition 0."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "none",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while len(found) < count:
        record = consumer.poll(30)
        assert record is not None, found
        assert record.error() is None, record.error()
        found.append(record.value() or b"")
    consumer.close()
    return found


def test_a_broker_is_ready_well_within_a_second(
    kafka: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    took = {}
    for brokers in (1, 3):
        began = perf_counter()
        with Cluster(brokers=brokers):
            took[brokers] = perf_counter() - began
        took[brokers + 100] = perf_counter() - began - took[brokers]
    with capsys.disabled():
        print(
            f"\nready after {took[1] * 1000:.0f} ms (one broker), {took[3] * 1000:.0f} ms (three);"
            f" gone after {took[101] * 1000:.0f} and {took[103] * 1000:.0f} ms"
        )
    assert took[1] < READY_WITHIN_S


def test_any_client_can_use_it(kafka: Cluster) -> None:
    produce(kafka, "greetings", b"confluent")

    async def with_aiokafka() -> None:
        producer = aiokafka_library.AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
        await producer.start()
        await producer.send_and_wait("greetings", b"aiokafka")
        await producer.stop()

    asyncio.run(with_aiokafka())
    consumer = kafka_library.KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
        group_id=None,
    )
    consumer.assign([kafka_library.TopicPartition("greetings", 0)])
    assert [next(consumer).value, next(consumer).value] == [b"confluent", b"aiokafka"]
    consumer.close()


@pytest.mark.kafka(config={"offsets.topic.num.partitions": "1"})
def test_a_group_continues_at_its_offsets_when_its_coordinator_dies(kafka_cluster: Cluster) -> None:
    kafka = kafka_cluster
    kafka.create_topic("t")
    produce(kafka, "t", b"one")
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    for expected in (b"one", b"two"):
        consumer = Consumer(settings)
        consumer.subscribe(["t"])
        record = consumer.poll(60)
        assert record is not None
        assert record.value() == expected
        consumer.commit(asynchronous=False)
        consumer.close()
        kafka.kill_unclean(kafka.leader_of("__consumer_offsets"), at_once=True)
        kafka.restart(next(b for b in kafka.brokers if b not in kafka.running))
        produce(kafka, "t", b"two")


def test_nothing_is_left_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with Cluster(brokers=2):
        pass  # files that stay open, such as the source of randomness, are open now
    gc.collect()
    threads, files = set(threading.enumerate()), len(os.listdir("/dev/fd"))
    with Cluster(brokers=2) as kafka:
        kafka.create_topic("t")
        assert kafka.folder.parent == tmp_path
        kafka.kill_unclean(0)
        kafka.restart(0)
        kafka.kill_unclean(0)
        kafka.pause(1)
    assert set(threading.enumerate()) == threads
    assert os.listdir(tmp_path) == []
    gc.collect()
    assert len(os.listdir("/dev/fd")) == files


def test_close_can_be_repeated() -> None:
    cluster = Cluster(brokers=1)
    cluster.close()
    cluster.start()
    cluster.close()
    cluster.close()
    with pytest.raises(Misuse, match="the cluster is not running"):
        cluster.kill(0)


def test_a_cluster_with_a_directory_keeps_its_data(tmp_path: Path) -> None:
    with Cluster(brokers=1, folder=tmp_path) as kafka:
        kafka.create_topic("kept")
        produce(kafka, "kept", b"first")
    with Cluster(brokers=1, folder=tmp_path) as kafka:
        produce(kafka, "kept", b"second")
        assert consume(kafka, "kept", 2) == [b"first", b"second"]


def test_a_created_topic_is_known_to_every_broker(kafka_cluster: Cluster) -> None:
    kafka_cluster.create_topic("orders", partitions=4, replication_factor=2)
    assert len(kafka_cluster.wait_for_isr("orders", 3)) == 2
    for broker in kafka_cluster.brokers:
        producer = Producer({"bootstrap.servers": kafka_cluster.address(broker)})
        assert len(producer.list_topics("orders", 30).topics["orders"].partitions) == 4


@pytest.mark.kafka(brokers=2, config={"num.partitions": "7"})
class TestMarked:
    def test_the_marker_sets_the_number_of_brokers_and_their_properties(
        self, kafka_cluster: Cluster
    ) -> None:
        assert kafka_cluster.brokers == (0, 1)
        produce(kafka_cluster, "auto", b"x")
        assert kafka_cluster.wait_for_isr("auto", 6) == {0, 1}

    @pytest.mark.kafka(brokers=1)
    def test_a_marker_overrides_those_of_its_class_and_keeps_the_rest(self, kafka: Cluster) -> None:
        assert kafka.brokers == (0,)
        produce(kafka, "auto", b"x")
        assert kafka.wait_for_isr("auto", 6) == {0}


def killed(kafka: Cluster, broker: int) -> None:
    kafka.kill(broker)


def killed_unclean(kafka: Cluster, broker: int) -> None:
    kafka.kill_unclean(broker)


def killed_and_expired(kafka: Cluster, broker: int) -> None:
    kafka.kill_unclean(broker, at_once=False)


@pytest.mark.parametrize("end", [killed, killed_unclean, killed_and_expired])
def test_acknowledged_records_survive_their_leader(
    kafka_cluster: Cluster, end: Callable[[Cluster, int], None]
) -> None:
    kafka = kafka_cluster
    kafka.create_topic("t", config={"min.insync.replicas": "2"})
    produce(kafka, "t", b"one", acks="all")
    leader = kafka.leader_of("t")
    end(kafka, leader)
    assert kafka.leader_of("t") != leader
    assert leader not in kafka.running
    produce(kafka, "t", b"two", acks="all")
    assert consume(kafka, "t", 2) == [b"one", b"two"]
    kafka.restart(leader)
    assert kafka.wait_for_isr("t", isr={0, 1, 2}) == {0, 1, 2}
    assert kafka.running == (0, 1, 2)


def test_a_killed_single_broker_recovers_its_log(kafka: Cluster) -> None:
    produce(kafka, "t", b"one")
    for _ in range(2):
        kafka.kill_unclean(0, at_once=True)
        kafka.restart(0)
    produce(kafka, "t", b"two")
    assert consume(kafka, "t", 2) == [b"one", b"two"]


def test_restart_stops_a_running_broker_first(kafka: Cluster) -> None:
    produce(kafka, "t", b"one")
    where = kafka.address(0)
    kafka.restart(0)
    assert kafka.address(0) == where
    assert consume(kafka, "t", 1) == [b"one"]


def test_a_group_topic_that_cannot_be_created_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Cluster(brokers=2) as kafka:
        kafka.kill_unclean(0)
        port = int(kafka.address(1).rpartition(":")[2])
        for _ in range(3):
            answer = ask(port, ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=("g",))
            assert answer.coordinators[0].error_code is ErrorCode.coordinator_not_available
    reasons = [r for r in caplog.records if "__consumer_offsets cannot be created" in r.message]
    assert len(reasons) == 1
