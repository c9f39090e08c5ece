"""aiokafka against a broker, unmodified."""

import asyncio

import pytest

from barnabas.wire.records.compression import Codec
from tests.clients.contract import AdminContract, LibraryContract, batches
from tests.support.aiokafka_client import AiokafkaAdmin, AiokafkaClient, TopicPartition
from tests.support.aiokafka_client import library as aiokafka
from tests.support.broker import BrokerProcess
from tests.support.clients import PATIENCE_S, Message


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> AiokafkaClient:
    return AiokafkaClient(broker.bootstrap)


@pytest.fixture(scope="module")
def admin(broker: BrokerProcess) -> AiokafkaAdmin:
    return AiokafkaAdmin(broker.bootstrap)


class TestAiokafkaClient(LibraryContract):
    pass


class TestAiokafkaAdmin(AdminContract):
    pass


def test_a_batch_built_by_the_user_is_sent_as_one(
    client: AiokafkaClient, broker: BrokerProcess, topic: str
) -> None:
    async def send() -> int:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=client.bootstrap, compression_type="zstd"
        ) as producer:
            batch = producer.create_batch()
            for number in range(100):
                batch.append(key=b"key", value=b"%d" % number, timestamp=None)
            sent = await producer.send_batch(batch, topic, partition=0)
            return int((await sent).offset)

    assert asyncio.run(send()) == 0
    (on_disk,) = batches(broker, topic)
    assert (on_disk.record_count, on_disk.codec) == (100, Codec.ZSTD)
    consumed = client.consume(topic, 100)
    assert [each.message.value for each in consumed] == [b"%d" % i for i in range(100)]


def test_a_consumer_seeks_and_gets_many_from_several_partitions(
    client: AiokafkaClient, admin: AiokafkaAdmin, topic: str
) -> None:
    admin.create_topic(topic, partitions=2)
    client.produce(topic, [Message(b"%d" % i, partition=i % 2) for i in range(10)])
    partitions = [TopicPartition(topic, number) for number in range(2)]

    async def read() -> dict[int, list[bytes]]:
        consumer = await client.consumer()
        try:
            consumer.assign(partitions)
            for partition in partitions:
                consumer.seek(partition, 3)
            got: dict[int, list[bytes]] = {0: [], 1: []}
            while sum(map(len, got.values())) < 4:
                polled = await consumer.getmany(timeout_ms=1_000)
                for partition, records in polled.items():
                    got[partition.partition] += [record.value for record in records]
            assert await consumer.beginning_offsets(partitions) == dict.fromkeys(partitions, 0)
            assert await consumer.end_offsets(partitions) == dict.fromkeys(partitions, 5)
            return got
        finally:
            await consumer.stop()

    assert asyncio.run(asyncio.wait_for(read(), PATIENCE_S)) == {0: [b"6", b"8"], 1: [b"7", b"9"]}
