"""Producers and readers that run while a cluster suffers, and remember what they were told."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

FLUSHED_WITHIN_S: Final = 60.0
# Of each partition; one that has no leader must not keep those waiting that have.
OUTSTANDING: Final = 100
PACE_S: Final = 0.01
PADDING: Final = b"." * 100

# Clients give up soon on a broker that does not answer, and look for another.
IMPATIENT: Final = {
    "log_level": 0,
    "socket.timeout.ms": 4_000,
    "socket.connection.setup.timeout.ms": 2_000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 300,
    "retry.backoff.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 100,
    "topic.metadata.refresh.interval.ms": 5_000,
}


class Acknowledged(NamedTuple):
    number: int
    offset: int | None  # None where the broker only said that it has the record already
    at: float


def value_of(producer: int, partition: int, number: int) -> bytes:
    return b"%d:%d:%d:" % (producer, partition, number) + PADDING


class Load:
    """One idempotent producer: it counts in every partition, and loses patience with none."""

    def __init__(
        self, number: int, bootstrap: str, topic: str, partitions: int, *, acks: str = "all"
    ) -> None:
        self.number = number
        self.sent = [0] * partitions
        self.acknowledged: list[list[Acknowledged]] = [[] for _ in range(partitions)]
        self.errors: list[str] = []
        self._topic = topic
        self._stopping = Event()
        self._producer = Producer(
            {
                **IMPATIENT,
                "bootstrap.servers": bootstrap,
                "enable.idempotence": acks == "all",
                "acks": acks,
                "request.timeout.ms": 2_000,
                "message.timeout.ms": 0,
                "linger.ms": 2,
                "batch.num.messages": 20,
            }
        )

    def run(self) -> None:
        """Send until `stop`, or until the client says that it cannot go on."""
        try:
            self._send_on()
        except KafkaException as fatal:
            self.errors.append(str(fatal))

    def _send_on(self) -> None:
        while not self._stopping.is_set():
            for partition, acknowledged in enumerate(self.acknowledged):
                if self.sent[partition] - len(acknowledged) < OUTSTANDING:
                    self._send(partition)
            self._producer.poll(PACE_S)
            time.sleep(PACE_S)

    def stop(self) -> None:
        self._stopping.set()

    def flush(self) -> None:
        left = self._producer.flush(FLUSHED_WITHIN_S)
        assert left == 0, f"{left} records were never acknowledged"

    @property
    def acknowledgements(self) -> int:
        return sum(map(len, self.acknowledged))

    def _send(self, partition: int) -> None:
        number = self.sent[partition]
        self.sent[partition] += 1
        self._producer.produce(
            self._topic,
            value_of(self.number, partition, number),
            partition=partition,
            on_delivery=self._noting(partition, number),
        )

    def _noting(self, partition: int, number: int) -> Callable[[Any, Any], None]:
        def report(error: Any, message: Any) -> None:
            if error is not None:
                self.errors.append(f"{partition}/{number}: {error}")
            self.acknowledged[partition].append(
                Acknowledged(number, message.offset(), time.monotonic())
            )

        return report


class Reader:
    """Reads all partitions from their beginnings on, and remembers every record it saw."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, settings: dict[str, Any] | None = None
    ) -> None:
        self.seen: list[dict[int, bytes]] = [{} for _ in range(partitions)]
        self.errors: list[str] = []
        self.other_errors: dict[str, int] = {}
        self._topic = topic
        self._stopping = Event()
        self._consumer = Consumer(
            {
                **IMPATIENT,
                "bootstrap.servers": bootstrap,
                "group.id": "not-joined",
                "enable.auto.commit": False,
                "isolation.level": "read_uncommitted",
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 200,
                "fetch.error.backoff.ms": 50,
                **(settings or {}),
            }
        )

    def run(self) -> None:
        """Read until `stop`."""
        whole = [TopicPartition(self._topic, p, OFFSET_BEGINNING) for p in range(len(self.seen))]
        self._consumer.assign(whole)
        while not self._stopping.is_set():
            for message in self._consumer.consume(500, 0.1):
                self._take(message)
        self._consumer.close()

    def stop(self) -> None:
        self._stopping.set()

    @property
    def counts(self) -> list[int]:
        """How many records it saw of each partition."""
        return [len(seen) for seen in self.seen]

    def __repr__(self) -> str:
        return f"<saw {self.counts} errors={self.errors} others={self.other_errors}>"

    def _take(self, message: Any) -> None:
        if (error := message.error()) is not None:
            # No record that was once shown is ever beyond a leader's end.
            if error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "_LOG_TRUNCATION"):
                self.errors.append(f"{message.partition()}@{message.offset()}: {error}")
            else:
                self.other_errors[error.name()] = self.other_errors.get(error.name(), 0) + 1
            return
        seen, offset, value = self.seen[message.partition()], message.offset(), message.value()
        if seen.setdefault(offset, value) != value:
            self.errors.append(f"{message.partition()}@{offset}: {seen[offset]!r}, then {value!r}")


@contextmanager
def running(parts: Sequence[Load | Reader]) -> Iterator[None]:
    """Run all during the block, each on a thread of its own."""
    threads = [Thread(target=part.run, name=type(part).__name__) for part in parts]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for part in parts:
            part.stop()
        for thread in threads:
            thread.join()
