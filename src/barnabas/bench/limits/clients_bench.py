"""The throughput of a real client, confluent-kafka, compared with the raw limits."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.bench.bench_plan import Bench
from barnabas.bench.bench_report import ReportRow, Section, rate, ratio_row, size_name
from barnabas.bench.clusters.bench_topics import PATIENCE_S, client_settings, create_topic
from barnabas.bench.limits.limits_section import RawLimits, measure_limits
from barnabas.bench.limits.load_messages import TOPIC
from barnabas.bench.server_processes import HAS_PROC, Server, broker, cpu_seconds

RECORD_SIZES: Final = (100, 1024)
BATCH_BYTES: Final = 16 * 1024
REPEAT: Final = 3
PRODUCER: Final[dict[str, Any]] = {
    "acks": 1,
    "linger.ms": 5,
    "batch.size": BATCH_BYTES,
    "queue.buffering.max.messages": 500_000,
}
CONSUMER: Final[dict[str, Any]] = {
    "group.id": "bench",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "queued.min.messages": 1_000_000,
}


class RecordsMissing(Exception):
    """The consumer did not receive all acknowledged messages."""


@dataclass(frozen=True, slots=True)
class Pass:
    """All messages in one direction: the duration, and the broker's share of busy time."""

    seconds: float
    broker_busy: float | None  # None where there is no /proc


def clients_section(bench: Bench) -> Section:
    bench.say("clients: raw limits")
    limits = measure_limits(bench, BATCH_BYTES)
    rows = [row for size in RECORD_SIZES for row in _rows(bench, size, limits)]
    notes = (
        "producer: " + ", ".join(f"{name}={value}" for name, value in PRODUCER.items()),
        "consumer: assigned, up to 10,000 messages a call; one partition; every message is counted",
        "the limit of produce is the slower of loopback TCP and 16 KiB page-cache writes, the limit"
        " of consume loopback TCP",
        "broker busy: its share of a core; far below 100 %, the broker was not the limit",
    )
    return Section(
        "clients", "A real client (confluent-kafka)", "Barnabas", "raw limit", rows, notes
    )


def _rows(bench: Bench, size: int, limits: RawLimits) -> list[ReportRow]:
    count = max(1, bench.plan.client_bytes // size)
    repeat = min(REPEAT, bench.plan.repeat)
    produced, consumed = [], []
    for number in range(repeat):
        bench.say(f"clients {size_name(size)}: round {number + 1} of {repeat}")
        with bench.scratch() as folder, broker(folder) as server:
            create_topic(server.bootstrap, TOPIC, 1)
            produced.append(_pass(server, partial(produce_messages, size=size, count=count)))
            consumed.append(_pass(server, partial(consume_messages, count=count)))
    return [
        _row(f"produce, {size_name(size)}", size, count, produced, limits.produce),
        _row(f"consume, {size_name(size)}", size, count, consumed, limits.loopback),
    ]


def _pass(server: Server, action: Callable[[str], float]) -> Pass:
    if not HAS_PROC:
        return Pass(action(server.bootstrap), None)
    before = cpu_seconds(server.pid)
    seconds = action(server.bootstrap)
    return Pass(seconds, (cpu_seconds(server.pid) - before) / seconds)


def _row(name: str, size: int, count: int, passes: list[Pass], limit: float) -> ReportRow:
    messages_per_second = count / median(each.seconds for each in passes)
    achieved = messages_per_second * size
    busy = [each.broker_busy for each in passes if each.broker_busy is not None]
    numbers = {"broker_busy": median(busy)} if busy else {}
    return ratio_row(
        name + (f" (broker busy {median(busy):.0%})" if busy else ""),
        f"{messages_per_second:,.0f}/s · {rate(achieved)}",
        rate(limit),
        achieved / limit,
        messages_per_second=messages_per_second,
        bytes_per_second=achieved,
        limit_bytes_per_second=limit,
        **numbers,
    )


def produce_messages(bootstrap: str, size: int, count: int) -> float:
    """Seconds until `count` messages are delivered; consuming them verifies that.

    Raises RecordsMissing if some are not acknowledged long after the last send.
    """
    producer = Producer(client_settings(bootstrap, **PRODUCER))
    value = b"v" * size
    producer.list_topics(TOPIC, PATIENCE_S)  # connects before the clock starts
    start = time.perf_counter()
    for _ in range(count):
        _produce(producer, value)
    left = producer.flush(PATIENCE_S)
    if left:
        raise RecordsMissing(f"{left} of {count} messages were not acknowledged")
    return time.perf_counter() - start


def _produce(producer: Producer, value: bytes) -> None:
    while True:
        try:
            producer.produce(TOPIC, value, partition=0)
            return
        except BufferError:  # the client's queue is full: let it deliver some
            producer.poll(0.01)


def consume_messages(bootstrap: str, count: int) -> float:
    """Seconds to read `count` messages, including the connection. Raises RecordsMissing."""
    consumer = Consumer(client_settings(bootstrap, **CONSUMER))
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        start = time.perf_counter()
        got = 0
        while got < count:
            messages = consumer.consume(min(10_000, count - got), timeout=PATIENCE_S)
            errors = [message.error() for message in messages if message.error()]
            if errors or not messages:
                raise RecordsMissing(f"{got} of {count} messages came back: {errors[:1]}")
            got += len(messages)
        return time.perf_counter() - start
    finally:
        consumer.close()
