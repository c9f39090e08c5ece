"""Transactions with librdkafka: produce, abort, consume-transform-produce."""

import asyncio
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.testing.cluster import Cluster

SOON: Final = 30.0


def _created(cluster: Cluster, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for made in admin.create_topics([NewTopic(each, 1, 1) for each in topics]).values():
        made.result(SOON)


def _producer(cluster: Cluster, transactional_id: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": transactional_id}
    )
    producer.init_transactions(SOON)
    return producer


def _consumer(cluster: Cluster, topic: str, level: str, group: str = "readers") -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "isolation.level": level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


def _read(cluster: Cluster, topic: str, level: str = "read_committed") -> list[bytes | None]:
    """All values up to the end that a consumer of that level sees."""
    consumer = _consumer(cluster, topic, level)
    values: list[bytes | None] = []
    while True:
        message = consumer.poll(SOON)
        assert message is not None
        if message.error() is not None:
            consumer.close()
            return values
        values.append(message.value())


def test_a_reader_of_committed_records_skips_what_was_aborted() -> None:
    """T29, T30, T37, T38: more aborted transactions than one, between committed ones."""
    with Cluster(1) as cluster:
        _created(cluster, "t")
        producer = _producer(cluster, "writer")
        for number in range(6):
            producer.begin_transaction()
            for record in range(3):
                producer.produce("t", f"{number}-{record}")
            producer.flush(SOON)
            if number % 2:
                producer.abort_transaction(SOON)
            else:
                producer.commit_transaction(SOON)
        kept = [f"{number}-{n}".encode() for number in (0, 2, 4) for n in range(3)]
        every = [f"{number}-{n}".encode() for number in range(6) for n in range(3)]
        assert _read(cluster, "t") == kept
        assert _read(cluster, "t", "read_uncommitted") == every


def test_offsets_count_when_their_transaction_commits() -> None:
    """T41, T42: consume-transform-produce, with one transaction aborted."""
    with Cluster(1) as cluster:
        _created(cluster, "in", "out")
        plain = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(4):
            plain.produce("in", str(number))
        plain.flush(SOON)
        producer = _producer(cluster, "copier")
        consumer = _consumer(cluster, "in", "read_committed", "copiers")
        for commits in (True, False):
            producer.begin_transaction()
            for _ in range(2):
                message = consumer.poll(SOON)
                assert message is not None
                producer.produce("out", message.value())
            positions = consumer.position([TopicPartition("in", 0)])
            producer.send_offsets_to_transaction(
                positions, consumer.consumer_group_metadata(), SOON
            )
            (producer.commit_transaction if commits else producer.abort_transaction)(SOON)
        (committed,) = consumer.committed([TopicPartition("in", 0)], SOON)
        consumer.close()
        assert committed.offset == 2
        assert _read(cluster, "out") == [b"0", b"1"]


def test_a_second_producer_of_the_id_fences_the_first() -> None:
    """T24, T33: the open transaction of the first is aborted."""
    with Cluster(1) as cluster:
        _created(cluster, "t")
        first = _producer(cluster, "writer")
        first.begin_transaction()
        first.produce("t", b"lost")
        first.flush(SOON)
        second = _producer(cluster, "writer")
        with pytest.raises(KafkaException) as fenced:
            first.commit_transaction(SOON)
        assert fenced.value.args[0].fatal()
        second.begin_transaction()
        second.produce("t", b"kept")
        second.commit_transaction(SOON)
        assert _read(cluster, "t") == [b"kept"]


def test_aiokafka_commits_offsets_and_records_together() -> None:
    """T29, T41: another implementation of the transactional producer."""
    aiokafka = pytest.importorskip("aiokafka")
    with Cluster(1) as cluster:
        _created(cluster, "in", "out")
        asyncio.run(_copy_with_aiokafka(aiokafka, cluster.bootstrap_servers))
        assert _read(cluster, "out") == [b"kept"]
        consumer = _consumer(cluster, "in", "read_committed", "copiers")
        (committed,) = consumer.committed([TopicPartition("in", 0)], SOON)
        consumer.close()
        assert committed.offset == 3


async def _copy_with_aiokafka(aiokafka: Any, bootstrap: str) -> None:
    at = aiokafka.TopicPartition("in", 0)
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="aio")
    await producer.start()
    try:
        for value, offset in ((b"lost", 9), (b"kept", 3)):
            await producer.begin_transaction()
            await producer.send_and_wait("out", value)
            await producer.send_offsets_to_transaction({at: offset}, "copiers")
            if value == b"kept":
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
    finally:
        await producer.stop()
