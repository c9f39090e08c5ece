"""What clients get out of a cluster: throughput, latency, requests, a group's rebalance.

The client is librdkafka, with the same settings for whatever is measured. It shares the machine
with the brokers, so that a figure tells less than its ratio to the other system's.
"""

import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from statistics import quantiles
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.bench.clients import RecordsMissing
from barnabas.bench.compare_sites import Site
from barnabas.bench.topics import PATIENCE_S, client_settings, delete_topic, log_end_offset

AT_ONCE: Final = 500  # messages handed to the client in one call
PACE: Final = 400  # messages a second where latency is measured: far below saturation
MEMBERS: Final = 3
# A consumer whose queue is full asks for nothing for a second: the faster a broker is, the sooner
# it would be made to wait.
NEVER_FULL: Final = {
    "queued.min.messages": 10_000_000,
    "queued.max.messages.kbytes": 1_000_000,
    "fetch.queue.backoff.ms": 10,
}
_NUMBERS = count()


@dataclass(frozen=True, slots=True)
class Load:
    """What is produced, and how; the defaults are the point from which each factor is varied."""

    record_bytes: int = 1024
    acks: int = 1
    codec: str = "none"
    partitions: int = 10
    producers: int = 1
    batch_bytes: int = 16 * 1024

    @property
    def name(self) -> str:
        size = f"{self.record_bytes // 1024} KiB" if self.record_bytes >= 1024 else "100 B"
        acks = "all" if self.acks == -1 else self.acks
        batch = "" if self.batch_bytes == 16 * 1024 else f", {self.batch_bytes / 1e6:g} MB batches"
        codec = "" if self.codec == "none" else f", {self.codec}"
        many = "" if self.producers == 1 else f", {self.producers} producers"
        spread = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        return f"{size}, acks={acks}, {spread}{codec}{many}{batch}"


@contextmanager
def topic(site: Site, partitions: int) -> Iterator[str]:
    """A topic that is gone after the block, so that the disk holds one run's data at most."""
    name = f"compared-{next(_NUMBERS)}"
    admin = AdminClient(client_settings(site.bootstrap))
    wanted = NewTopic(name, num_partitions=partitions, replication_factor=site.replicas)
    for created in admin.create_topics([wanted], operation_timeout=PATIENCE_S).values():
        created.result(PATIENCE_S)
    try:
        yield name
    finally:
        delete_topic(site.bootstrap, name)


def produce(site: Site, name: str, load: Load, total_bytes: int) -> tuple[int, float]:
    """How many messages, and in how many seconds. Raises RecordsMissing if some are not there."""
    settings = {
        "acks": load.acks,
        "compression.type": load.codec,
        "linger.ms": 5,
        "batch.size": load.batch_bytes,
        "queue.buffering.max.messages": 200_000,
        "sticky.partitioning.linger.ms": 10,
    }
    producers = [
        Producer(client_settings(site.bootstrap, **settings)) for _ in range(load.producers)
    ]
    for producer in producers:
        producer.list_topics(name, PATIENCE_S)  # connects before the clock starts
    # Half of each message is noise, so that a codec has something to do.
    value = bytes(range(256)) * (load.record_bytes // 512) + b"v" * load.record_bytes
    messages = [{"value": value[: load.record_bytes]} for _ in range(AT_ONCE)]
    wanted = max(AT_ONCE, total_bytes // load.record_bytes)
    sent, start = 0, time.perf_counter()
    while sent < wanted:
        for producer in producers:
            sent += _hand_over(producer, name, messages)
    for producer in producers:
        if left := producer.flush(3 * PATIENCE_S):
            raise RecordsMissing(f"{left} of {sent} messages were not acknowledged")
    seconds = time.perf_counter() - start
    if load.acks and (end := log_end_offset(site.bootstrap, name, load.partitions)) != sent:
        raise RecordsMissing(f"{sent} messages were acknowledged, {end} are in the log")
    return sent, seconds


def _hand_over(producer: Producer, name: str, messages: list[dict[str, Any]]) -> int:
    """Some of the messages: as many as the client's queue takes, after it delivered what it can."""
    try:
        taken: int = producer.produce_batch(name, messages)
    except BufferError:
        taken = 0
    producer.poll(0 if taken == len(messages) else 0.01)
    return taken


def consume(site: Site, name: str, partitions: int, wanted: int) -> float:
    """Seconds to read so many messages from the beginning of a topic."""
    settings = {"group.id": name, "enable.auto.commit": False, **NEVER_FULL}
    consumer = Consumer(client_settings(site.bootstrap, **settings))
    try:
        consumer.assign([TopicPartition(name, number, 0) for number in range(partitions)])
        got, start = 0, time.perf_counter()
        while got < wanted:
            messages = consumer.consume(min(10_000, wanted - got), timeout=PATIENCE_S)
            if not messages or messages[0].error():
                raise RecordsMissing(f"{got} of {wanted} messages came back")
            got += len(messages)
        return time.perf_counter() - start
    finally:
        consumer.close()


def latencies_ms(site: Site, seconds: float) -> tuple[float, float, float]:
    """p50, p99 and p99.9 from handing a message over until it is read, at a fixed pace."""
    with topic(site, 1) as name:
        wanted = max(100, int(PACE * seconds))
        took: list[float] = []
        reading = threading.Event()
        reader = threading.Thread(target=_read_times, args=(site, name, wanted, took, reading))
        reader.start()
        reading.wait(PATIENCE_S)
        producer = Producer(client_settings(site.bootstrap, **{"acks": 1, "linger.ms": 0}))
        start = time.perf_counter()
        for number in range(wanted):
            time.sleep(max(0.0, start + number / PACE - time.perf_counter()))
            producer.produce(name, struct.pack(">d", time.perf_counter()), partition=0)
            producer.poll(0)
        producer.flush(PATIENCE_S)
        reader.join(PATIENCE_S)
    if len(took) < wanted:
        raise RecordsMissing(f"{len(took)} of {wanted} messages came back")
    cuts = quantiles(took, n=1000)
    return cuts[499], cuts[989], cuts[998]


def _read_times(
    site: Site, name: str, wanted: int, took: list[float], reading: threading.Event
) -> None:
    settings = {"group.id": name, "enable.auto.commit": False, "fetch.wait.max.ms": 100}
    consumer = Consumer(client_settings(site.bootstrap, **settings))
    try:
        consumer.assign([TopicPartition(name, 0, 0)])
        deadline = time.perf_counter() + 3 * PATIENCE_S
        consumer.poll(0.5)  # so that it is fetching when the first message comes
        reading.set()
        while len(took) < wanted and time.perf_counter() < deadline:
            message = consumer.poll(1.0)
            if message is not None and not message.error():
                (sent,) = struct.unpack(">d", message.value() or b"")
                took.append(1e3 * (time.perf_counter() - sent))
    finally:
        reading.set()
        consumer.close()


def unbatched_per_second(site: Site, requests: int) -> float:
    """Requests of one small message each."""
    settings = {"acks": 1, "linger.ms": 0, "batch.num.messages": 1}
    with topic(site, 1) as name:
        producer = Producer(client_settings(site.bootstrap, **settings))
        producer.list_topics(name, PATIENCE_S)
        messages, sent = [{"value": b"v" * 100}] * 100, 0
        start = time.perf_counter()
        while sent < requests:
            sent += _hand_over(producer, name, messages)
        if left := producer.flush(PATIENCE_S):
            raise RecordsMissing(f"{left} of {sent} messages were not acknowledged")
        return sent / (time.perf_counter() - start)


def rebalance_seconds(site: Site) -> float:
    """From the moment when one more member joins a group until all partitions are spread anew."""
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
    member = Consumer(client_settings(site.bootstrap, **settings))
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
