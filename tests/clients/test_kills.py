"""A broker that is killed at any moment under load: all that it acknowledged is there, once.

BARNABAS_CRASHES says how many kills to try, for more than CI has time for.
"""

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Event, Thread
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from tests.support.broker import BrokerProcess
from tests.support.chaos import seed_of
from tests.support.clients import PATIENCE_S
from tests.support.confluent_client import ConfluentAdmin, ConfluentClient

KILLS: Final = int(os.environ.get("BARNABAS_CRASHES", "50")) // 10
PARTITIONS: Final = 3
LONGEST_LIFE_S: Final = 0.3
CONFIG: Final = {"segment.bytes": "16384", "index.interval.bytes": "512", "flush.messages": "200"}
OFTEN: Final = (
    "log.flush.scheduler.interval.ms=20",
    "log.flush.offset.checkpoint.interval.ms=50",
)

pytestmark = pytest.mark.timeout(120 + KILLS * 5)


class Load:
    """A producer that sends numbers to all partitions in turn, as fast as it may."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.offsets: list[dict[int, int]] = [{} for _ in range(PARTITIONS)]
        self.errors: list[Any] = []
        self.sent = 0
        self._topic = topic
        self._stopping = Event()
        self._answered = Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "enable.idempotence": True,
                "batch.num.messages": 20,
                "linger.ms": 1,
                "queue.buffering.max.messages": 2000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 10,
                "message.timeout.ms": 120_000,
            }
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send during the block; afterwards all of it is acknowledged, or `errors` say why not."""
        thread = Thread(target=self._send)
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            thread.join()
        assert self._producer.flush(PATIENCE_S) == 0, "not everything was acknowledged"

    def wait_for_an_answer(self) -> None:
        """Return when the broker has acknowledged something from now on."""
        self._answered.clear()
        assert self._answered.wait(PATIENCE_S), "nothing was acknowledged"

    def _send(self) -> None:
        for number in count():
            if self._stopping.is_set():
                return
            partition = number % PARTITIONS
            try:
                self._producer.produce(
                    self._topic,
                    b"%0100d" % number,
                    partition=partition,
                    on_delivery=self._noting(partition, number),
                )
                self.sent += 1
            except BufferError:
                self._producer.poll(0.01)
            self._producer.poll(0)

    def _noting(self, partition: int, number: int) -> Callable[[Any, Any], None]:
        def report(error: Any, message: Any) -> None:
            if error is not None:
                self.errors.append(error)
            else:
                self.offsets[partition][message.offset()] = number
                self._answered.set()

        return report


def test_acknowledged_messages_survive_random_kills_once_and_in_order(
    fresh_broker: Callable[..., BrokerProcess], topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = fresh_broker(*OFTEN)
    ConfluentAdmin(broker.bootstrap).create_topic(topic, PARTITIONS, CONFIG)
    load = Load(broker.bootstrap, topic)
    source = random.Random(seed_of("BARNABAS_CRASHES"))
    with load.running():
        for _ in range(KILLS):
            load.wait_for_an_answer()
            time.sleep(source.uniform(0, LONGEST_LIFE_S))
            broker.kill()
            broker.start()
    with capsys.disabled():
        print(f"\ncrashes tried: {KILLS} of a broker, {load.sent} messages sent")
    assert not load.errors
    client = ConfluentClient(broker.bootstrap)
    for partition, acknowledged in enumerate(load.offsets):
        assert len(list((broker.data / f"{topic}-{partition}").glob("*.log"))) > 1
        consumed = client.consume(topic, len(acknowledged), partitions=[partition])
        assert {each.offset: int(each.message.value or b"") for each in consumed} == acknowledged
        numbers = [int(each.message.value or b"") for each in consumed]
        assert numbers == sorted(set(numbers))
    broker.stop()
