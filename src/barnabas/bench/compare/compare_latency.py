"""End-to-end latency from producer to consumer, at a rate far below saturation."""

import struct
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from statistics import quantiles
from typing import Final, NamedTuple, Self

from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.bench.clusters.bench_topics import PATIENCE_S, client_settings
from barnabas.bench.compare.compare_load import topic
from barnabas.bench.compare.compare_sites import Site
from barnabas.bench.limits.clients_bench import RecordsMissing

PACE: Final = 2_000  # messages a second
RECORD_BYTES: Final = 1024
IN_A_TURN: Final = 2 * PACE
# Messages right after a pause do not count.
WAKING: Final = PACE // 4
_SENT_AT: Final = struct.Struct(">d")  # which a message begins with
_REST: Final = bytes(RECORD_BYTES - _SENT_AT.size)
_MADE_UP_FOR_S: Final = 0.005
_LOOKS_EVERY_S: Final = 0.2


class Latencies(NamedTuple):
    """Milliseconds."""

    p50: float
    p99: float
    p999: float


def latencies_ms(site: Site, seconds: float) -> Generator[None, None, Latencies]:
    """Time from producing a message until it is read.

    Alternates with the other system, so that a stall of the machine, common on virtual ones,
    affects both.
    """
    wanted = max(100, int(PACE * seconds))
    took = list[float]()
    with topic(site, 1) as name, _Flow(site, name).reading() as flow:
        flow.send(PACE)  # connections are made, and what is new to a broker
        while len(took) < wanted:
            yield
            sent = flow.send(WAKING + min(IN_A_TURN, wanted))[WAKING:]
            took += [1e3 * (read - begun) for begun, read in sent]
    cuts = quantiles(took, n=1000)
    return Latencies(cuts[499], cuts[989], cuts[998])


def idle_delay_ms(seconds: float) -> float:
    """p99.9 of the wake-up latency of an idle thread at that rate: the machine's noise floor."""
    start, late = time.perf_counter(), list[float]()
    for number in range(int(PACE * seconds)):
        due = start + number / PACE
        time.sleep(max(0.0, due - time.perf_counter()))
        late.append(1e3 * (time.perf_counter() - due))
    return quantiles(late, n=1000)[998]


class _Flow:
    """Messages through one partition, read as they arrive."""

    def __init__(self, site: Site, name: str) -> None:
        self._bootstrap = site.bootstrap
        self._name = name
        self._producer = Producer(client_settings(site.bootstrap, **{"acks": 1, "linger.ms": 0}))
        self._came: list[tuple[float, float]] = []
        self._reading = threading.Event()
        self._over = threading.Event()

    @contextmanager
    def reading(self) -> Iterator[Self]:
        reader = threading.Thread(target=self._read)
        reader.start()
        self._reading.wait(PATIENCE_S)
        try:
            yield self
        finally:
            self._over.set()
            reader.join(PATIENCE_S)

    def send(self, count: int) -> list[tuple[float, float]]:
        """Send `count` at the rate; return send and read times. Raises RecordsMissing."""
        before, due = len(self._came), time.perf_counter()
        for _ in range(count):
            time.sleep(max(0.0, due - time.perf_counter()))
            # Messages missed while the machine stood still are not all sent in a burst afterwards.
            due = max(due + 1 / PACE, time.perf_counter() - _MADE_UP_FOR_S)
            value = _SENT_AT.pack(time.perf_counter()) + _REST
            self._producer.produce(self._name, value, partition=0)
            self._producer.poll(0)
        self._producer.flush(PATIENCE_S)
        deadline = time.perf_counter() + PATIENCE_S
        while (came := len(self._came) - before) < count:
            if time.perf_counter() > deadline:
                raise RecordsMissing(f"{came} of {count} messages came back")
            time.sleep(_LOOKS_EVERY_S)
        return self._came[before:]

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
                    (sent,) = _SENT_AT.unpack_from(message.value() or b"")
                    self._came.append((sent, time.perf_counter()))
        finally:
            self._reading.set()
            consumer.close()
