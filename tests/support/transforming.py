"""Consume-transform-produce in transactions, by confluent-kafka, until every input is consumed.

Run as a program it is a process of its own: BOOTSTRAP SOURCE TARGET NAME WANTED. It ends when every
input is consumed, or when another process has fenced it.
"""

import sys
import time
from threading import Event, Thread
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.support.clients import PATIENCE_S

PARTITIONS: Final = 2
_BATCH: Final = 20
_STEP_S: Final = 10.0
_ATTEMPT_S: Final = 3.0
FENCED: Final = 3  # the exit code


def fill(bootstrap: str, topic: str, count: int, first: int = 0) -> None:
    """Produce `count` numbers to a topic, each once."""
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True}
    producer = Producer(settings)
    for number in range(first, first + count):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


def read_committed(bootstrap: str, topic: str) -> list[int]:
    """The values of all committed records, sorted; waits for open transactions to end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    at = [TopicPartition(topic, n, 0) for n in range(PARTITIONS)]
    consumer.assign(at)
    ends = {n: _high_watermark(bootstrap, topic, n) for n in range(PARTITIONS)}
    found, left = [], dict(ends)
    deadline = time.monotonic() + PATIENCE_S
    while left and time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is None:
            continue
        error, partition = message.error(), message.partition() or 0
        if error is None:
            found.append(int(message.value() or b""))
        elif (
            error.code() == KafkaError._PARTITION_EOF and (message.offset() or 0) >= ends[partition]
        ):
            left.pop(partition, None)
    consumer.close()
    assert not left, f"{topic} is not readable to its end {ends}: a transaction hangs"
    return sorted(found)


def _high_watermark(bootstrap: str, topic: str, partition: int) -> int:
    """The end of a partition. librdkafka keeps a question for the leader that it knew, alive or
    dead, so each attempt is by a client that looks the leader up.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
        try:
            _, high = consumer.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=_ATTEMPT_S
            )
            return int(high)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
        finally:
            consumer.close()


class Transformer:
    """Copies numbers from one topic to another, exactly once, in a thread of its own."""

    def __init__(self, bootstrap: str, source: str, target: str, name: str, wanted: int) -> None:
        self.done = Event()
        self.failures: list[str] = []
        self.transactions = 0
        self._bootstrap = bootstrap
        self._source, self._target, self._name = source, target, name
        self._wanted = wanted
        self._stopping = Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> "Transformer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set() and not self.done.is_set():
            self.live()

    def live(self) -> bool:
        """Work until an error; returns whether the producer was fenced."""
        try:
            self._live()
        except KafkaException as failure:
            self.failures.append(str(failure))
            return bool(failure.args[0].code() == KafkaError._FENCED)
        return False

    def _live(self) -> None:
        """The life of one process: a producer that fences its predecessor, and a consumer."""
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": self._name,
                "transaction.timeout.ms": 10_000,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        producer.init_transactions(PATIENCE_S)
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": self._name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "reconnect.backoff.max.ms": 200,
                "session.timeout.ms": 6_000,
                "log_level": 0,
            }
        )
        consumer.subscribe([self._source])
        try:
            while not self._stopping.is_set() and not self.done.is_set():
                self._transact(producer, consumer)
        finally:
            consumer.close()

    def _transact(self, producer: Producer, consumer: Consumer) -> None:
        messages = [m for m in consumer.consume(_BATCH, 0.3) if m.error() is None]
        if not messages:
            self._check_done(consumer)
            return
        producer.begin_transaction()
        try:
            for message in messages:
                at = message.partition() or 0
                producer.produce(self._target, message.value(), partition=at)
            offsets = consumer.position(consumer.assignment())
            member = consumer.consumer_group_metadata()
            _until_done(lambda: producer.send_offsets_to_transaction(offsets, member, _STEP_S))
            _until_done(lambda: producer.commit_transaction(_STEP_S))
        except KafkaException as failure:
            error = failure.args[0]
            if not error.txn_requires_abort():
                raise
            self.failures.append(str(error))
            _until_done(lambda: producer.abort_transaction(_STEP_S))
            raise  # the positions are lost: begin again at the committed offsets
        self.transactions += 1

    def _check_done(self, consumer: Consumer) -> None:
        at = [TopicPartition(self._source, n) for n in range(PARTITIONS)]
        try:
            committed = consumer.committed(at, _STEP_S)
        except KafkaException:
            return
        if sum(max(0, each.offset) for each in committed) >= self._wanted:
            self.done.set()


def _until_done(step: Any) -> None:
    """Try a step of a transaction again as long as librdkafka says that it may be."""
    while True:
        try:
            step()
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise
        else:
            return


def main() -> None:
    bootstrap, source, target, name, wanted = sys.argv[1:]
    transformer = Transformer(bootstrap, source, target, name, int(wanted))
    is_fenced = False
    while not (transformer.done.is_set() or is_fenced):
        is_fenced = transformer.live()
        print(*transformer.failures[-1:], flush=True)
    sys.exit(FENCED if is_fenced else 0)


if __name__ == "__main__":
    main()
