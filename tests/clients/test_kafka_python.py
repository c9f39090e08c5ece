"""kafka-python against a broker, unmodified."""

from collections.abc import Iterator
from contextlib import closing
from uuid import UUID

import pytest

from tests.clients.contract import LARGE, AdminContract, LibraryContract
from tests.support.broker import BrokerProcess
from tests.support.clients import Message
from tests.support.kafka_python_client import (
    PATIENCE_MS,
    KafkaPythonAdmin,
    KafkaPythonClient,
    TopicPartition,
)
from tests.support.kafka_python_client import library as kafka


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> KafkaPythonClient:
    return KafkaPythonClient(broker.bootstrap)


@pytest.fixture(scope="module")
def admin(broker: BrokerProcess) -> Iterator[KafkaPythonAdmin]:
    admin = KafkaPythonAdmin(broker.bootstrap)
    yield admin
    admin.client.close()


class TestKafkaPythonClient(LibraryContract):
    pass


class TestKafkaPythonAdmin(AdminContract):
    pass


def test_offsets_are_listed_by_beginning_end_and_greatest_time(
    client: KafkaPythonClient, admin: KafkaPythonAdmin, topic: str
) -> None:
    times = [1_600_000_000_000, 1_600_000_009_000, 1_600_000_005_000]
    client.produce(topic, [Message(b"v", timestamp=time) for time in times])
    partition = TopicPartition(topic, 0)
    specs = kafka.protocol.consumer.OffsetSpec
    for spec, expected in {
        specs.EARLIEST: (0, -1),
        specs.LATEST: (3, -1),
        specs.MAX_TIMESTAMP: (1, 1_600_000_009_000),
    }.items():
        found = admin.client.list_partition_offsets({partition: spec})[partition]
        assert (found.offset, found.timestamp) == expected


def test_configs_are_altered_one_by_one(admin: KafkaPythonAdmin, topic: str) -> None:
    admin.create_topic(topic, configs={"retention.ms": "1234", "segment.bytes": "1048576"})
    changes = {"retention.ms": ("SET", "5678"), "segment.bytes": ("DELETE", None)}
    altered = admin.client.alter_configs([admin.resource(topic, changes)], incremental=True)
    assert altered == {"topic": {topic: "OK"}}
    configs = admin.configs(topic)
    assert configs["retention.ms"] == "5678"
    assert configs["segment.bytes"] == "1073741824"


def test_a_topic_is_described_by_name_and_by_id(admin: KafkaPythonAdmin, topic: str) -> None:
    admin.create_topic(topic, partitions=2)
    (by_name,) = admin.client.describe_topics([topic])
    (by_id,) = admin.client.describe_topics([UUID(by_name["topic_id"])])
    assert by_id == by_name
    assert by_name["name"] == topic
    described = admin.client.describe_topic_partitions([topic])
    (found,) = described["topics"]
    assert [partition["partition_index"] for partition in found["partitions"]] == [0, 1]


def test_cluster_and_log_directories_are_described(
    admin: KafkaPythonAdmin, client: KafkaPythonClient, broker: BrokerProcess, topic: str
) -> None:
    client.produce(topic, [Message(b"v" * 1_000)])
    cluster = admin.client.describe_cluster()
    assert [node["port"] for node in cluster["brokers"]] == [broker.port]
    folders = str(admin.client.describe_log_dirs())
    assert str(broker.data) in folders
    assert topic in folders


def test_a_consumer_seeks_and_gets_both_offsets(client: KafkaPythonClient, topic: str) -> None:
    client.produce(topic, [Message(b"%d" % i) for i in range(10)])
    partition = TopicPartition(topic, 0)
    with closing(client.consumer()) as consumer:
        consumer.assign([partition])
        for offset in (7, 2, 9):
            consumer.seek(partition, offset)
            ((record, *_),) = consumer.poll(PATIENCE_MS).values()
            assert record.value == b"%d" % offset
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 10}
        assert topic in consumer.topics()
        assert consumer.partitions_for_topic(topic) == {0}


def test_a_message_above_the_fetch_size_is_delivered(client: KafkaPythonClient, topic: str) -> None:
    client.produce(topic, [Message(LARGE), Message(b"next")])
    partition = TopicPartition(topic, 0)
    with closing(client.consumer(max_partition_fetch_bytes=1_000, fetch_max_bytes=1_000)) as reader:
        reader.assign([partition])
        reader.seek(partition, 0)
        for expected in (LARGE, b"next"):
            ((record,),) = reader.poll(PATIENCE_MS, max_records=1).values()
            assert record.value == expected
