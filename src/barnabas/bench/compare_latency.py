"""How long a message takes from its producer to a consumer, at a pace far below saturation."""

import struct
import threading
import time
from collections.abc import Generator
from statistics import quantiles
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.bench.clients import RecordsMissing
from barnabas.bench.compare_load import topic
from barnabas.bench.compare_sites import Site
from barnabas.bench.topics import PATIENCE_S, client_settings

PACE: Final = 400  # messages a second
IN_A_TURN: Final = 2 * PACE
# What follows a pause does not count: clients and brokers are awake by then.
WAKING: Final = PACE // 4
_LOOKS_EVERY_S: Final = 0.2


def latencies_ms(site: Site, seconds: float) -> Generator[None, None, tuple[float, float, float]]:
    """p50, p99 and p99.9 from handing a message over until it is read.

    In turns with the other system: a machine that is held up for a moment, as virtual ones are,
    would else be so for one of them, and p99.9 is of few messages.
    """
    wanted = max(100, int(PACE * seconds))
    took: list[float] = []
    with topic(site, 1) as name, _Flow(site, name) as flow:
        flow.send(PACE)  # connections are made, and what is new to a broker
        while len(took) < wanted:
            yield
            took += flow.send(WAKING + min(IN_A_TURN, wanted))[WAKING:]
    cuts = quantiles(took, n=1000)
    return cuts[499], cuts[989], cuts[998]


def idle_delay_ms(seconds: float) -> float:
    """p99.9 of how late a thread wakes up at that pace while nothing else is done: the machine's
    own, below which nothing is told of a broker."""
    start, late = time.perf_counter(), list[float]()
    for number in range(int(PACE * seconds)):
        due = start + number / PACE
        time.sleep(max(0.0, due - time.perf_counter()))
        late.append(1e3 * (time.perf_counter() - due))
    return quantiles(late, n=1000)[998]


class _Flow:
    """Messages through one partition, that are read as they come."""

    def __init__(self, site: Site, name: str) -> None:
        self._bootstrap = site.bootstrap
        self._name = name
        self._producer = Producer(client_settings(site.bootstrap, **{"acks": 1, "linger.ms": 0}))
        self._took: list[float] = []
        self._reading = threading.Event()
        self._over = threading.Event()
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._reader.start()
        self._reading.wait(PATIENCE_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._reader.join(PATIENCE_S)

    def send(self, count: int) -> list[float]:
        """So many at the pace; the milliseconds of each. Raises RecordsMissing."""
        before, start = len(self._took), time.perf_counter()
        for number in range(count):
            time.sleep(max(0.0, start + number / PACE - time.perf_counter()))
            value = struct.pack(">d", time.perf_counter())
            self._producer.produce(self._name, value, partition=0)
            self._producer.poll(0)
        self._producer.flush(PATIENCE_S)
        deadline = time.perf_counter() + PATIENCE_S
        while (came := len(self._took) - before) < count:
            if time.perf_counter() > deadline:
                raise RecordsMissing(f"{came} of {count} messages came back")
            time.sleep(_LOOKS_EVERY_S)
        return self._took[before:]

    def _read(self) -> None:
        settings = {"group.id": self._name, "enable.auto.commit": False, "fetch.wait.max.ms": 100}
        consumer = Consumer(client_settings(self._bootstrap, **settings))
        try:
            consumer.assign([TopicPartition(self._name, 0, 0)])
            consumer.poll(0.5)  # so that it is fetching when the first message comes
            self._reading.set()
            while not self._over.is_set():
                message = consumer.poll(_LOOKS_EVERY_S)
                if message is not None and not message.error():
                    (sent,) = struct.unpack(">d", message.value() or b"")
                    self._took.append(1e3 * (time.perf_counter() - sent))
        finally:
            self._reading.set()
            consumer.close()
