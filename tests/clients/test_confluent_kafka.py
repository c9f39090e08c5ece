"""confluent-kafka (librdkafka) against a broker, unmodified."""

import pytest
from confluent_kafka import KafkaError, TopicCollection, TopicPartition

from tests.clients.contract import INVALID_CONFIG, LARGE, AdminContract, LibraryContract
from tests.support.broker import BrokerProcess
from tests.support.clients import PATIENCE_S, Message, Refused
from tests.support.confluent_client import ConfluentAdmin, ConfluentClient, only_result
from tests.support.confluent_client import admin as confluent


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> ConfluentClient:
    return ConfluentClient(broker.bootstrap)


@pytest.fixture(scope="module")
def admin(broker: BrokerProcess) -> ConfluentAdmin:
    return ConfluentAdmin(broker.bootstrap)


class TestConfluentClient(LibraryContract):
    pass


class TestConfluentAdmin(AdminContract):
    pass


def test_offsets_are_listed_by_beginning_end_time_and_greatest_time(
    client: ConfluentClient, admin: ConfluentAdmin, topic: str
) -> None:
    times = [1_600_000_000_000, 1_600_000_009_000, 1_600_000_005_000]
    client.produce(topic, [Message(b"v", timestamp=time) for time in times])
    expected = {
        confluent.OffsetSpec.earliest(): (0, -1),
        confluent.OffsetSpec.latest(): (3, -1),
        confluent.OffsetSpec.max_timestamp(): (1, 1_600_000_009_000),
        confluent.OffsetSpec.for_timestamp(1_600_000_000_001): (1, 1_600_000_009_000),
    }
    for spec, found in expected.items():
        listed = only_result(admin.client.list_offsets({TopicPartition(topic, 0): spec}))
        assert (listed.offset, listed.timestamp) == found


def test_configs_are_altered_one_by_one(admin: ConfluentAdmin, topic: str) -> None:
    admin.create_topic(topic, configs={"retention.ms": "1234", "segment.bytes": "1048576"})

    def alter(name: str, value: str | None, operation: str) -> None:
        entry = confluent.ConfigEntry(
            name, value, incremental_operation=confluent.AlterConfigOpType[operation]
        )
        resource = confluent.ConfigResource(
            confluent.ResourceType.TOPIC, topic, incremental_configs=[entry]
        )
        only_result(admin.client.incremental_alter_configs([resource]))

    alter("retention.ms", "5678", "SET")
    alter("segment.bytes", None, "DELETE")
    alter("cleanup.policy", "compact", "APPEND")
    configs = admin.configs(topic)
    assert configs["retention.ms"] == "5678"
    assert configs["segment.bytes"] == "1073741824"
    assert configs["cleanup.policy"] == "delete,compact"
    alter("cleanup.policy", "delete", "SUBTRACT")
    assert admin.configs(topic)["cleanup.policy"] == "compact"
    for name, value in [("retention.ms", "soon"), ("no.such.config", "1")]:
        with pytest.raises(Refused) as refusal:
            alter(name, value, "SET")
        assert refusal.value.code == INVALID_CONFIG
    assert admin.configs(topic)["retention.ms"] == "5678"


def test_a_config_has_its_source(admin: ConfluentAdmin, topic: str) -> None:
    admin.create_topic(topic, configs={"retention.ms": "1234"})
    resource = confluent.ConfigResource(confluent.ResourceType.TOPIC, topic)
    entries = only_result(admin.client.describe_configs([resource]))
    assert confluent.ConfigSource(entries["retention.ms"].source).name == "DYNAMIC_TOPIC_CONFIG"
    assert not entries["retention.ms"].is_default
    assert confluent.ConfigSource(entries["segment.ms"].source).name == "DEFAULT_CONFIG"


def test_a_brokers_configs_are_described(admin: ConfluentAdmin, broker: BrokerProcess) -> None:
    resource = confluent.ConfigResource(confluent.ResourceType.BROKER, "0")
    entries = only_result(admin.client.describe_configs([resource]))
    assert entries["broker.id"].value == "0"
    assert entries["log.dirs"].value == str(broker.data)
    assert entries["log.dirs"].is_read_only


def test_cluster_and_topic_are_described(
    admin: ConfluentAdmin, broker: BrokerProcess, topic: str
) -> None:
    cluster = admin.client.describe_cluster().result(PATIENCE_S)
    assert [(node.id, node.host, node.port) for node in cluster.nodes] == [
        (0, "127.0.0.1", broker.port)
    ]
    assert cluster.controller.id == 0
    admin.create_topic(topic, partitions=2)
    described = only_result(admin.client.describe_topics(TopicCollection([topic])))
    assert described.name == topic
    assert not described.is_internal
    for number, partition in enumerate(described.partitions):
        assert partition.id == number
        assert partition.leader.id == 0
        assert [node.id for node in partition.replicas] == [0]
        assert [node.id for node in partition.isr] == [0]


def test_a_topic_may_be_validated_without_being_created(admin: ConfluentAdmin, topic: str) -> None:
    new = confluent.NewTopic(topic, 3, 1)
    only_result(admin.client.create_topics([new], validate_only=True))
    assert topic not in admin.topics()


def test_more_replicas_than_brokers_are_rejected(admin: ConfluentAdmin, topic: str) -> None:
    with pytest.raises(Refused) as refusal:
        only_result(admin.client.create_topics([confluent.NewTopic(topic, 1, 3)]))
    assert refusal.value.code == KafkaError.INVALID_REPLICATION_FACTOR


def test_an_offset_out_of_range_is_reset_by_the_consumers_policy(
    client: ConfluentClient, topic: str
) -> None:
    client.produce(topic, [Message(b"first"), Message(b"second")])
    consumer = client.consumer({"auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, 0, 1_000)])
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.value() == b"first"
    finally:
        consumer.close()


def test_a_consumer_seeks_and_gets_the_watermarks(client: ConfluentClient, topic: str) -> None:
    client.produce(topic, [Message(b"%d" % i) for i in range(10)])
    consumer = client.consumer({})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        values = []
        for offset in (7, 2, 9):
            consumer.poll(PATIENCE_S)
            consumer.seek(TopicPartition(topic, 0, offset))
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            values.append(message.value())
        assert values == [b"7", b"2", b"9"]
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0)) == (0, 10)
    finally:
        consumer.close()


def test_a_message_above_the_fetch_size_is_delivered(client: ConfluentClient, topic: str) -> None:
    client.produce(topic, [Message(LARGE), Message(b"next")])
    consumer = client.consumer({"max.partition.fetch.bytes": 1_000})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        for expected in (LARGE, b"next"):
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            assert message.value() == expected
    finally:
        consumer.close()
