"""The cases of `bench compare` with transactions: rate, throughput, and time to commit.

They run when `--only` names them. A producer begins, sends, and commits one transaction after the
other, as librdkafka does it; several producers have a thread each. librdkafka waits for a timer in
each transaction, so other rows have prepared requests, from a C program that waits for nothing.
"""

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from barnabas.bench.clusters.bench_topics import PATIENCE_S, client_settings, log_end_offset
from barnabas.bench.compare.compare_cases import Case, CaseMetric, Effort, Turns
from barnabas.bench.compare.compare_load import topic
from barnabas.bench.compare.compare_sites import HOST, Site
from barnabas.bench.limits.clients_bench import RecordsMissing
from barnabas.bench.limits.prepared_transactions import REQUESTS, drive_transactions
from barnabas.bench.limits.rdkafka_ctypes import LeanProducer, Values

RECORD_BYTES: Final = 1024
PARTITIONS: Final = 4
TURNS: Final = 4
WARM_SHARE: Final = 5.0  # brokers are warmed up for so many times `load_s`
LEAST: Final = 4  # transactions in a turn
SHORTEST_S: Final = 0.2  # of a turn with prepared requests
# So much is written in a turn at most. Beyond some gigabytes the figures would be those of the
# disk: the kernel holds up whoever has much that is not written yet.
MOST_BYTES: Final = 200 * 1024 * 1024
_NUMBERS: Final = count()


@dataclass(frozen=True, slots=True)
class TransactionLoad:
    """Transactions of this many records, by one producer or by several at a time."""

    records: int
    producers: int = 1

    @property
    def name(self) -> str:
        noun = "record" if self.records == 1 else "records"
        many = "" if self.producers == 1 else f", {self.producers} producers"
        return f"transactions of {self.records:,} {noun}{many}"


def measured(load: TransactionLoad, site: Site, effort: Effort) -> Turns:
    """Transactions a second, MB/s, and p99 of the time to commit in ms; in turns."""
    values = Values(min(load.records, 500), RECORD_BYTES)
    commits_s, took_s = list[float](), 0.0
    with topic(site, PARTITIONS) as name, ExitStack() as stack:
        producers = [stack.enter_context(_producer(site, name)) for _ in range(load.producers)]
        threads = stack.enter_context(ThreadPoolExecutor(load.producers))
        work = partial(_commits, load.records, values)
        most = MOST_BYTES // (load.records * RECORD_BYTES * load.producers)
        warm = partial(work, effort.load_s * WARM_SHARE, int(most * WARM_SHARE))
        list(threads.map(warm, producers))
        os.sync()  # the first turn is not of a disk that still writes this
        for _ in range(TURNS):
            yield None
            start = time.perf_counter()
            for found in threads.map(partial(work, effort.load_s / 2, most), producers):
                commits_s += found
            took_s += time.perf_counter() - start
    rate = len(commits_s) / took_s
    return rate, rate * load.records * RECORD_BYTES / 1e6, 1e3 * quantiles(commits_s, n=100)[98]


def at_once(load: TransactionLoad, site: Site, effort: Effort) -> Sequence[float]:
    """The same without turns, for a cluster of its own."""
    turns = measured(load, site, effort)
    while True:
        try:
            next(turns)
        except StopIteration as over:
            found: Sequence[float] = over.value
            return found


def prepared_transactions(connections: int, site: Site, effort: Effort) -> Turns:
    """Transactions a second, p99 of the time of one in ms, the requests of one with those that were
    sent again, and the client's share of a CPU in percent; in turns.

    Raises  RecordsMissing, if the log lacks a record, or its end marker
    """
    (broker,) = site.brokers
    took_us, took_s, committed, refused, client_s = list[int](), 0.0, 0, 0, 0.0
    with topic(site, connections) as name, TemporaryDirectory() as folder:
        work = partial(
            drive_transactions, (HOST, broker.port), name, connections, folder=Path(folder)
        )
        committed += len(work(seconds=effort.load_s * WARM_SHARE).took_us)
        os.sync()
        for _ in range(TURNS):
            yield None
            found = work(seconds=max(effort.load_s / 2, SHORTEST_S))
            took_us += found.took_us
            took_s += found.seconds
            refused += found.refused
            client_s += found.client_cpu_seconds
        check_committed(site.bootstrap, name, connections, committed + len(took_us))
    return (
        len(took_us) / took_s,
        quantiles(took_us, n=100)[98] / 1e3,
        REQUESTS + refused / len(took_us),
        100 * client_s / took_s,
    )


def check_committed(bootstrap: str, name: str, partitions: int, records: int) -> None:
    """Raises RecordsMissing unless the log has so many committed records, and a marker each."""
    settings = {"group.id": name, "isolation.level": "read_committed", "fetch.wait.max.ms": 100}
    consumer = Consumer(client_settings(bootstrap, **settings))
    read, deadline = 0, time.perf_counter() + PATIENCE_S
    try:
        consumer.assign([TopicPartition(name, number, 0) for number in range(partitions)])
        while read < records and time.perf_counter() < deadline:
            read += sum(each.error() is None for each in consumer.consume(1_000, 0.5))
    finally:
        consumer.close()
    end = log_end_offset(bootstrap, name, partitions)
    if (read, end) != (records, 2 * records):
        raise RecordsMissing(f"{records} were committed: {read} are read, the log has {end}")


def _producer(site: Site, name: str) -> LeanProducer:
    settings = {
        "transactional.id": f"{name}-{next(_NUMBERS)}",
        "linger.ms": 0,
        "batch.size": 128 * 1024,
        "queue.buffering.max.messages": 100_000,
    }
    producer = LeanProducer(client_settings(site.bootstrap, **settings), name)
    producer.connect(PATIENCE_S)
    producer.init_transactions(PATIENCE_S)
    return producer


def _commits(
    records: int, values: Values, seconds: float, most: int, producer: LeanProducer
) -> list[float]:
    """Transactions for so many seconds, or that many; returns the time that each commit took."""
    start, took_s = time.perf_counter(), list[float]()
    while len(took_s) < LEAST or (len(took_s) < most and time.perf_counter() - start < seconds):
        producer.begin_transaction()
        for sent in range(0, records, values.count):
            _hand_over(producer, (len(took_s) + sent // values.count) % PARTITIONS, values)
        begun = time.perf_counter()
        producer.commit_transaction(PATIENCE_S)
        took_s.append(time.perf_counter() - begun)
    return took_s


def _hand_over(producer: LeanProducer, partition: int, values: Values) -> None:
    taken = 0
    while taken < values.count:
        taken += producer.hand_over(partition, values, taken)


def _case(load: TransactionLoad, brokers: int) -> Case:
    where = "" if brokers == 1 else ", three brokers"
    fresh = brokers > 1
    return Case(
        f"transactions {load.records} {load.producers} {brokers}",
        (
            CaseMetric(f"{load.name}{where}", "/s", goal=1.5),
            CaseMetric(f"throughput, {load.name}{where}", "MB/s", goal=1.5),
            CaseMetric(f"time to commit p99, {load.name}{where}", "ms", less=True, goal=1.0),
        ),
        partial(at_once if fresh else measured, load),
        brokers=brokers,
        fresh=fresh,
        set_up_s=16.0 if fresh else 2.0,
        work_s=28.0,
        most=4,
    )


def _prepared_case(connections: int) -> Case:
    noun = "connection" if connections == 1 else "connections"
    name = f"transactions of 1 record, requests prepared, {connections} {noun}"
    return Case(
        f"transactions prepared {connections}",
        (
            CaseMetric(name, "/s", goal=1.5),
            CaseMetric(f"time to commit p99, {name}", "ms", less=True, goal=1.0),
            CaseMetric(f"requests of one, {name}", "", less=True),
            CaseMetric(f"the client's CPU, {name}", "%", less=True),
        ),
        partial(prepared_transactions, connections),
        local=True,
        compiled=True,
        work_s=28.0,
        most=4,
    )


_LOADS: Final = (
    TransactionLoad(1),
    TransactionLoad(100),
    TransactionLoad(10_000),
    TransactionLoad(1, producers=10),
)
TRANSACTION_CASES: Final = (
    *(_case(load, 1) for load in _LOADS),
    *(_prepared_case(connections) for connections in (1, 10)),
    *(_case(load, 3) for load in _LOADS),
)
