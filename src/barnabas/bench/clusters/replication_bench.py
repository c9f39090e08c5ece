"""Replication: acks=all on three brokers compared with one, killed leaders, a lost disk.

One cluster serves the whole section. One of its brokers leads all partitions written to, so that
the load generator needs a connection less than a client would. The single broker runs at the same
time, idle while the cluster works.
"""

import asyncio
from pathlib import Path
from statistics import median
from typing import Final

import uvloop

from barnabas.base.ids import TopicPartition
from barnabas.bench.bench_plan import CONNECTIONS, WINDOW, Bench
from barnabas.bench.bench_report import ReportRow, Section, amount, ratio_row, size_name
from barnabas.bench.clusters.bench_cluster import BROKERS, BenchCluster, cluster
from barnabas.bench.clusters.bench_topics import create_topic, delete_topic, log_end_offset
from barnabas.bench.clusters.catching_up import catching_up_rows
from barnabas.bench.clusters.kills import kill_rows
from barnabas.bench.clusters.waiting import until_led
from barnabas.bench.limits.load_generator import ConnectionLoad, LoadFailed, LoadResult, drive
from barnabas.bench.limits.load_messages import LoadBatch, batch_of, produce
from barnabas.bench.limits.native_build import NoCompiler, program
from barnabas.bench.server_processes import Server, broker

ACKS_ALL: Final = -1
REPEAT: Final = 3
LATENCY_BYTES: Final = 1024
WARMING_REQUESTS: Final = 100


def replication_section(bench: Bench) -> Section:
    repeat = min(REPEAT, bench.plan.repeat)
    notes = [
        f"{BROKERS} processes on this machine, min.insync.replicas=2, a real ZooKeeper;"
        f" one broker leads all; medians of {repeat}, in turn with one broker alone",
        f"zookeeper.session.timeout.ms={bench.plan.session_timeout_ms}: so long a killed broker"
        " counts as alive",
        "the raw limit of catching up is the slower of loopback TCP and page-cache writes",
    ]
    bench.say("replication: starting three brokers")
    with bench.scratch() as folder, cluster(folder, bench.plan.session_timeout_ms) as three:
        rows = []
        try:
            program("load")
            with broker(folder) as one:
                rows += _acknowledging_rows(bench, Sides(three, one, folder), repeat)
        except NoCompiler as missing:
            notes.append(f"acks=all is left out: {missing}")
        rows += catching_up_rows(bench, three)
        rows += kill_rows(bench, three)
    return Section("replication", "Replication", "Barnabas", "compared with", rows, notes)


class Sides:
    """The cluster and the single broker under the same load, one after the other."""

    def __init__(self, three: BenchCluster, one: Server, folder: Path) -> None:
        self._three = three
        self._one = one
        self._folder = folder
        self._topics = 0

    def round(self, batch: LoadBatch, load: ConnectionLoad) -> tuple[LoadResult, LoadResult]:
        """Three brokers and one, in an order that alternates with the rounds."""
        self._topics += 1
        topic = f"load-{self._topics}"
        if self._topics % 2:
            three = self._on_three(topic, batch, load)
            return three, self._on_one(topic, batch, load)
        one = self._on_one(topic, batch, load)
        return self._on_three(topic, batch, load), one

    def _on_three(self, topic: str, batch: LoadBatch, load: ConnectionLoad) -> LoadResult:
        three = self._three
        create_topic(three.bootstrap, topic, load.connections, range(BROKERS))
        uvloop.run(_until_all_led(three, topic, load.connections))
        leader = three.members[0].server
        result = _drive(leader, topic, batch, load, self._folder)
        delete_topic(three.bootstrap, topic)
        return result

    def _on_one(self, topic: str, batch: LoadBatch, load: ConnectionLoad) -> LoadResult:
        create_topic(self._one.bootstrap, topic, load.connections)
        result = _drive(self._one, topic, batch, load, self._folder)
        delete_topic(self._one.bootstrap, topic)
        return result


async def _until_all_led(three: BenchCluster, topic: str, partitions: int) -> None:
    async with three.tree() as tree:
        await asyncio.gather(
            *(until_led(three, tree, TopicPartition(topic, n)) for n in range(partitions))
        )


def _drive(
    server: Server, topic: str, batch: LoadBatch, load: ConnectionLoad, folder: Path
) -> LoadResult:
    """Warm up, then measure. Raises LoadFailed if the log lacks acknowledged records."""
    exchange = produce(batch, topic, ACKS_ALL)
    warming = ConnectionLoad(load.connections, load.window, WARMING_REQUESTS, load.seconds)
    drive(server, exchange, warming, folder)
    before = log_end_offset(server.bootstrap, topic, load.connections)
    result = drive(server, exchange, load, folder)
    grown = log_end_offset(server.bootstrap, topic, load.connections) - before
    if grown != result.requests * exchange.step:
        raise LoadFailed(
            f"{result.requests * exchange.step} records acknowledged, {grown} in the log"
        )
    return result


def _acknowledging_rows(bench: Bench, sides: Sides, repeat: int) -> list[ReportRow]:
    rows = []
    for size in bench.plan.replicated_sizes:
        requests = max(4 * WINDOW, bench.plan.replicated_bytes // size)
        load = ConnectionLoad(CONNECTIONS, WINDOW, requests, bench.plan.run_seconds)
        rows.append(_throughput_row(size, _rounds(bench, sides, size, load, repeat)))
    load = ConnectionLoad(1, 1, bench.plan.latency_requests, bench.plan.run_seconds)
    rows.append(_latency_row(_rounds(bench, sides, LATENCY_BYTES, load, repeat)))
    return rows


def _rounds(
    bench: Bench, sides: Sides, size: int, load: ConnectionLoad, repeat: int
) -> list[tuple[LoadResult, LoadResult]]:
    batch, rounds = batch_of(size), []
    for number in range(repeat):
        bench.say(f"replication, acks=all, {size_name(size)}: round {number + 1} of {repeat}")
        rounds.append(sides.round(batch, load))
    return rounds


def _throughput_row(size: int, rounds: list[tuple[LoadResult, LoadResult]]) -> ReportRow:
    three = median(each.requests_per_second for each, _ in rounds)
    one = median(each.requests_per_second for _, each in rounds)
    ratios = [ours.requests_per_second / alone.requests_per_second for ours, alone in rounds]
    return ratio_row(
        f"produce, acks=all, batches of {size_name(size)}",
        amount(size, three),
        f"one broker {amount(size, one)}",
        median(ratios),
        requests_per_second=three,
        one_broker_requests_per_second=one,
        lowest_ratio=min(ratios),
        highest_ratio=max(ratios),
    )


def _latency_row(rounds: list[tuple[LoadResult, LoadResult]]) -> ReportRow:
    three = median(each.p50_us for each, _ in rounds)
    one = median(each.p50_us for _, each in rounds)
    return ratio_row(
        f"acks=all, {size_name(LATENCY_BYTES)}, one request in flight, p50",
        f"{three:,.0f} µs",
        f"one broker {one:,.0f} µs",
        median(ours.p50_us / alone.p50_us for ours, alone in rounds),
        p50_us=three,
        p99_us=median(each.p99_us for each, _ in rounds),
        one_broker_p50_us=one,
    )
