"""An application under load: it sends and reads records while a test changes its cluster."""

from collections.abc import Iterator
from contextlib import closing
from itertools import count
from threading import Event, Thread
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.support.waiting import until

PARTITIONS: Final = 6
COMMIT_EVERY: Final = 50


def _by_partition() -> dict[int, list[int]]:
    return {index: [] for index in range(PARTITIONS)}


def _count(numbers: dict[int, list[int]]) -> int:
    return sum(map(len, numbers.values()))


class Application:
    """An idempotent producer and two consumers of what it sends, one in a group, each in a thread.

    An error that one of these clients reports to its application is kept in `errors`.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.errors: list[str] = []
        self.delivered = 0
        self.read = _by_partition()
        self.read_by_group = _by_partition()
        self._topic = topic
        self._bootstrap = bootstrap
        self._sent = _by_partition()
        self._stopping = Event()
        self._threads = [
            Thread(target=self._produce),
            Thread(target=self._consume_all),
            Thread(target=self._consume_in_a_group),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Return when all records are delivered and read."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def check(self) -> None:
        assert self.errors == []
        assert self.read == self._sent
        assert self.read_by_group == self._sent
        with closing(Consumer(self._settings())) as consumer:
            asked = [TopicPartition(self._topic, index) for index in range(PARTITIONS)]
            committed = [each.offset for each in consumer.committed(asked, 30)]
        assert committed == [len(self._sent[index]) for index in range(PARTITIONS)]

    def wait_for_progress(self) -> None:
        """Return when more records were delivered, and read by both consumers, than before."""
        before = self._progress()
        until(
            lambda: all(
                now > then + 20 for now, then in zip(self._progress(), before, strict=True)
            ),
            "records to go through",
        )

    def _progress(self) -> tuple[int, int, int]:
        return self.delivered, _count(self.read), _count(self.read_by_group)

    def _report(self, error: Any, _: Any) -> None:
        if error is not None:
            self.errors.append(f"not delivered: {error}")
        else:
            self.delivered += 1

    def _produce(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "log_level": 0, "enable.idempotence": True}
        )
        for number in count():
            if self._stopping.is_set():
                break
            partition = number % PARTITIONS
            producer.produce(
                self._topic, b"%d" % number, partition=partition, on_delivery=self._report
            )
            self._sent[partition].append(number)
            producer.poll(0.002)
        if producer.flush(60):
            self.errors.append("not all was delivered")

    def _settings(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self._bootstrap,
            "log_level": 0,
            "group.id": f"group-of-{self._topic}",
            "enable.auto.commit": False,
        }

    def _consume_all(self) -> None:
        with closing(Consumer(self._settings() | {"auto.offset.reset": "error"})) as consumer:
            consumer.assign([TopicPartition(self._topic, index, 0) for index in range(PARTITIONS)])
            for _ in self._messages(consumer, self.read):
                pass

    def _consume_in_a_group(self) -> None:
        settings = self._settings() | {"auto.offset.reset": "earliest"}
        with closing(Consumer(settings)) as consumer:
            consumer.subscribe([self._topic])
            for number, _ in enumerate(self._messages(consumer, self.read_by_group)):
                if number % COMMIT_EVERY == 0:
                    self._commit(consumer)
            self._commit(consumer)

    def _commit(self, consumer: Consumer) -> None:
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as error:
            self.errors.append(f"not committed: {error}")

    def _messages(self, consumer: Consumer, read: dict[int, list[int]]) -> Iterator[Any]:
        """Messages until all that was sent is in `read`, or one could not be read."""
        while not self._is_over(read):
            message: Any = consumer.poll(0.2)
            if message is None:
                continue
            if message.error() is not None:
                self.errors.append(f"not read: {message.error()}")
                return
            read[message.partition()].append(int(message.value()))
            yield message

    def _is_over(self, read: dict[int, list[int]]) -> bool:
        if self.errors:
            return self._stopping.is_set()
        return not self._threads[0].is_alive() and _count(read) >= _count(self._sent)
