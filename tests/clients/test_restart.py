"""Guarantees across restarts of a broker, clean or not."""

import asyncio
import gc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicCollection

from barnabas.base.clock import SystemClock
from barnabas.wire.records.records import Record, build_batch
from tests.support.aiokafka_client import library as aiokafka
from tests.support.broker import BrokerProcess
from tests.support.clients import PATIENCE_S, Message
from tests.support.confluent_client import ConfluentAdmin, ConfluentClient, only_result
from tests.support.kafka_python_client import library as kafka_python
from tests.support.raw import RawConnection

OUT_OF_ORDER_SEQUENCE_NUMBER = 45

BURSTS = 2
BURST = 250

Interrupt = Callable[[], None]
FreshBroker = Callable[..., BrokerProcess]


@pytest.fixture(params=["SIGTERM", "SIGKILL"])
def restart(request: pytest.FixtureRequest) -> Callable[[BrokerProcess], None]:
    """End a broker and start it again on its port."""

    def end_and_start(broker: BrokerProcess) -> None:
        if request.param == "SIGTERM":
            broker.stop()
        else:
            broker.kill()
        broker.start()

    return end_and_start


def produce_with_confluent_kafka(bootstrap: str, topic: str, interrupt: Interrupt) -> list[int]:
    offsets: dict[int, int] = {}
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "acks": "all",
            "enable.idempotence": True,
            "batch.num.messages": 20,
            "linger.ms": 0,
            "reconnect.backoff.max.ms": 200,
        }
    )

    def delivered(number: int) -> Callable[[Any, Any], None]:
        def report(error: Any, message: Any) -> None:
            assert error is None, error
            offsets[number] = message.offset()

        return report

    for number in range(BURSTS * BURST):
        producer.produce(topic, b"%d" % number, partition=0, on_delivery=delivered(number))
        if number % BURST == BURST - 1:
            # The first of the burst is acknowledged, the others may be under way.
            while number - BURST + 1 not in offsets:
                producer.poll(0.1)
            interrupt()
    assert producer.flush(PATIENCE_S) == 0
    return [offsets[number] for number in range(BURSTS * BURST)]


def produce_with_kafka_python(bootstrap: str, topic: str, interrupt: Interrupt) -> list[int]:
    producer = kafka_python.KafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        enable_idempotence=True,
        batch_size=500,
        reconnect_backoff_max_ms=200,
    )
    futures = []
    with closing(producer):
        for number in range(BURSTS * BURST):
            futures.append(producer.send(topic, b"%d" % number, partition=0))
            if number % BURST == BURST - 1:
                futures[-BURST].get(PATIENCE_S)
                interrupt()
        return [future.get(PATIENCE_S).offset for future in futures]


def produce_with_aiokafka(bootstrap: str, topic: str, interrupt: Interrupt) -> list[int]:
    async def produce() -> list[int]:
        loop = asyncio.get_running_loop()
        futures = []
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, max_batch_size=500
        ) as producer:
            for number in range(BURSTS * BURST):
                futures.append(await producer.send(topic, b"%d" % number, partition=0))
                if number % BURST == BURST - 1:
                    await asyncio.wait_for(futures[-BURST], PATIENCE_S)
                    await loop.run_in_executor(None, interrupt)
            sent = await asyncio.wait_for(asyncio.gather(*futures), PATIENCE_S)
        return [metadata.offset for metadata in sent]

    return asyncio.run(produce())


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize(
    "produce",
    [produce_with_confluent_kafka, produce_with_kafka_python, produce_with_aiokafka],
)
def test_messages_of_an_idempotent_producer_survive_restarts_once_and_in_order(
    fresh_broker: FreshBroker,
    restart: Callable[[BrokerProcess], None],
    topic: str,
    produce: Callable[[str, str, Interrupt], list[int]],
) -> None:
    broker = fresh_broker()
    client = ConfluentClient(broker.bootstrap)
    client.produce(topic, [Message(b"before all")])
    offsets = produce(broker.bootstrap, topic, lambda: restart(broker))
    # Two of them do not close sockets that were refused; these must not outlive the test.
    gc.collect()
    consumed = client.consume(topic, BURSTS * BURST, start=1)
    assert [each.message.value for each in consumed] == [b"%d" % i for i in range(BURSTS * BURST)]
    assert [each.offset for each in consumed] == offsets
    assert client.produce(topic, [Message(b"after all")]) == [BURSTS * BURST + 1]


def test_a_consumer_continues_at_its_position(
    fresh_broker: FreshBroker, restart: Callable[[BrokerProcess], None], topic: str
) -> None:
    broker = fresh_broker()
    client = ConfluentClient(broker.bootstrap)
    client.produce(topic, [Message(b"0"), Message(b"1")])
    with client.reading(topic) as next_message:
        assert next_message().offset == 0
        restart(broker)
        client.produce(topic, [Message(b"2")])
        assert [next_message().message.value for _ in range(2)] == [b"1", b"2"]


def test_topics_their_ids_configs_and_the_cluster_id_survive(
    fresh_broker: FreshBroker, restart: Callable[[BrokerProcess], None], topic: str
) -> None:
    broker = fresh_broker()
    admin = ConfluentAdmin(broker.bootstrap)
    admin.create_topic(topic, 3, {"retention.ms": "1234"})
    admin.create_topic(f"{topic}-deleted")
    admin.replace_configs(topic, {"retention.ms": "5678", "segment.bytes": "1048576"})
    admin.add_partitions(topic, 4)
    admin.delete_topic(f"{topic}-deleted")
    before = identity(broker, topic)
    restart(broker)
    assert identity(broker, topic) == before
    again = ConfluentAdmin(broker.bootstrap)
    assert again.topics() == [topic]
    assert again.leaders(topic) == {0: 0, 1: 0, 2: 0, 3: 0}
    configs = again.configs(topic)
    assert (configs["retention.ms"], configs["segment.bytes"]) == ("5678", "1048576")


def identity(broker: BrokerProcess, topic: str) -> tuple[str, str]:
    """The ids of the cluster and of a topic, as clients get them."""
    client = ConfluentAdmin(broker.bootstrap).client
    cluster = client.describe_cluster().result(PATIENCE_S)
    described = only_result(client.describe_topics(TopicCollection([topic])))
    return cluster.cluster_id, str(described.topic_id)


def test_a_duplicate_batch_is_recognized_after_a_restart(
    fresh_broker: FreshBroker, restart: Callable[[BrokerProcess], None], topic: str
) -> None:
    broker = fresh_broker()
    ConfluentAdmin(broker.bootstrap).create_topic(topic)
    with RawConnection(broker.bootstrap) as connection:
        producer_id, epoch = connection.init_producer_id()
        # A producer whose last batch is more than a day old would be forgotten.
        now_ms = SystemClock().now_ms()

        def batch(sequence: int) -> bytearray:
            return build_batch(
                [Record(0, now_ms, None, b"%d" % sequence)],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            )

        assert [connection.produce(topic, batch(number)) for number in range(3)] == [
            (0, 0),
            (0, 1),
            (0, 2),
        ]
    restart(broker)
    with RawConnection(broker.bootstrap) as connection:
        assert connection.produce(topic, batch(2)) == (0, 2)
        assert connection.produce(topic, batch(9))[0] == OUT_OF_ORDER_SEQUENCE_NUMBER
        assert connection.produce(topic, batch(3)) == (0, 3)
        assert connection.init_producer_id()[0] > producer_id
    consumed = ConfluentClient(broker.bootstrap).consume(topic, 4)
    assert [each.message.value for each in consumed] == [b"0", b"1", b"2", b"3"]


def test_a_log_directory_in_use_is_reported_in_one_line(
    fresh_broker: FreshBroker, tmp_path: Path
) -> None:
    broker = fresh_broker()
    second = BrokerProcess(tmp_path)
    second.data = broker.data
    code, said = second.fail_to_start()
    assert code != 0
    (line,) = said.splitlines()
    assert line.startswith("barnabas: ")
    assert str(broker.data) in line
    assert "in use by another broker" in line
    broker.stop()


def test_a_port_in_use_is_reported_in_one_line(fresh_broker: FreshBroker, tmp_path: Path) -> None:
    broker = fresh_broker()
    second = BrokerProcess(tmp_path)
    second.port = broker.port
    code, said = second.fail_to_start()
    assert code != 0
    (line,) = said.splitlines()
    assert line.startswith("barnabas: ")
    assert str(broker.port) in line
    broker.stop()
