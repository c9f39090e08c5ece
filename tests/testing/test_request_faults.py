"""Fault injection, as real clients see it."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.testing import Cluster, Misuse, NotInTime
from tests.testing.test_cluster import aiokafka_library, consume, kafka_library, produce

NO_RETRY = {"retries": 0, "enable.idempotence": False}
# Otherwise a client that connects to a paused broker first waits ten seconds.
IMPATIENT = {"api.version.request.timeout.ms": 500, "socket.connection.setup.timeout.ms": 1000}


def outcome(kafka: Cluster, topic: str, **settings: Any) -> int | None:
    """Send one record; return its error code."""
    ended: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **NO_RETRY, **settings})
    producer.produce(topic, b"x", on_delivery=lambda error, _: ended.append(error))
    producer.flush(60)
    (error,) = ended
    return None if error is None else error.code()


# -- brokers -----------------------------------------------------------------


def test_a_paused_broker_loses_its_partitions_and_rejoins(
    kafka_cluster: Cluster,
) -> None:
    kafka = kafka_cluster
    kafka.create_topic("t")
    leader = kafka.leader_of("t")
    kafka.pause(leader)
    kafka.wait_for_isr("t", isr={0, 1, 2} - {leader})
    produce(kafka, "t", b"meanwhile", acks="all", **IMPATIENT)
    kafka.resume(leader)
    kafka.wait_for_isr("t", isr={0, 1, 2})
    assert consume(kafka, "t", 1) == [b"meanwhile"]


def test_a_short_pause_is_only_a_delay(kafka: Cluster) -> None:
    kafka.create_topic("t")
    kafka.pause(0)
    with pytest.raises(KafkaException):
        Producer({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=0.1)
    kafka.resume(0)
    produce(kafka, "t", b"x")


def test_a_broker_whose_session_expires_registers_again(kafka_cluster: Cluster) -> None:
    kafka = kafka_cluster
    kafka.create_topic("t")
    controller = kafka.controller()
    kafka.expire_session(controller)
    kafka.wait_for_isr("t", isr={0, 1, 2})
    produce(kafka, "t", b"x", acks="all")
    assert kafka.controller() in kafka.running


def test_a_broker_whose_disk_is_full_stops_and_others_lead(kafka_cluster: Cluster) -> None:
    kafka = kafka_cluster
    kafka.create_topic("t")
    leader = kafka.leader_of("t")
    kafka.fill_disk(leader)
    produce(kafka, "t", b"x", acks="all")
    kafka.wait_for_isr("t", isr={0, 1, 2} - {leader})
    kafka.empty_disk(leader)
    kafka.restart(leader)
    kafka.wait_for_isr("t", isr={0, 1, 2})
    assert consume(kafka, "t", 1) == [b"x"]


# -- the network -------------------------------------------------------------


def test_a_follower_that_cannot_reach_its_leader_falls_out_of_sync(
    kafka_cluster: Cluster,
) -> None:
    kafka = kafka_cluster
    kafka.create_topic("t")
    leader = kafka.leader_of("t")
    cut_off = (leader + 1) % 3
    kafka.partition(leader, cut_off)
    produce(kafka, "t", b"x", acks=1)
    kafka.wait_for_isr("t", isr={0, 1, 2} - {cut_off})
    kafka.heal()
    kafka.wait_for_isr("t", isr={0, 1, 2})


def test_a_leader_cut_off_from_coordination_is_replaced(kafka_cluster: Cluster) -> None:
    kafka = kafka_cluster
    kafka.create_topic("t")
    leader = kafka.leader_of("t")
    kafka.partition("coordination", leader)
    kafka.wait_for_isr("t", size=2)
    assert kafka.leader_of("t") != leader
    kafka.heal()
    kafka.wait_for_isr("t")
    produce(kafka, "t", b"x", acks="all")


def test_a_partition_from_clients_does_not_affect_brokers(kafka_cluster: Cluster) -> None:
    kafka = kafka_cluster
    kafka.create_topic("t")
    leader = kafka.leader_of("t")
    kafka.partition(leader, "clients")
    assert outcome(kafka, "t", **{"message.timeout.ms": 300}) is not None
    assert kafka.wait_for_isr("t", isr={0, 1, 2}) == {0, 1, 2}
    kafka.heal()
    assert outcome(kafka, "t") is None


# -- requests ----------------------------------------------------------------


def test_a_delayed_request_takes_effect_at_once(kafka: Cluster) -> None:
    kafka.create_topic("t")
    kafka.delay("Produce", 400)
    began = time.perf_counter()
    assert outcome(kafka, "t") is None
    assert time.perf_counter() - began >= 0.4
    kafka.delay("Produce", 60_000)
    assert outcome(kafka, "t", **{"message.timeout.ms": 300}) == KafkaError._MSG_TIMED_OUT
    kafka.delay("Produce", 0)
    assert consume(kafka, "t", 2) == [b"x", b"x"]


def test_a_failed_produce_appends_nothing(kafka: Cluster) -> None:
    kafka.create_topic("t")
    kafka.fail_next("Produce", "MESSAGE_TOO_LARGE")
    assert outcome(kafka, "t") == KafkaError.MSG_SIZE_TOO_LARGE
    produce(kafka, "t", b"kept")
    assert consume(kafka, "t", 1) == [b"kept"]


def test_a_client_retries_a_retriable_error_as_often_as_it_fails(kafka_cluster: Cluster) -> None:
    kafka_cluster.create_topic("t")
    kafka_cluster.fail_next("produce", 6, times=3)
    produce(kafka_cluster, "t", b"x", acks="all", **{"retry.backoff.ms": 10})
    assert consume(kafka_cluster, "t", 1) == [b"x"]


def test_a_fault_of_one_broker_affects_no_other(kafka_cluster: Cluster) -> None:
    kafka = kafka_cluster
    kafka.create_topic("t", partitions=3)
    kafka.fail_next("Produce", "INVALID_RECORD", times=100, broker=kafka.leader_of("t", 0))
    ended: dict[int, bool] = {}
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **NO_RETRY})

    def delivered(error: KafkaError | None, record: Any) -> None:
        ended[record.partition()] = error is None

    for partition in range(3):
        producer.produce("t", b"x", partition=partition, on_delivery=delivered)
    producer.flush(60)
    assert ended == {0: False, 1: True, 2: True}


def test_metadata_has_the_error_of_each_topic_and_still_the_brokers(kafka: Cluster) -> None:
    kafka.create_topic("t")
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    kafka.fail_next("Metadata", "TOPIC_AUTHORIZATION_FAILED", times=1000)
    topic = client.list_topics("t", timeout=30).topics["t"]
    assert topic.error is not None
    assert topic.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    kafka.serve_normally()
    found = client.list_topics("t", timeout=30)
    assert found.topics["t"].error is None
    assert list(found.brokers) == [0]


def test_an_admin_request_fails(kafka: Cluster) -> None:
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    kafka.fail_next("CreateTopics", "POLICY_VIOLATION")
    with pytest.raises(KafkaException) as refused:
        client.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
    assert refused.value.args[0].code() == KafkaError.POLICY_VIOLATION
    client.create_topics([NewTopic("t", 1, 1)])["t"].result(30)


def test_a_consumer_sees_an_error_of_its_fetch(kafka: Cluster) -> None:
    produce(kafka, "t", b"x")
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "none"})
    kafka.fail_next("Fetch", "TOPIC_AUTHORIZATION_FAILED")
    consumer.assign([TopicPartition("t", 0, 0)])
    record = consumer.poll(30)
    assert record is not None
    error = record.error()
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    consumer.close()


def test_a_consumer_with_a_fetch_session_sees_the_error_too(kafka: Cluster) -> None:
    produce(kafka, "t", b"x")
    consumer = kafka_library.KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, group_id=None, auto_offset_reset="earliest"
    )
    consumer.assign([kafka_library.TopicPartition("t", 0)])
    assert next(consumer).value == b"x"
    kafka.fail_next("Fetch", "TOPIC_AUTHORIZATION_FAILED")
    with pytest.raises(kafka_library.errors.TopicAuthorizationFailedError):
        consumer.poll(timeout_ms=30_000)
    consumer.close()


def test_an_asynchronous_client_sees_a_fatal_error(kafka: Cluster) -> None:
    kafka.create_topic("t")

    async def scenario() -> None:
        producer = aiokafka_library.AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
        await producer.start()
        kafka.fail_next("Produce", "INVALID_TOPIC_EXCEPTION")
        try:
            with pytest.raises(aiokafka_library.errors.InvalidTopicError):
                await producer.send_and_wait("t", b"x")
            await producer.send_and_wait("t", b"x")
        finally:
            await producer.stop()

    asyncio.run(scenario())


# -- misuse ------------------------------------------------------------------


def killed_twice(kafka: Cluster) -> None:
    kafka.kill_unclean(0)
    kafka.kill(0)


def stopped_while_paused(kafka: Cluster) -> None:
    kafka.pause(0)
    kafka.kill(0)


MISUSES: list[tuple[Callable[[Cluster], object], str]] = [
    (lambda kafka: kafka.kill(3), "there is no broker 3, only 0 to 0"),
    (killed_twice, "broker 0 was killed; restart it first"),
    (
        stopped_while_paused,
        "broker 0 is paused and cannot stop: resume it first",
    ),
    (lambda kafka: kafka.resume(0), "broker 0 is not paused"),
    (lambda kafka: kafka.partition(0, 0), "partition: broker 0 cannot be cut off from itself"),
    (
        lambda kafka: kafka.partition(0, "client"),
        'partition: \'client\' is neither a broker, "clients", nor "coordination"',
    ),
    (
        lambda kafka: kafka.delay("Produced", 5),
        "unknown API Produced (did you mean Produce?)",
    ),
    (
        lambda kafka: kafka.fail_next("LeaderAndIsr", "NOT_CONTROLLER"),
        "only brokers send LeaderAndIsr; faults are for requests of clients",
    ),
    (
        lambda kafka: kafka.fail_next("Fetch", "NOT_LEADER_FOR_PARTITON"),
        "unknown error NOT_LEADER_FOR_PARTITON",
    ),
    (
        lambda kafka: kafka.fail_next("Fetch", "NOT_LEADER_OR_FOLOWER"),
        "unknown error NOT_LEADER_OR_FOLOWER (did you mean NOT_LEADER_OR_FOLLOWER?)",
    ),
    (
        lambda kafka: kafka.leader_of("ordrs"),
        "unknown topic ordrs (did you mean orders?)",
    ),
    (lambda kafka: kafka.leader_of("orders", 5), "topic orders has no partition 5, only 0 to 0"),
    (
        lambda kafka: kafka.create_topic("orders"),
        "cannot create topic orders: Topic 'orders' already exists.",
    ),
]


@pytest.mark.parametrize(("misuse", "message"), MISUSES, ids=[each[1] for each in MISUSES])
def test_a_mistake_is_explained_in_one_sentence(
    kafka: Cluster, misuse: Callable[[Cluster], object], message: str
) -> None:
    kafka.create_topic("orders")
    with pytest.raises(Misuse) as explained:
        misuse(kafka)
    assert str(explained.value) == message


def test_a_failed_start_reports_the_reason(kafka: Cluster) -> None:
    kafka.kill(0)
    kafka.fill_disk(0)
    with pytest.raises(Misuse, match=r"broker 0 failed to start: .*: No space left on device"):
        kafka.restart(0)
    kafka.empty_disk(0)
    kafka.restart(0)
    produce(kafka, "t", b"x")


def test_a_wrong_property_is_explained_before_anything_starts() -> None:
    for config, message in (
        ({"min.insync.replica": "2"}, "did you mean min.insync.replicas?"),
        ({"min.insync.replicas": "two"}, "min.insync.replicas"),
        ({"log.dirs": "/tmp"}, "log.dirs cannot be set here: give the cluster a folder"),
    ):
        with pytest.raises(Misuse, match=message):
            Cluster(brokers=1, config=config).start()


def test_a_wait_that_times_out_reports_the_last_state(kafka: Cluster) -> None:
    kafka.create_topic("t")
    with pytest.raises(NotInTime) as waited:
        kafka.wait_for_isr("t", size=2, timeout=0.05)
    assert str(waited.value) == (
        "timed out after 0.05 s waiting for t-0 to have 2 in sync: leader 0, ISR [0]"
    )
