"""Start-up time, memory and CPU of an idle broker."""

import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median
from typing import Final

from barnabas.bench.bench_plan import Bench
from barnabas.bench.bench_report import ReportRow, Section
from barnabas.bench.clusters.bench_topics import create_topic
from barnabas.bench.limits.clients_bench import produce_messages
from barnabas.bench.limits.load_messages import TOPIC
from barnabas.bench.server_processes import (
    HAS_PROC,
    Server,
    broker,
    cpu_seconds,
    resident_bytes,
    settle,
)

READY_GOAL_S: Final = 1.0
IDLE_GOAL_BYTES: Final = 80_000_000
LOAD_RECORD_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class BrokerStart:
    """One start: seconds to the `ready` line, and to the first response."""

    ready_s: float
    answered_s: float


@dataclass(frozen=True, slots=True)
class Idle:
    """Memory and CPU of an idle broker."""

    fresh_bytes: int
    loaded_bytes: int
    cpu_percent: float


def idle_section(bench: Bench) -> Section:
    starts = [_start(bench, number) for number in range(bench.plan.starts)]
    python_s = median(_python_start() for _ in range(bench.plan.starts))
    rows = [*_start_rows(starts, python_s), *_idle_rows(bench)]
    notes = (
        f"start-up: medians of {bench.plan.starts}, on an empty data directory",
        f"CPU over {bench.plan.idle_seconds:g} s; the load: {bench.plan.client_bytes / 1e6:.0f} MB",
    )
    return Section("idle", "Start-up and idling", "Barnabas", "bare Python", rows, notes)


def _start(bench: Bench, number: int) -> BrokerStart:
    bench.say(f"start-up: {number + 1} of {bench.plan.starts}")
    with bench.scratch() as folder, broker(folder) as server:
        since = time.perf_counter()
        _first_answer(server)
        return BrokerStart(server.ready_s, server.ready_s + time.perf_counter() - since)


def _first_answer(server: Server) -> None:
    """Request the metadata of all topics (v1) and read the complete response."""
    request = struct.pack(">hhihi", 3, 1, 0, -1, -1)
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answer:
            size = struct.unpack(">i", answer.read(4))[0]
            if len(answer.read(size)) != size:
                raise ConnectionError("the broker closed the connection during its first response")


def _python_start() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - start


def _start_rows(starts: list[BrokerStart], python_s: float) -> list[ReportRow]:
    ready = median(each.ready_s for each in starts)
    answered = median(each.answered_s for each in starts)
    bare = f"{python_s * 1e3:,.0f} ms"
    goal = f"< {READY_GOAL_S:g} s"
    return [
        ReportRow(
            "start to `ready`",
            f"{ready * 1e3:,.0f} ms",
            bare,
            ready / python_s,
            goal,
            ready < READY_GOAL_S,
            {"seconds": ready, "python_seconds": python_s},
        ),
        ReportRow(
            "start to first Metadata answer",
            f"{answered * 1e3:,.0f} ms",
            bare,
            answered / python_s,
            numbers={"seconds": answered, "python_seconds": python_s},
        ),
    ]


def _idle_rows(bench: Bench) -> list[ReportRow]:
    if not HAS_PROC:
        return [ReportRow("memory and CPU", "not measured: no /proc here")]
    idle = _idle(bench)
    goal = f"< {IDLE_GOAL_BYTES / 1e6:.0f} MB"
    fresh = idle.fresh_bytes
    return [
        ReportRow(
            "memory after start (RSS)",
            f"{fresh / 1e6:,.0f} MB",
            goal=goal,
            met=fresh < IDLE_GOAL_BYTES,
            numbers={"bytes": fresh},
        ),
        ReportRow(
            "memory after a load (RSS)",
            f"{idle.loaded_bytes / 1e6:,.0f} MB",
            numbers={"bytes": idle.loaded_bytes},
        ),
        ReportRow(
            "CPU when idle", f"{idle.cpu_percent:.1f} %", numbers={"percent": idle.cpu_percent}
        ),
    ]


def _idle(bench: Bench) -> Idle:
    bench.say("idle memory and CPU")
    count = max(1, bench.plan.client_bytes // LOAD_RECORD_BYTES)
    with bench.scratch() as folder, broker(folder) as server:
        fresh = resident_bytes(server.pid)
        settle(server, bench.plan.settle_seconds)  # what it loads after its start is no idling
        percent = _idle_cpu_percent(server, bench.plan.idle_seconds)
        create_topic(server.bootstrap, TOPIC, 1)
        produce_messages(server.bootstrap, LOAD_RECORD_BYTES, count)
        return Idle(fresh, resident_bytes(server.pid), percent)


def _idle_cpu_percent(server: Server, seconds: float) -> float:
    before, start = cpu_seconds(server.pid), time.perf_counter()
    time.sleep(seconds)
    return 100 * (cpu_seconds(server.pid) - before) / (time.perf_counter() - start)
