"""Produce, fetch and single-request latency, compared with the C ideal in interleaved runs.

Both servers run at the same time. Each round measures one right after the other, in an order that
alternates. The reported ratio is the median of the rounds' ratios: a disturbance of the machine
affects both halves of a round.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from barnabas.bench.bench_plan import CONNECTIONS, WINDOW, Bench
from barnabas.bench.bench_report import ReportRow, Section, amount, hot_path, ratio_row, size_name
from barnabas.bench.clusters.bench_topics import create_topic, delete_topic, log_end_offset
from barnabas.bench.limits.load_generator import (
    ConnectionLoad,
    LoadFailed,
    LoadResult,
    drive,
    ideal_server,
    write_log,
)
from barnabas.bench.limits.load_messages import TOPIC, Exchange, batch_of, fetch, produce
from barnabas.bench.limits.native_build import program
from barnabas.bench.server_processes import Server, broker, serving_seconds, settle

# By the kind of hot path, and the size of a batch.
PRODUCE_GOALS: Final = {
    "python": {209: 0.25, 1024: 0.25, 16 * 1024: 0.55, 128 * 1024: 0.75, 1_000_000: 0.75},
    "compiled": {209: 0.45, 1024: 0.45, 16 * 1024: 0.65, 128 * 1024: 0.85, 1_000_000: 0.85},
}
FETCH_GOALS: Final = {16 * 1024: 0.50, 128 * 1024: 0.70, 1_000_000: 0.75}
LATENCY_BYTES: Final = 1024
WARMING_SHARE: Final = 0.1
CLIENT_BUSY: Final = 0.95
# The data of a round is deleted before the next one.
DELETE_SOON: Final = "log.segment.delete.delay.ms=0"


@dataclass(frozen=True, slots=True)
class ThroughputRound:
    """Both servers under the same load, one after the other."""

    ours: LoadResult
    ideal: LoadResult
    ours_cpu_s: float
    ideal_cpu_s: float

    @property
    def ratio(self) -> float:
        return self.ours.requests_per_second / self.ideal.requests_per_second

    @property
    def cpu_ratio(self) -> float:
        """The ideal's CPU time per request, as a fraction of the broker's; 0 if unknown."""
        ideal = self.ideal_cpu_s / self.ideal.requests
        return ideal * self.ours.requests / self.ours_cpu_s if self.ours_cpu_s else 0.0


Measure = Callable[[Server], LoadResult]


def produce_section(bench: Bench) -> Section:
    rows = []
    kind = hot_path()
    for size in bench.plan.produce_sizes:
        requests = max(4 * WINDOW, bench.plan.run_bytes // size)
        load = ConnectionLoad(CONNECTIONS, WINDOW, requests, bench.plan.run_seconds)
        rounds = _produce_rounds(bench, f"produce {size_name(size)}", size, load)
        rows.append(_throughput_row(size, rounds, PRODUCE_GOALS[kind]))
    notes = (
        f"acks=1, {CONNECTIONS} connections to a partition each, {WINDOW} requests in flight each;"
        f" medians of {bench.plan.repeat}; goals for a hot path of kind {kind}",
        "every reply checked; afterwards the log end offsets equal what was acknowledged",
        _cpu_note(rows),
    )
    return Section("produce", "Produce, by batch size", "Barnabas", "C ideal", rows, notes)


def fetch_section(bench: Bench) -> Section:
    rows = []
    for size in bench.plan.fetch_sizes:
        rounds = _fetch_rounds(bench, f"fetch {size_name(size)}", size)
        rows.append(_throughput_row(size, rounds, FETCH_GOALS))
    notes = (
        f"{CONNECTIONS} connections, {WINDOW} requests in flight each, a batch per request"
        f" from a log of {bench.plan.fetch_log_bytes / 1e6:.0f} MB; medians of {bench.plan.repeat}",
        _cpu_note(rows),
    )
    return Section("fetch", "Fetch, by batch size", "Barnabas", "C ideal", rows, notes)


def latency_section(bench: Bench) -> Section:
    load = ConnectionLoad(1, 1, bench.plan.latency_requests, bench.plan.run_seconds)
    rounds = _produce_rounds(bench, "latency", LATENCY_BYTES, load)
    rows = [
        _latency_row("p50", [(each.ours.p50_us, each.ideal.p50_us) for each in rounds]),
        _latency_row("p99", [(each.ours.p99_us, each.ideal.p99_us) for each in rounds]),
    ]
    notes = (
        "Produce of 1 KiB, acks=1, one connection, one request in flight; ratio below 1 is faster",
    )
    return Section("latency", "Latency of a single request", "Barnabas", "C ideal", rows, notes)


def _produce_rounds(
    bench: Bench, name: str, size: int, load: ConnectionLoad
) -> list[ThroughputRound]:
    """Rounds of Produce, each to its own topic and file.

    Raises LoadFailed if the log lacks acknowledged records.
    """
    rounds = []
    with _settled_broker(bench, DELETE_SOON) as (ours, folder):
        for number in bench.rounds(name):
            topic, log = f"{TOPIC}{number:03}", folder / "ideal-log"
            exchange = produce(batch_of(size), topic)
            create_topic(ours.bootstrap, topic, load.connections)
            with ideal_server(exchange, folder, log) as ideal:
                warmed = [
                    drive(server, exchange, _warming(load), folder) for server in (ours, ideal)
                ]
                measured = _in_turn(
                    ours, ideal, partial(_drive_warm, exchange, load, folder), number % 2 == 0
                )
            acknowledged = (warmed[0].requests + measured.ours.requests) * exchange.step
            end = log_end_offset(ours.bootstrap, topic, load.connections)
            if end != acknowledged:
                raise LoadFailed(f"{acknowledged} records acknowledged, {end} in the log")
            log.unlink()
            delete_topic(ours.bootstrap, topic)
            rounds.append(measured)
    return rounds


def _fetch_rounds(bench: Bench, name: str, size: int) -> list[ThroughputRound]:
    """Rounds of Fetch from one log in the page cache."""
    batch = batch_of(size)
    exchange = fetch(batch)
    batches = max(CONNECTIONS, bench.plan.fetch_log_bytes // size)
    load = ConnectionLoad(CONNECTIONS, WINDOW, 10_000_000, bench.plan.run_seconds)
    with _settled_broker(bench) as (ours, folder):
        log = folder / "ideal-log"
        write_log(log, batch, batches)
        create_topic(ours.bootstrap, TOPIC, 1)
        drive(ours, produce(batch), ConnectionLoad(1, WINDOW, batches, 60.0), folder)

        def measure(server: Server, load: ConnectionLoad = load) -> LoadResult:
            return drive(server, exchange, load, folder, batches)

        with ideal_server(exchange, folder, log) as ideal:
            for server in (ours, ideal):
                measure(server, _warming(load))
            return [
                _in_turn(ours, ideal, measure, number % 2 == 0) for number in bench.rounds(name)
            ]


@contextmanager
def _settled_broker(bench: Bench, *overrides: str) -> Iterator[tuple[Server, Path]]:
    """A broker after the deferred work of its start, and its directory."""
    program("load")  # says that there is no compiler before anything is started
    with bench.scratch() as folder, broker(folder, *overrides) as server:
        settle(server, bench.plan.settle_seconds)
        yield server, folder


def _drive_warm(
    exchange: Exchange, load: ConnectionLoad, folder: Path, server: Server
) -> LoadResult:
    _touch_memory(load.requests * exchange.records)
    return drive(server, exchange, load, folder)


def _warming(load: ConnectionLoad) -> ConnectionLoad:
    requests = max(load.window * load.connections, int(load.requests * WARMING_SHARE))
    return replace(load, requests=requests, seconds=load.seconds * WARMING_SHARE)


def _in_turn(ours: Server, ideal: Server, measure: Measure, ours_first: bool) -> ThroughputRound:
    measured = {}
    for server in (ours, ideal) if ours_first else (ideal, ours):
        before = serving_seconds(server.pid)
        result = measure(server)
        measured[server.pid] = result, serving_seconds(server.pid) - before
    (result, used), (of_ideal, used_by_ideal) = measured[ours.pid], measured[ideal.pid]
    return ThroughputRound(result, of_ideal, used, used_by_ideal)


def _cpu_note(rows: Sequence[ReportRow]) -> str:
    ratios = ", ".join(f"{row.name} {row.numbers['cpu_ratio']:.2f}" for row in rows)
    return f"CPU time of the servers for a request, C ideal to Barnabas: {ratios}"


def _touch_memory(size: int) -> None:
    """Touch and free this much memory, for the page cache.

    Memory that a virtual machine has not used recently can be several times slower at first touch,
    which would be measured as a slow server.
    """
    bytearray(b"x") * size


def _throughput_row(size: int, rounds: list[ThroughputRound], goals: dict[int, float]) -> ReportRow:
    ours = median(each.ours.requests_per_second for each in rounds)
    ideal = median(each.ideal.requests_per_second for each in rounds)
    name = size_name(size)
    client_busy = median(max(each.ours.client_busy, each.ideal.client_busy) for each in rounds)
    if client_busy > CLIENT_BUSY:
        name += " (generator-bound)"
    return ratio_row(
        name,
        amount(size, ours),
        amount(size, ideal),
        median(each.ratio for each in rounds),
        goals.get(size),
        requests_per_second=ours,
        ideal_requests_per_second=ideal,
        p50_us=median(each.ours.p50_us for each in rounds),
        p99_us=median(each.ours.p99_us for each in rounds),
        client_busy=client_busy,
        cpu_ratio=median(each.cpu_ratio for each in rounds),
        lowest_ratio=min(each.ratio for each in rounds),
        highest_ratio=max(each.ratio for each in rounds),
    )


def _latency_row(name: str, pairs: list[tuple[float, float]]) -> ReportRow:
    ours, ideal = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    ratio = median(pair[0] / pair[1] for pair in pairs)
    return ratio_row(
        name, f"{ours:,.0f} µs", f"{ideal:,.0f} µs", ratio, ours_us=ours, ideal_us=ideal
    )
