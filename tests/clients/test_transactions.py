"""The transactional producer of librdkafka: records are read once they are committed, whole."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.server.admin.running import Running, broker, until

PARTITIONS = 3


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("transactions")
    with broker(
        folder, transaction_abort_timed_out_transaction_cleanup_interval_ms="100"
    ) as started:
        yield started


def bootstrap(running: Running) -> str:
    return f"127.0.0.1:{running.port}"


@pytest.fixture
def topic(running: Running, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name[:60]
    admin = AdminClient({"bootstrap.servers": bootstrap(running)})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(20)
    return name


def producer(running: Running, name: str, timeout_ms: int = 60_000) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": bootstrap(running),
            "transactional.id": name,
            "transaction.timeout.ms": timeout_ms,
            "log_level": 0,
        }
    )
    made.init_transactions(20)
    return made


def write(made: Producer, topic: str, *values: str) -> None:
    for number, value in enumerate(values):
        made.produce(topic, value, partition=number % PARTITIONS)
    assert made.flush(20) == 0


def read(running: Running, topic: str, isolation_level: str = "read_committed") -> set[str]:
    """All values up to the end of each partition that the isolation level allows."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap(running),
            "group.id": f"reader-{time.monotonic_ns()}",
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(PARTITIONS)])
    values, ends = set(), set[int | None]()
    while len(ends) < PARTITIONS:
        message = consumer.poll(20)
        assert message is not None, "the consumer is stuck"
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF
            ends.add(message.partition())
        else:
            values.add((message.value() or b"").decode())
    consumer.close()
    return values


def test_records_are_read_when_their_transaction_is_committed(running: Running, topic: str) -> None:
    made = producer(running, topic)
    made.begin_transaction()
    write(made, topic, "a", "b", "c", "d")
    assert read(running, topic) == set()
    assert read(running, topic, "read_uncommitted") == {"a", "b", "c", "d"}
    made.commit_transaction(20)
    until(lambda: read(running, topic) == {"a", "b", "c", "d"}, "the transaction")


def test_records_of_an_aborted_transaction_are_not_read(running: Running, topic: str) -> None:
    made = producer(running, topic)
    for number in range(6):
        made.begin_transaction()
        write(made, topic, *(f"{number}-{n}" for n in range(PARTITIONS)))
        end = made.abort_transaction if number % 2 else made.commit_transaction
        end(20)
    wanted = {f"{number}-{n}" for number in (0, 2, 4) for n in range(PARTITIONS)}
    until(lambda: read(running, topic) == wanted, "every second transaction")


def test_a_producer_is_fenced_by_the_next_one_of_its_id(running: Running, topic: str) -> None:
    """T13"""
    old = producer(running, topic)
    old.begin_transaction()
    write(old, topic, "old")
    new = producer(running, topic)
    new.begin_transaction()
    write(new, topic, "new")
    with pytest.raises(KafkaException) as fenced:
        old.commit_transaction(20)
    assert fenced.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
    new.commit_transaction(20)
    until(lambda: read(running, topic) == {"new"}, "the second producer's record alone")


def test_a_transaction_that_lasts_too_long_is_aborted(running: Running, topic: str) -> None:
    """T21"""
    slow = producer(running, topic, timeout_ms=1_000)
    slow.begin_transaction()
    write(slow, topic, "slow")
    other = producer(running, f"{topic}-other")
    other.begin_transaction()
    write(other, topic, "fast")
    other.commit_transaction(20)
    until(lambda: read(running, topic) == {"fast"}, "the last stable offset to move on")
    with pytest.raises(KafkaException):
        slow.commit_transaction(20)


def test_transactions_of_several_producers_interleave(running: Running, topic: str) -> None:
    makers = [producer(running, f"{topic}-{n}") for n in range(4)]
    for made in makers:
        made.begin_transaction()
    for turn in range(3):
        for number, made in enumerate(makers):
            write(made, topic, *(f"{number}-{turn}-{p}" for p in range(PARTITIONS)))
    for number, made in enumerate(makers):
        end = made.commit_transaction if number % 2 else made.abort_transaction
        end(20)
    wanted = {f"{n}-{turn}-{p}" for n in (1, 3) for turn in range(3) for p in range(PARTITIONS)}
    until(lambda: read(running, topic) == wanted, "the transactions that were committed")
