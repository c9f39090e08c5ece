"""Producers and readers that run during faults, and record acknowledgements and records."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any, Final, NamedTuple, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

FLUSHED_WITHIN_S: Final = 60.0
# Per partition; one without a leader must not block the others.
OUTSTANDING: Final = 100
PACE_S: Final = 0.01
PADDING: Final = b"." * 100

# The facts of each partition that a reader reports if it saw too few records.
TOLD: Final = ("leader", "broker", "fetch_state", "next_offset", "hi_offset", "ls_offset", "rxmsgs")
NO_BROKER: Final = -1
# librdkafka 2.16 with a `client.rack` was seen to send no request at all for a minute, not even for
# metadata, while the same client without one kept reading. An operator would restart it.
REPLACED_AFTER_S: Final = 20.0
# Clients give up soon on a broker that does not respond, and try another.
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
    offset: int | None  # None if the broker only reported a duplicate
    at: float


def value_of(producer: int, partition: int, number: int) -> bytes:
    return b"%d:%d:%d:" % (producer, partition, number) + PADDING


class Load:
    """One idempotent producer: it sends increasing numbers to every partition."""

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
        """Send until `stop`, or until a fatal error of the client."""
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


@dataclass
class Replacement:
    """A client that stopped sending requests, and the new one that replaced it.

    If the new one finds no leader either, the bug is not the client's.
    """

    stuck_leaders: dict[str, int]  # leader of each partition in the client's view; -1 is none
    at: float
    fresh_leaders: dict[str, int] | None = None  # at its first statistics
    told_after_s: float | None = None
    had_broker_after_s: float | None = None

    def on_fresh(self, leaders: dict[str, int], *, has_broker: bool) -> None:
        after_s = round(time.monotonic() - self.at, 1)
        if self.fresh_leaders is None:
            self.fresh_leaders, self.told_after_s = leaders, after_s
        if has_broker and self.had_broker_after_s is None:
            self.had_broker_after_s = after_s

    def __str__(self) -> str:
        return (
            f"with leaders {self.stuck_leaders} it asked nobody; the fresh client knew "
            f"{self.fresh_leaders} after {self.told_after_s} s, "
            f"and had a broker after {self.had_broker_after_s} s"
        )


class Reader:
    """Reads all partitions from the beginning, and records every message."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, settings: dict[str, Any] | None = None
    ) -> None:
        self.seen: list[dict[int, bytes]] = [{} for _ in range(partitions)]
        self.errors: list[str] = []
        self.other_errors: dict[str, int] = {}
        self._topic = topic
        self._stopping = Event()
        self._told: dict[str, Any] = {}  # the client's own statistics
        self._had_broker_at = time.monotonic()
        self.replacements: list[Replacement] = []
        self._settings: dict[str, Any] = {
            **IMPATIENT,
            "bootstrap.servers": bootstrap,
            "group.id": "not-joined",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 200,
            "fetch.error.backoff.ms": 50,
            "statistics.interval.ms": 1_000,
            "stats_cb": self._on_statistics,
            **(settings or {}),
        }
        self._consumer = Consumer(self._settings)

    def run(self) -> None:
        """Read until `stop`."""
        self._assign()
        while not self._stopping.is_set():
            for message in self._consumer.consume(500, 0.1):
                self._take(message)
            if time.monotonic() - self._had_broker_at > REPLACED_AFTER_S:
                self._replace()
        self._consumer.close()

    def _replace(self) -> None:
        self._consumer.close()
        self._had_broker_at = time.monotonic()
        self.replacements.append(Replacement(self._leaders(), self._had_broker_at))
        self._told = {}
        self._consumer = Consumer(self._settings)
        self._assign()

    def _assign(self) -> None:
        """All partitions, from the first unseen offset."""
        self._consumer.assign(
            [
                TopicPartition(self._topic, number, max(seen) + 1 if seen else OFFSET_BEGINNING)
                for number, seen in enumerate(self.seen)
            ]
        )

    def _on_statistics(self, told: str) -> None:
        self._told = json.loads(told)
        has_broker = any(each["broker"] != NO_BROKER for each in self._partitions().values())
        if has_broker:
            self._had_broker_at = time.monotonic()
        if self.replacements:
            self.replacements[-1].on_fresh(self._leaders(), has_broker=has_broker)

    def _partitions(self) -> dict[str, Any]:
        topic = self._told.get("topics", {}).get(self._topic, {})
        return cast(dict[str, Any], topic.get("partitions", {}))

    def _leaders(self) -> dict[str, int]:
        partitions = self._partitions()
        return {
            str(n): partitions[str(n)]["leader"]
            for n in range(len(self.seen))
            if str(n) in partitions
        }

    def stop(self) -> None:
        self._stopping.set()

    @property
    def counts(self) -> list[int]:
        """The number of records seen in each partition."""
        return [len(seen) for seen in self.seen]

    def __repr__(self) -> str:
        states = {
            number: {name: each.get(name) for name in TOLD}
            for number, each in self._partitions().items()
        }
        replaced = [str(each) for each in self.replacements]
        return (
            f"<saw {self.counts} errors={self.errors} others={self.other_errors} "
            f"replaced={replaced} fetching={states}>"
        )

    def _take(self, message: Any) -> None:
        if (error := message.error()) is not None:
            # A record that was once visible is never beyond a leader's log end.
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
    """Run all during the block, each on its own thread."""
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
