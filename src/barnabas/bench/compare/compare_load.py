"""Loads of the comparison: throughput, small requests, a group's rebalance.

The client is librdkafka, with the same settings for both systems. It shares the machine with the
brokers, so a figure means less than its ratio to the other system's.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Final
from uuid import uuid4

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.bench.clusters.bench_topics import (
    PATIENCE_S,
    delete_topic,
    log_end_offset,
)
from barnabas.bench.compare.compare_sites import Site
from barnabas.bench.limits.clients_bench import RecordsMissing
from barnabas.bench.limits.rdkafka_ctypes import LeanConsumer, LeanProducer, Values

AT_ONCE: Final = 500  # messages handed to the client in one call
# Unacknowledged messages of a client: few, so that they stay in the processor's caches.
QUEUED: Final = 20_000
GIVES_UP_MS: Final = 120_000  # on a message that no broker takes
MEMBERS: Final = 3
# A consumer with a full queue pauses for a second, which would penalize the faster broker.
NEVER_FULL: Final = {
    "queued.min.messages": 10_000_000,
    "queued.max.messages.kbytes": 1_000_000,
    "fetch.queue.backoff.ms": 10,
}
_OURS: Final = uuid4().hex[:8]  # in the names of topics: others may compare there, too
_NUMBERS = count()


@dataclass(frozen=True, slots=True)
class ClientLoad:
    """The parameters of a load; cases vary one factor of the defaults at a time."""

    record_bytes: int = 1024
    acks: int = 1
    codec: str = "none"
    partitions: int = 10
    producers: int = 1
    batch_bytes: int = 16 * 1024
    idempotent: bool = False
    skewed: bool = False  # nine of ten messages go to partition 0

    def target(self, turn: int) -> int:
        """The partition of messages that are handed over together."""
        if self.skewed:
            return 0 if turn % 10 else 1 + turn // 10 % (self.partitions - 1)
        return turn % self.partitions

    @property
    def name(self) -> str:
        size = f"{self.record_bytes // 1024} KiB" if self.record_bytes >= 1024 else "100 B"
        acks = "all" if self.acks == -1 else self.acks
        batch = "" if self.batch_bytes == 16 * 1024 else f", {self.batch_bytes / 1e6:g} MB batches"
        codec = "" if self.codec == "none" else f", {self.codec}"
        many = "" if self.producers == 1 else f", {self.producers} producers"
        spread = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        once = ", idempotent" if self.idempotent else ""
        return f"{size}, acks={acks}, {spread}{codec}{many}{batch}{once}"


def new_topic(site: Site, partitions: int) -> str:
    """A unique topic name."""
    name = f"compared-{_OURS}-{next(_NUMBERS)}"
    admin = AdminClient(site.settings())
    wanted = NewTopic(name, num_partitions=partitions, replication_factor=site.replicas)
    for created in admin.create_topics([wanted], operation_timeout=PATIENCE_S).values():
        created.result(PATIENCE_S)
    return name


@contextmanager
def topic(site: Site, partitions: int) -> Iterator[str]:
    """A topic that is deleted after the block, so that the disk holds one run's data at most."""
    name = new_topic(site, partitions)
    try:
        yield name
    finally:
        delete_topic(site.bootstrap, name, **site.login)


def produce(site: Site, name: str, load: ClientLoad, total_bytes: int) -> tuple[int, float]:
    """The number of messages and seconds. Raises RecordsMissing if some are missing."""
    settings = {
        "acks": load.acks,
        "compression.type": load.codec,
        "linger.ms": 5,
        "batch.size": load.batch_bytes,
        "queue.buffering.max.messages": QUEUED,
        "message.timeout.ms": GIVES_UP_MS,
        "enable.idempotence": load.idempotent,  # with at most five requests in flight
    }
    wanted = max(AT_ONCE, total_bytes // load.record_bytes)
    with ExitStack() as stack:
        producers = [
            stack.enter_context(LeanProducer(site.settings(**settings), name))
            for _ in range(load.producers)
        ]
        values = Values(AT_ONCE, load.record_bytes)
        start, sent = _hand_over(producers, values, load.target, wanted)
        seconds = time.perf_counter() - start
        _until_in_log(site, name, load.partitions, sent, PATIENCE_S if load.acks == 0 else 0.0)
    return sent, seconds if load.acks else time.perf_counter() - start


def _until_in_log(site: Site, name: str, partitions: int, sent: int, within_s: float) -> None:
    """Raises RecordsMissing if the log lacks messages. With acks=0 the client reports no
    failures, and is ahead of the broker by the socket buffers."""
    deadline = time.perf_counter() + within_s
    while (end := log_end_offset(site.bootstrap, name, partitions, **site.login)) != sent:
        if time.perf_counter() > deadline:
            raise RecordsMissing(f"{sent} messages were sent, {end} are in the log")


def _hand_over(
    producers: Sequence[LeanProducer], values: Values, target: Callable[[int], int], wanted: int
) -> tuple[float, int]:
    """Send messages to each partition in turn, so that all get the same number.

    Returns the time of the first send and the number sent; all are acknowledged or failed.
    """
    for producer in producers:
        producer.connect(PATIENCE_S)  # before the clock starts
    handed = [0] * len(producers)
    start = time.perf_counter()
    while (sent := sum(handed)) < wanted:
        for number, producer in enumerate(producers):
            turn, taken = divmod(handed[number], values.count)
            handed[number] += producer.hand_over(target(number + turn), values, taken)
    for producer in producers:
        if left := producer.flush(3 * PATIENCE_S):
            raise RecordsMissing(f"{left} of {sent} messages were not acknowledged")
    return start, sent


def consume(site: Site, name: str, partitions: int, wanted: int) -> float:
    """Seconds to read this many messages from the start of a topic."""
    settings = site.settings(**{"group.id": name, "enable.auto.commit": False, **NEVER_FULL})
    with LeanConsumer(settings, name, range(partitions)) as consumer:
        start = time.perf_counter()
        if (got := consumer.pass_over(wanted, 3 * PATIENCE_S)) < wanted:
            raise RecordsMissing(f"{got} of {wanted} messages came back")
        return time.perf_counter() - start


def unbatched_per_second(site: Site, requests: int) -> float:
    """Requests with one small message each, per second."""
    settings = {"acks": 1, "linger.ms": 0, "batch.num.messages": 1}
    with (
        topic(site, 1) as name,
        LeanProducer(site.settings(**settings), name) as producer,
    ):
        start, sent = _hand_over([producer], Values(100, 100), lambda _: 0, requests)
        seconds = time.perf_counter() - start
        _until_in_log(site, name, 1, sent, 0.0)
    return sent / seconds


def rebalance_seconds(site: Site) -> float:
    """Seconds from the join of another member until all partitions are reassigned."""
    with topic(site, 4 * MEMBERS) as name:
        group = [_member(site, name) for _ in range(MEMBERS)]
        try:
            _until_spread(group, 4 * MEMBERS)
            start = time.perf_counter()
            group.append(_member(site, name))
            _until_spread(group, 4 * MEMBERS)
            return time.perf_counter() - start
        finally:
            for member in group:
                member.close()


def _member(site: Site, name: str) -> Consumer:
    settings = {"group.id": name, "heartbeat.interval.ms": 500}
    member = Consumer(site.settings(**settings))
    member.subscribe([name])
    return member


def _until_spread(group: list[Consumer], partitions: int) -> None:
    deadline = time.perf_counter() + 3 * PATIENCE_S
    while True:
        for member in group:
            member.poll(0.005)
        held = [len(member.assignment()) for member in group]
        if all(held) and sum(held) == partitions:
            return
        if time.perf_counter() > deadline:
            raise RecordsMissing(f"the group's members hold {held} of {partitions} partitions")
