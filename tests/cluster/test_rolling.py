"""A rolling restart under load: no client sees an error or misses a record."""

from itertools import count
from threading import Event, Thread
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cluster.conftest import BROKERS
from tests.cluster.operations import create
from tests.support.cluster import Cluster, until

pytestmark = pytest.mark.timeout(300)

PARTITIONS: Final = 6


class Application:
    """An idempotent producer and a consumer of what it sends, each in a thread."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.errors: list[str] = []
        self.delivered = 0
        self.read: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}
        self._topic = topic
        self._bootstrap = bootstrap
        self._sent: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}
        self._stopping = Event()
        self._threads = [Thread(target=self._produce), Thread(target=self._consume)]

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

    def wait_for_progress(self) -> None:
        """Return when more records were delivered and read than before."""
        delivered, read = self.delivered, self._count_read()
        until(
            lambda: self.delivered > delivered + 20 and self._count_read() > read + 20,
            "records to go through",
        )

    def _count_read(self) -> int:
        return sum(map(len, self.read.values()))

    def _count_sent(self) -> int:
        return sum(map(len, self._sent.values()))

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

    def _consume(self) -> None:
        settings = {
            "bootstrap.servers": self._bootstrap,
            "log_level": 0,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
        consumer = Consumer(settings)
        try:
            consumer.assign([TopicPartition(self._topic, index, 0) for index in range(PARTITIONS)])
            while not self._is_over():
                message: Any = consumer.poll(0.2)
                if message is None:
                    continue
                if message.error() is not None:
                    self.errors.append(f"not read: {message.error()}")
                    return
                self.read[message.partition()].append(int(message.value()))
        finally:
            consumer.close()

    def _is_over(self) -> bool:
        if self.errors:
            return self._stopping.is_set()
        producing = self._threads[0].is_alive()
        return not producing and self._count_read() >= self._count_sent()


def test_in_a_rolling_restart_no_request_fails_and_nothing_is_lost(
    cluster: Cluster, topic: str
) -> None:
    create(cluster, topic, PARTITIONS, configs={"min.insync.replicas": "2"})
    cluster.wait_settled()
    application = Application(cluster.bootstrap, topic)
    application.start()
    try:
        for number in BROKERS:
            application.wait_for_progress()
            cluster.brokers[number].stop()
            application.wait_for_progress()
            cluster.brokers[number].start()
            cluster.wait_settled()
        application.wait_for_progress()
    finally:
        application.stop()
    application.check()
    print(f"{application.delivered} records went through {len(BROKERS)} restarts")
