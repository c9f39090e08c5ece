"""A broker's CPU time for one consumer of many partitions: all idle, then one with messages.

If the rows of 10 and of 10,000 partitions are equal, a Fetch costs only what has changed.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import quantiles
from typing import Final

import uvloop
from confluent_kafka import Producer

from barnabas.bench.bench_plan import Bench
from barnabas.bench.bench_report import ReportRow, Section
from barnabas.bench.clusters.bench_topics import client_settings, create_topics
from barnabas.bench.clusters.subscribers import (
    PACE,
    Arrivals,
    librdkafka_consumer,
    paced_producer,
    session_consumer,
)
from barnabas.bench.clusters.waiting import until
from barnabas.bench.limits.clients_bench import RecordsMissing
from barnabas.bench.limits.session_consumer import MAX_WAIT_MS, PATIENCE_S
from barnabas.bench.server_processes import HAS_PROC, Server, broker, cpu_nanoseconds, settle

PARTITIONS_PER_TOPIC: Final = 100
SHORTEST_S: Final = 1.2 * MAX_WAIT_MS / 1000  # with a Fetch in it, or there would be no CPU time
WARMING: Final = 10  # messages that are not counted
CONSUMERS: Final = {"fetch session": session_consumer, "librdkafka": librdkafka_consumer}


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU percent of the broker without and with messages, and the latencies of the messages."""

    idle_percent: float
    busy_percent: float
    p50_ms: float
    p99_ms: float


def subscribed_section(bench: Bench) -> Section:
    notes = (
        "fetch session: a full Fetch, then incremental ones (KIP-227), as the Java consumer: one in"
        f" flight, fetch.max.wait.ms={MAX_WAIT_MS}; librdkafka names all partitions in each Fetch",
        f"CPU of the broker over {bench.plan.idle_seconds:g} s; the consumer has read one record of"
        f" each partition before; messages: {PACE}/s to one partition, acks=1, latency from Produce"
        " to arrival",
    )
    rows = [] if HAS_PROC else [ReportRow("CPU of a broker", "not measured: no /proc here")]
    fewest: dict[str, Cost] = {}
    for partitions in bench.plan.subscribed_partitions if HAS_PROC else ():
        for name, cost in _costs(bench, partitions).items():
            first = fewest.setdefault(name, cost)
            rows += _rows(f"{name}, {partitions:,} partitions", cost, first)
    reference = f"{min(bench.plan.subscribed_partitions):,} partitions"
    return Section(
        "subscribed", "One consumer of many partitions", "Barnabas", reference, rows, notes
    )


def _rows(name: str, cost: Cost, first: Cost) -> list[ReportRow]:
    return [
        ReportRow(
            f"{name}: idle, CPU",
            f"{cost.idle_percent:.1f} %",
            f"{first.idle_percent:.1f} %",
            cost.idle_percent / first.idle_percent,
            numbers={"percent": cost.idle_percent},
        ),
        ReportRow(
            f"{name}: {PACE} messages/s to one, CPU",
            f"{cost.busy_percent:.1f} %",
            f"{first.busy_percent:.1f} %",
            cost.busy_percent / first.busy_percent,
            numbers={"percent": cost.busy_percent},
        ),
        ReportRow(
            f"{name}: {PACE} messages/s to one, latency p50, p99",
            f"{cost.p50_ms:.1f} ms, {cost.p99_ms:.1f} ms",
            f"{first.p50_ms:.1f} ms, {first.p99_ms:.1f} ms",
            cost.p50_ms / first.p50_ms,
            numbers={"p50_ms": cost.p50_ms, "p99_ms": cost.p99_ms},
        ),
    ]


def _costs(bench: Bench, partitions: int) -> dict[str, Cost]:
    """The cost of both kinds of consumers."""
    topics = {
        f"subscribed-{first}": min(PARTITIONS_PER_TOPIC, partitions - first)
        for first in range(0, partitions, PARTITIONS_PER_TOPIC)
    }
    with bench.scratch() as folder, broker(folder) as server:
        bench.say(f"subscribed: {partitions:,} partitions are made")
        create_topics(server.bootstrap, {name: [[0]] * count for name, count in topics.items()})
        _fill(server.bootstrap, topics)
        costs = {}
        for name in CONSUMERS:
            settle(server, bench.plan.settle_seconds)
            bench.say(f"subscribed: {name}, {partitions:,} partitions")
            costs[name] = uvloop.run(_measure(name, server, topics, bench.plan.idle_seconds))
    return costs


def _fill(bootstrap: str, topics: Mapping[str, int]) -> None:
    """One record in each partition."""
    producer = Producer(client_settings(bootstrap, acks=1))
    for name, partitions in topics.items():
        for partition in range(partitions):
            producer.produce(name, b"first", partition=partition)
            producer.poll(0)
    if left := producer.flush(PATIENCE_S):
        raise RecordsMissing(f"{left} messages were not acknowledged")


async def _measure(name: str, server: Server, topics: Mapping[str, int], seconds: float) -> Cost:
    arrivals = Arrivals(next(iter(topics)), 0)

    async def has_read_all() -> bool:
        return len(arrivals.partitions) == sum(topics.values())

    async with (
        CONSUMERS[name](server, topics, arrivals),
        paced_producer(server, arrivals) as producer,
    ):
        await until(has_read_all, "a record of each partition")
        await producer.send(WARMING)
        used, since = cpu_nanoseconds(server.pid), time.perf_counter()
        await asyncio.sleep(max(seconds, SHORTEST_S))
        idle = _percent(server, used, since)
        used, since = cpu_nanoseconds(server.pid), time.perf_counter()
        took_ms = await producer.send(max(WARMING, int(PACE * seconds)))
        busy = _percent(server, used, since)
    cuts = quantiles(took_ms, n=100, method="inclusive")
    return Cost(idle, busy, cuts[49], cuts[98])


def _percent(server: Server, used: int, since: float) -> float:
    seconds = (cpu_nanoseconds(server.pid) - used) / 1e9
    return 100 * seconds / (time.perf_counter() - since)
