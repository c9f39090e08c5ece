"""librdkafka by ctypes: produced, acknowledged and consumed messages."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from barnabas.bench.clusters.bench_topics import client_settings, create_topic, log_end_offset
from barnabas.bench.limits.rdkafka_ctypes import LeanConsumer, LeanProducer, Values
from barnabas.bench.server_processes import Server, broker

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with broker(tmp_path_factory.mktemp("rdkafka")) as running:
        yield running


def produced(server: Server, topic: str, values: Values, *, partitions: int = 2) -> None:
    create_topic(server.bootstrap, topic, partitions)
    with LeanProducer(client_settings(server.bootstrap), topic) as producer:
        producer.connect(PATIENCE_S)
        for partition in range(partitions):
            assert producer.hand_over(partition, values) == values.count
        assert producer.flush(PATIENCE_S) == 0


def read(server: Server, topic: str, wanted: int, within_s: float = PATIENCE_S) -> int:
    settings = client_settings(server.bootstrap, **{"group.id": "g", "enable.auto.commit": False})
    with LeanConsumer(settings, topic, range(2)) as consumer:
        return consumer.pass_over(wanted, within_s)


def test_produced_messages_are_in_the_log_and_are_read(server: Server) -> None:
    produced(server, "whole", Values(300, 100))
    assert log_end_offset(server.bootstrap, "whole", 2) == 600
    assert read(server, "whole", 600) == 600


def test_messages_have_the_given_size_and_are_distinct(server: Server) -> None:
    produced(server, "sizes", Values(50, 101), partitions=1)
    consumer = Consumer(client_settings(server.bootstrap, **{"group.id": "g"}))
    try:
        consumer.assign([TopicPartition("sizes", 0, 0)])
        found = {message.value() for message in consumer.consume(50, timeout=PATIENCE_S)}
    finally:
        consumer.close()
    assert len(found) == 50
    assert {len(value or b"") for value in found} == {101}


def test_after_the_timeout_the_number_of_messages_is_returned(server: Server) -> None:
    produced(server, "fewer", Values(10, 100))
    assert read(server, "fewer", 21, within_s=2.0) == 20


def test_a_missing_partition_is_an_error_at_once(server: Server) -> None:
    produced(server, "two", Values(10, 100))
    with LeanProducer(client_settings(server.bootstrap), "two") as producer:
        producer.connect(PATIENCE_S)
        with pytest.raises(KafkaException):
            producer.hand_over(7, Values(10, 100))


def test_a_full_queue_accepts_what_fits() -> None:
    settings = client_settings("127.0.0.1:1", **{"queue.buffering.max.messages": 5})
    values = Values(8, 100)
    with LeanProducer(settings, "nowhere") as producer:
        assert producer.hand_over(0, values) == 5
        assert producer.hand_over(0, values) == 0
        assert producer.flush(0.0) == 5


def test_rejected_messages_can_be_produced_later(server: Server) -> None:
    values = Values(8, 100)
    create_topic(server.bootstrap, "rest", 1)
    settings = client_settings(server.bootstrap, **{"queue.buffering.max.messages": 5})
    with LeanProducer(settings, "rest") as producer:
        producer.connect(PATIENCE_S)
        taken = producer.hand_over(0, values)
        assert producer.flush(PATIENCE_S) == 0
        assert (taken, producer.hand_over(0, values, taken)) == (5, 3)
        assert producer.flush(PATIENCE_S) == 0
    assert log_end_offset(server.bootstrap, "rest", 1) == 8


def test_an_unknown_setting_is_reported() -> None:
    with pytest.raises(ValueError, match=r"no\.such\.setting"):
        LeanProducer({"no.such.setting": 1}, "t")


def test_an_unreachable_broker_is_an_error() -> None:
    with (
        LeanProducer(client_settings("127.0.0.1:1"), "t") as producer,
        pytest.raises(KafkaException),
    ):
        producer.connect(0.5)
