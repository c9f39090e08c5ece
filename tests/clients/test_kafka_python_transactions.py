"""The transactional producer of kafka-python, unmodified: commit, abort, offsets, fencing."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from tests.support.broker import BrokerProcess
from tests.support.clients import Admin
from tests.support.confluent_client import ConfluentAdmin
from tests.support.kafka_python_client import PATIENCE_MS, TopicPartition
from tests.support.kafka_python_client import library as kafka
from tests.support.transforming import PARTITIONS, fill, read_committed


@contextmanager
def producer(broker: BrokerProcess, name: str) -> Iterator[Any]:
    made = kafka.KafkaProducer(
        bootstrap_servers=broker.bootstrap, transactional_id=name, metrics_enabled=False
    )
    with closing(made):
        made.init_transactions()
        yield made


def write(made: Any, topic: str, *numbers: int) -> None:
    for number in numbers:
        made.send(topic, b"%d" % number, partition=number % PARTITIONS)
    made.flush()


@pytest.fixture
def made_topic(topic: str, broker: BrokerProcess) -> str:
    ConfluentAdmin(broker.bootstrap).create_topic(topic, PARTITIONS)
    return topic


def test_committed_records_are_read_and_aborted_ones_are_not(
    broker: BrokerProcess, made_topic: str
) -> None:
    with producer(broker, f"{made_topic}-p") as made:
        for number in range(0, 30, 3):
            made.begin_transaction()
            write(made, made_topic, number, number + 1, number + 2)
            if number % 2:
                made.abort_transaction()
            else:
                made.commit_transaction()
    kept = [each + n for each in range(0, 30, 6) for n in range(3)]
    assert read_committed(broker.bootstrap, made_topic) == kept


def test_offsets_are_committed_with_the_records_or_not_at_all(
    broker: BrokerProcess, made_topic: str, some_admin: Admin
) -> None:
    source = f"{made_topic}-in"
    some_admin.create_topic(source, PARTITIONS)
    fill(broker.bootstrap, source, 40)
    group = f"{made_topic}-group"
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        group_id=group,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        metrics_enabled=False,
    )
    with closing(consumer), producer(broker, f"{made_topic}-p") as made:
        consumer.subscribe([source])
        for is_commit in (False, True):
            taken: dict[Any, list[Any]] = {}
            while sum(map(len, taken.values())) < 40:
                for partition, records in consumer.poll(PATIENCE_MS).items():
                    taken.setdefault(partition, []).extend(records)
            made.begin_transaction()
            for records in taken.values():
                write(made, made_topic, *(int(each.value) for each in records))
            ends = {
                partition: kafka.OffsetAndMetadata(records[-1].offset + 1, "", -1)
                for partition, records in taken.items()
            }
            made.send_offsets_to_transaction(ends, consumer.group_metadata())
            if is_commit:
                made.commit_transaction()
            else:
                made.abort_transaction()
            committed = [consumer.committed(TopicPartition(source, n)) for n in range(PARTITIONS)]
            assert committed == ([20, 20] if is_commit else [None, None])
            consumer.seek_to_beginning()
    assert read_committed(broker.bootstrap, made_topic) == list(range(40))


def test_a_producer_that_another_one_fenced_is_refused(
    broker: BrokerProcess, made_topic: str
) -> None:
    with producer(broker, f"{made_topic}-p") as zombie:
        zombie.begin_transaction()
        write(zombie, made_topic, 1)
        with producer(broker, f"{made_topic}-p") as successor:
            successor.begin_transaction()
            write(successor, made_topic, 2)
            successor.commit_transaction()
        with pytest.raises(kafka.errors.KafkaError):
            zombie.commit_transaction()
    assert read_committed(broker.bootstrap, made_topic) == [2]
