"""The cases of `bench compare`, as one table; each returns one figure or several."""

import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from confluent_kafka import Producer

from barnabas.bench.bench_plan import CONNECTIONS, WINDOW
from barnabas.bench.clusters.bench_topics import PATIENCE_S, client_settings
from barnabas.bench.compare.compare_cold import forget
from barnabas.bench.compare.compare_latency import latencies_ms
from barnabas.bench.compare.compare_load import (
    ClientLoad,
    consume,
    produce,
    rebalance_seconds,
    topic,
    unbatched_per_second,
)
from barnabas.bench.compare.compare_outages import leaderless_seconds, without_controller_seconds
from barnabas.bench.compare.compare_sites import Site
from barnabas.bench.limits.load_generator import ConnectionLoad as Connections
from barnabas.bench.limits.load_generator import drive
from barnabas.bench.limits.load_messages import batch_of
from barnabas.bench.limits.load_messages import produce as produce_frame
from barnabas.bench.server_processes import Server, cpu_seconds, most_resident_bytes, resident_bytes

SETTLED_S: Final = 6.0  # after which a broker has done what its start left for later, and is idle
COLD_TOPICS: Final = 3
FULL_BYTES: Final = 200_000_000
PREPARED_BYTES: Final = 16 * 1024
MOST_TURN_S: Final = 6.0  # of one that is done twice in a round whatever its time
WARM_SHARE: Final = 20.0  # brokers are warmed by a load for so many times `load_s` at most


@dataclass(frozen=True, slots=True)
class Effort:
    """The amount of work per figure, the rounds, and the total time (None: unlimited).

    `load_s`: how long each system is written to, and read, in a round of a throughput case, but
    for at least `least_turns` turns unless one takes longer than that.
    """

    repeat: int
    total_bytes: int
    seconds: float
    requests: int
    load_s: float
    minutes: float | None = None
    least_turns: int = 1

    @property
    def share(self) -> float:
        return self.total_bytes / FULL_BYTES

    def has_time(self, took_s: Sequence[float]) -> bool:
        """True if one more turn like the last ends in time; the first ones always run.

        So both systems get the same time, and the faster one does more turns.
        """
        if not took_s or sum(took_s) + took_s[-1] <= self.load_s:
            return True
        return len(took_s) < self.least_turns and took_s[-1] <= MOST_TURN_S


# A measurement that yields to the other system after each of its turns: the figures of the turn,
# if it has any.
Turns = Generator[Sequence[float] | None, None, Sequence[float]]


@dataclass(frozen=True, slots=True)
class CaseMetric:
    """One row; `goal` is the minimal ratio of ours to theirs, or the maximal if less is better.

    `client`: the client that measures it, if there are several. `detail`: it is left out of the
    table of all clients.
    """

    name: str
    unit: str
    less: bool = False
    goal: float | None = None
    client: str = ""
    detail: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A measurement and the rows for its figures, in the order that `measure` returns them, at
    once or in turns; `fresh` ones at once.

    `fresh`: it needs its own cluster. `local`: it reads processes and files. `crossed`: it is one
    of many combinations. `compiled`: it needs a C compiler. `set_up_s` and `work_s` are the times
    of a round of both systems on two cores; the latter grows with the effort. `most` is the
    maximal number of rounds.
    """

    key: str
    metrics: tuple[CaseMetric, ...]
    measure: Callable[[Site, Effort], Sequence[float] | Turns]
    brokers: int = 1
    fresh: bool = False
    local: bool = False
    crossed: bool = False
    compiled: bool = False
    set_up_s: float = 2.0
    work_s: float = 6.0
    most: int = 1_000

    def expected_s(self, effort: Effort) -> float:
        return self.set_up_s + self.work_s * effort.share

    def rounds(self, effort: Effort) -> int:
        return min(effort.repeat, self.most)

    def without_goals(self) -> "Case":
        """The case without goals, which apply to Barnabas and Apache Kafka only."""
        return replace(self, metrics=tuple(replace(each, goal=None) for each in self.metrics))


def moved(load: ClientLoad, site: Site, effort: Effort) -> Turns:
    """MB/s in and out: the median of many readers, alternating with those of the other system,
    so that a disturbance of the machine affects both."""
    written_s: list[float] = []
    read_s: list[float] = []
    sent = 0
    with ExitStack() as last:
        while effort.has_time(written_s):
            last.close()
            name = last.enter_context(topic(site, load.partitions))
            count, seconds = produce(site, name, load, _total_bytes(load, effort))
            sent += count
            written_s.append(seconds)
            os.sync()  # or the faster writer would have more of its log on the way to the disk
        while effort.has_time(read_s):
            yield None
            read_s.append(consume(site, name, load.partitions, count))
    megabyte = 1e6 / load.record_bytes  # of messages
    return sent / megabyte / sum(written_s), count / megabyte / median(read_s)


def warm_up(site: Site, effort: Effort) -> None:
    """A warm-up, which does not count: the JVM is slow before it has compiled the hot paths."""
    for _ in moved(BASE, site, effort):
        pass
    once = replace(effort, load_s=0.0)
    for load in WARMING:
        _warm(partial(_produced, load, site, once), effort.load_s * WARM_SHARE)
    os.sync()  # the first figure is not of a disk that still writes this


def warm_up_seconds(cases: Sequence[Case], effort: Effort) -> float:
    """The time to warm up both systems on two cores."""
    return 90.0 * effort.share if any(not case.fresh for case in cases) else 0.0


def replicated(site: Site, effort: Effort) -> tuple[float, float]:
    """MB/s in of one producer, and of ten, on warm replicating brokers."""
    load = replace(BASE, acks=-1)
    few = replace(effort, total_bytes=effort.total_bytes // 4)
    _warm(lambda: _produced(load, site, replace(few, load_s=0.0)), effort.load_s * WARM_SHARE)
    return _produced(load, site, few), _produced(replace(load, producers=10), site, few)


def _warm(work: Callable[[], float], most_s: float) -> None:
    """Warm up until two rounds in a row are less than a tenth faster, within a time limit."""
    start, best, same = time.perf_counter(), work(), 0
    while same < 2 and time.perf_counter() - start < most_s:
        rate = work()
        same = 0 if rate > 1.1 * best else same + 1
        best = max(best, rate)


def _produced(load: ClientLoad, site: Site, effort: Effort) -> float:
    sent = 0
    written_s: list[float] = []
    while effort.has_time(written_s):
        with topic(site, load.partitions) as name:
            count, seconds = produce(site, name, load, _total_bytes(load, effort))
            sent += count
            written_s.append(seconds)
    return sent * load.record_bytes / 1e6 / sum(written_s)


def _total_bytes(load: ClientLoad, effort: Effort) -> int:
    # Small messages cost the client more than the brokers.
    return effort.total_bytes // (2 if load.record_bytes < 1024 else 1)


def cost(site: Site, effort: Effort) -> tuple[float, float]:
    """CPU seconds of the brokers for a GB in and out, and bytes on disk for a byte of messages."""
    load = ClientLoad(partitions=1)
    before = sum(cpu_seconds(broker.pid) for broker in site.brokers)
    with topic(site, load.partitions) as name:
        count, _ = produce(site, name, load, effort.total_bytes)
        consume(site, name, load.partitions, count)
        used = sum(cpu_seconds(broker.pid) for broker in site.brokers) - before
        on_disk = sum(_blocks(path) for path in _files(site, name))
    payload = count * load.record_bytes
    return used / (payload / 1e9), on_disk / payload


def started(site: Site, effort: Effort) -> tuple[float, float, float]:
    """Seconds to the first acknowledged message, then memory in MB: idle, and its peak under
    load."""
    load = ClientLoad(partitions=1)
    with topic(site, load.partitions) as name:
        producer = Producer(client_settings(site.bootstrap, acks=1))
        producer.produce(name, b"first", partition=0)
        producer.flush(PATIENCE_S)
        first_s = time.perf_counter() - site.launched_at
    time.sleep(SETTLED_S)
    idle = sum(resident_bytes(broker.pid) for broker in site.brokers)
    with topic(site, load.partitions) as name:
        consume(site, name, load.partitions, produce(site, name, load, effort.total_bytes)[0])
    most = sum(most_resident_bytes(broker.pid) for broker in site.brokers)
    return first_s, idle / 1e6, most / 1e6


def prepared(site: Site, effort: Effort) -> tuple[float]:
    """MB/s of prepared requests, so that the client does next to nothing."""
    batch = batch_of(PREPARED_BYTES)
    (broker,) = site.brokers
    server = Server(broker.pid, broker.port, 0.0)
    count = effort.total_bytes // PREPARED_BYTES
    with topic(site, CONNECTIONS) as name, TemporaryDirectory() as folder:
        found = drive(
            server,
            produce_frame(batch, name),
            Connections(CONNECTIONS, WINDOW, count, PATIENCE_S),
            Path(folder),
        )
    return (found.requests_per_second * PREPARED_BYTES / 1e6,)


def cold(site: Site, effort: Effort) -> tuple[float]:
    """MB/s out of files that are not in the page cache."""
    load, megabytes, seconds = ClientLoad(partitions=1), 0.0, 0.0
    for _ in range(COLD_TOPICS):  # each read once: to read it brings it into the page cache
        with topic(site, load.partitions) as name:
            count, _ = produce(site, name, load, effort.total_bytes)
            for path in _files(site, name):
                forget(path)
            seconds += consume(site, name, load.partitions, count)
            megabytes += count * load.record_bytes / 1e6
    return (megabytes / seconds,)


def _files(site: Site, name: str) -> Iterator[Path]:
    for broker in site.brokers:
        yield from (path for path in broker.data.glob(f"{name}-*/*") if path.is_file())


def _blocks(path: Path) -> int:
    return path.stat().st_blocks * 512


def _throughput(load: ClientLoad, *, crossed: bool = False) -> Case:
    work_s = 11.0 + 0.04 * load.partitions + 0.3 * load.producers
    into = CaseMetric(
        f"produce, {load.name}", "MB/s", goal=2.0 if load.batch_bytes < 100_000 else 1.0
    )
    out_again = CaseMetric(f"consume, {load.name}", "MB/s", goal=1.0)
    return Case(
        f"produce {load.name}",
        (into, out_again),
        partial(moved, load),
        crossed=crossed,
        work_s=work_s,
    )


def _latency(site: Site, effort: Effort) -> Turns:
    return latencies_ms(site, effort.seconds)


def _controller(partitions: int, *, seconds: float, most: int) -> Case:
    return Case(
        f"controller {partitions}",
        (CaseMetric(f"controller killed, partitions: {partitions:,}", "s", less=True),),
        lambda site, effort: (without_controller_seconds(site, partitions),),
        brokers=3,
        fresh=True,
        local=True,
        set_up_s=seconds,
        work_s=0.0,
        most=most,
    )


BASE: Final = ClientLoad()
# Loads that cost a broker different work: many messages, and such as it may have to decompress.
WARMING: Final = (BASE, replace(BASE, record_bytes=100), replace(BASE, codec="lz4"))
# Each factor by itself; all of them together are more than a person waits for.
VARIED: Final = (
    replace(BASE, record_bytes=100),
    replace(BASE, record_bytes=10 * 1024),
    replace(BASE, acks=0),
    replace(BASE, acks=-1),
    replace(BASE, acks=-1, idempotent=True),
    replace(BASE, codec="lz4"),
    replace(BASE, partitions=1),
    replace(BASE, partitions=100),
    replace(BASE, producers=10),
)
CROSSED: Final = tuple(
    ClientLoad(*factors)
    for factors in product(
        (100, 1024, 10 * 1024), (0, 1, -1), ("none", "lz4"), (1, 10, 100), (1, 10)
    )
)
CASES: Final = (
    *(_throughput(load) for load in (BASE, *VARIED)),
    _throughput(replace(BASE, record_bytes=10 * 1024, batch_bytes=1_000_000)),
    *(_throughput(load, crossed=True) for load in CROSSED if load not in (BASE, *VARIED)),
    Case(
        "latency",
        (
            CaseMetric("end-to-end latency, p50", "ms", less=True, goal=0.8),
            CaseMetric("end-to-end latency, p99", "ms", less=True, goal=1.0),
            CaseMetric("end-to-end latency, p99.9", "ms", less=True, goal=0.5),
        ),
        _latency,
        work_s=48.0,
    ),
    Case(
        "prepared",
        (CaseMetric("produce, 100 B, requests prepared, 4 connections", "MB/s", goal=2.0),),
        prepared,
        local=True,
        compiled=True,
    ),
    Case(
        "unbatched",
        (CaseMetric("requests of one message of 100 B", "/s"),),
        lambda site, effort: (unbatched_per_second(site, effort.requests),),
    ),
    Case(
        "rebalance",
        (CaseMetric("a fourth member joins a group", "s", less=True),),
        lambda site, effort: (rebalance_seconds(site),),
        set_up_s=9.0,
        work_s=0.0,
    ),
    Case(
        "cost",
        (
            CaseMetric("CPU for a GB in and out", "s", less=True, goal=0.7),
            CaseMetric("disk for a byte of messages", "B", less=True),
        ),
        cost,
        local=True,
    ),
    Case(
        "cold",
        (CaseMetric("consume, not in the page cache", "MB/s", goal=1.0),),
        cold,
        local=True,
        work_s=14.0,
    ),
    Case(
        "start",
        (
            CaseMetric("start to first acknowledged message", "s", less=True, goal=0.2),
            CaseMetric("memory, idle", "MB", less=True, goal=0.2),
            CaseMetric("memory, at its most under a load", "MB", less=True, goal=0.3),
        ),
        started,
        fresh=True,
        local=True,
        set_up_s=20.0,
    ),
    Case(
        "replicated",
        (
            CaseMetric("produce, three brokers, acks=all", "MB/s", goal=1.5),
            CaseMetric("produce, three brokers, acks=all, 10 producers", "MB/s", goal=1.5),
        ),
        replicated,
        brokers=3,
        fresh=True,
        set_up_s=16.0,
        work_s=44.0,
        most=4,
    ),
    Case(
        "leader",
        (CaseMetric("no writes after a leader's SIGKILL", "s", less=True, goal=0.2),),
        lambda site, effort: (leaderless_seconds(site),),
        brokers=3,
        fresh=True,
        local=True,
        set_up_s=28.0,
        work_s=0.0,
        most=3,
    ),
    _controller(1, seconds=28.0, most=3),
    _controller(1_000, seconds=42.0, most=3),
    _controller(10_000, seconds=240.0, most=1),
)
