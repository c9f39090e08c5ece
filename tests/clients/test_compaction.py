"""A compacted topic with real clients, while the broker compacts."""

import re
from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.broker import BrokerProcess
from tests.support.waiting import until

EAGER = (
    "log.cleaner.backoff.ms=50",
    "log.cleaner.min.cleanable.ratio=0.01",
    "log.cleaner.delete.retention.ms=100",
    "log.segment.delete.delay.ms=100",
)
KEYS = 20
WITHIN_S = 60.0


def create(broker: BrokerProcess, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    settings = {"cleanup.policy": "compact", "segment.bytes": "20000", **config}
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(WITHIN_S)


def produce(broker: BrokerProcess, topic: str, pairs: list[tuple[str, str | None]]) -> None:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "compression.type": "lz4",
            "batch.num.messages": 50,
        }
    )
    for key, value in pairs:
        producer.produce(topic, value, key)
        producer.poll(0)
    assert producer.flush(WITHIN_S) == 0


def consume(broker: BrokerProcess, topic: str) -> list[tuple[int, bytes, bytes | None]]:
    """Offset, key and value of all that is in the topic now."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "none",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    found: list[tuple[int, bytes, bytes | None]] = []
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while (message := consumer.poll(WITHIN_S)) is not None:  # a tombstone is falsy
            if error := message.error():
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            offset, key = message.offset(), message.key()
            assert offset is not None
            assert key is not None
            found.append((offset, key, message.value()))
    finally:
        consumer.close()
    raise AssertionError("the end of the partition was not reached")


def test_a_compacted_topic_shrinks_to_its_latest_values_while_it_is_written_and_read(
    fresh_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = fresh_broker(*EAGER)
    create(broker, topic)
    rounds = 100
    pairs: list[tuple[str, str | None]] = [
        (f"key-{n}", f"{round_number}-" + "x" * 50)
        for round_number in range(rounds)
        for n in range(KEYS)
    ]
    produce(broker, topic, pairs)
    produce(broker, topic, [("key-0", None)])
    # These make the tombstone's segment one that may be compacted, and its time pass.
    for _ in range(3):
        produce(broker, topic, [(f"key-{1 + n % (KEYS - 1)}", f"last-{n}") for n in range(2000)])

    def is_compacted() -> bool:
        found = consume(broker, topic)
        offsets = [offset for offset, _, _ in found]
        assert offsets == sorted(set(offsets))
        produce(broker, topic, [(f"key-{1 + n}", f"more-{n}") for n in range(KEYS - 1)])
        return len(found) < 2500 and not any(key == b"key-0" for _, key, _ in found)

    until(is_compacted, "old values to go")
    latest = {key: value for _, key, value in consume(broker, topic)}
    assert latest == {f"key-{1 + n}".encode(): f"more-{n}".encode() for n in range(KEYS - 1)}
    assert re.search(rf"log cleaned partition={topic}-0 dirty=0\.\.\d+ bytes=\d+", broker.log())
    broker.stop()
    checkpoint = (broker.data / "cleaner-offset-checkpoint").read_text().splitlines()
    assert [line.rpartition(" ")[0] for line in checkpoint[2:]] == [f"{topic} 0"]
    broker.start()
    assert {key: value for _, key, value in consume(broker, topic)} == latest
    produce(broker, topic, [("key-new", "value")])
    assert consume(broker, topic)[-1][1:] == (b"key-new", b"value")


def test_a_topic_deleted_while_it_is_compacted_leaves_nothing_behind(
    fresh_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = fresh_broker(*EAGER, "log.cleaner.io.max.bytes.per.second=20000")
    create(broker, topic)
    produce(broker, topic, [(f"key-{n % KEYS}", "x" * 100) for n in range(5000)])
    folder = broker.data / f"{topic}-0"
    until(lambda: any(folder.glob("*.cleaned")), "a cleaning")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(WITHIN_S)
    until(lambda: "cleaning aborted" in broker.log(), "the cleaning to end")
    until(lambda: not list(broker.data.glob(f"{topic}-0*")), "all files to go")
    create(broker, topic)
    produce(broker, topic, [("key", "value")])
    assert consume(broker, topic) == [(0, b"key", b"value")]
    broker.stop()
