"""The load of a soak: records, group members that come and go, compaction, retention, topics."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.bench.clusters.bench_topics import PATIENCE_S, client_settings

FLOW: Final = "soak-flow"
COMPACTED: Final = "soak-compacted"
RETAINED: Final = "soak-retained"
GROUP: Final = "soak"
KEYS: Final = 100
# A soak in which one of these stayed 0 has not had its load.
COUNTED: Final = ("acknowledged", "consumed", "rebalanced", "topics")
TICK_S: Final = 0.1
JOINED_FOR_S: Final = 10.0
CHURNED_EVERY_S: Final = 4.0
# Small segments and short periods: minutes of a soak show what takes days elsewhere.
PROPERTIES: Final = {
    "log.retention.check.interval.ms": "5000",
    "log.cleaner.backoff.ms": "2000",
    "log.segment.delete.delay.ms": "1000",
    "offsets.topic.num.partitions": "6",
}
TOPICS: Final[Mapping[str, tuple[int, Mapping[str, str]]]] = {
    FLOW: (6, {"retention.ms": "60000", "segment.bytes": "1000000"}),
    COMPACTED: (
        3,
        {
            "cleanup.policy": "compact",
            "segment.bytes": "200000",
            "min.cleanable.dirty.ratio": "0.1",
        },
    ),
    RETAINED: (3, {"retention.bytes": "2000000", "segment.bytes": "500000"}),
}


class SoakLoad:
    """Clients of a cluster, one thread each; `counts` is what they did so far."""

    def __init__(self, bootstrap: str) -> None:
        self.counts: Counter[str] = Counter()
        self._bootstrap = bootstrap
        self._over = threading.Event()

    def create_topics(self) -> None:
        admin = AdminClient(client_settings(self._bootstrap))
        topics = [
            NewTopic(name, num_partitions=partitions, replication_factor=3, config=dict(config))
            for name, (partitions, config) in TOPICS.items()
        ]
        for made in admin.create_topics(topics).values():
            made.result(PATIENCE_S)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run all clients during the block."""
        clients = (self._produce, self._consume, self._join_and_leave, self._churn_topics)
        threads = [threading.Thread(target=self._guarded, args=(each,)) for each in clients]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def _guarded(self, client: Callable[[], None]) -> None:
        """Run one client; an error counts, and the client starts again."""
        while not self._over.is_set():
            try:
                client()
            except KafkaException:
                self.counts["errors"] += 1
                self._over.wait(1.0)

    def _produce(self) -> None:
        """Some 400 records a second to all topics, with acks=all."""
        producer = Producer(client_settings(self._bootstrap, acks="all", **{"linger.ms": 5}))
        number = 0
        while not self._over.wait(TICK_S):
            for _ in range(20):
                number += 1
                key = str(number % KEYS).encode()
                producer.produce(FLOW, b"v" * 500, key, on_delivery=self._on_delivery)
                producer.produce(RETAINED, b"v" * 1000, key, on_delivery=self._on_delivery)
                if number % 2:
                    producer.produce(COMPACTED, b"v" * 200, key, on_delivery=self._on_delivery)
            producer.poll(0)
        if producer.flush(PATIENCE_S):
            self.counts["errors"] += 1

    def _on_delivery(self, error: Any, _: Message) -> None:
        self.counts["acknowledged" if error is None else "errors"] += 1

    def _consume(self) -> None:
        """A member that stays."""
        self._take_part(float("inf"))

    def _join_and_leave(self) -> None:
        """A member that comes and goes, so that the group rebalances."""
        self._take_part(JOINED_FOR_S)
        self.counts["rebalanced"] += 1
        self._over.wait(JOINED_FOR_S)

    def _take_part(self, seconds: float) -> None:
        settings = {"group.id": GROUP, "auto.offset.reset": "earliest"}
        consumer = Consumer(client_settings(self._bootstrap, **settings))
        try:
            consumer.subscribe([FLOW])
            until = time.monotonic() + seconds
            while not self._over.is_set() and time.monotonic() < until:
                read = consumer.consume(500, TICK_S)
                self.counts["consumed"] += sum(each.error() is None for each in read)
        finally:
            consumer.close()

    def _churn_topics(self) -> None:
        """A topic is created, written to and deleted."""
        admin = AdminClient(client_settings(self._bootstrap))
        producer = Producer(client_settings(self._bootstrap, acks="all"))
        while not self._over.wait(CHURNED_EVERY_S):
            name = f"soak-churn-{self.counts['topics']}"
            topic = NewTopic(name, num_partitions=3, replication_factor=3)
            admin.create_topics([topic])[name].result(PATIENCE_S)
            producer.produce(name, b"value", on_delivery=self._on_delivery)
            producer.flush(PATIENCE_S)
            admin.delete_topics([name])[name].result(PATIENCE_S)
            self.counts["topics"] += 1
