"""The log of one partition, without network or protocol, compared with plain files.

Append and sequential read are compared with `os.write` and `os.preadv` of the same sizes, to and
from the page cache. Look-ups are of random offsets in a log of 10 GB with complete indexes and
sparse segments.
"""

import os
import socket
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from threading import Thread
from typing import Final

from barnabas.base.clock import SystemClock
from barnabas.base.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from barnabas.base.randomness import Random
from barnabas.bench.bench_plan import Bench
from barnabas.bench.bench_report import ReportRow, Section, rate, ratio_row
from barnabas.bench.limits.bench_logs import BATCH_BYTES, PARTITION, open_partition, sparse_log
from barnabas.bench.limits.load_messages import batch_of
from barnabas.config.topic_config import TopicConfig
from barnabas.disk.disk import RealDisk
from barnabas.log.log import Log
from barnabas.log.logs import Logs
from barnabas.wire.produce.plain_batch import as_plain
from barnabas.wire.records.batch import read_header

READ_BYTES: Final = 1024 * 1024  # max.partition.fetch.bytes
LOOK_UP_GOAL_US: Final = 50
CLUSTER: Final = "bench-bench-bench-benc"


class WrongResult(Exception):
    """The log has wrong contents, so its figures are void."""


def demand(holds: bool, what: str) -> None:
    if not holds:
        raise WrongResult(what)


def log_section(bench: Bench) -> Section:
    """The section; each row has its own data directory, removed before the next."""
    plan = bench.plan
    rows = []
    for name, measure in ROWS.items():
        bench.say(f"log: {name}")
        rows.append(measure(bench))
    notes = (
        f"append and read: {plan.log_bytes / 1e6:.0f} MB a round, medians of {plan.repeat}",
        f"look-up: {plan.look_ups:,} random offsets of {_sparse_gb(bench):.1f} GB, one by one; "
        "max is the first in a segment, whose files are opened",
        "recovery: all of it scanned, beside reading it; clean open: as at the start of a broker",
    )
    return Section("log", "Log", "Barnabas", "plain file", rows, notes)


# Append


def append_row(bench: Bench) -> ReportRow:
    """Append batches without producer id, with their headers read as by a leader."""
    size = bench.plan.log_bytes
    return _match(bench, "append, 16 KiB", size, 0.7, _append_raw, _append_judged)


def append_with_header_row(bench: Bench) -> ReportRow:
    size = bench.plan.log_bytes
    name = "append, 16 KiB, header read"
    return _match(bench, name, size, 0.7, _append_raw, _append_unread)


def _append_raw(folder: Path, size: int) -> float:
    batch = memoryview(batch_of(BATCH_BYTES).content)
    descriptor = os.open(folder / "raw", os.O_WRONLY | os.O_CREAT)
    with _closing(descriptor):
        start = time.perf_counter()
        for _ in range(size // BATCH_BYTES):
            os.write(descriptor, batch)
        return time.perf_counter() - start


def _append_judged(folder: Path, size: int) -> float:
    log = open_partition(folder)
    start = time.perf_counter()
    records = _fill(log, size)
    return _check_end(log, records, time.perf_counter() - start)


def _append_unread(folder: Path, size: int) -> float:
    log = open_partition(folder)
    batch = memoryview(bytearray(batch_of(BATCH_BYTES).content))
    epoch, now_ms = LeaderEpoch(0), SystemClock().now_ms()
    count = size // BATCH_BYTES
    start = time.perf_counter()
    for _ in range(count):
        log.append(batch, read_header(batch), epoch, now_ms)
    spent = time.perf_counter() - start
    return _check_end(log, count * read_header(batch).record_count, spent)


def _check_end(log: Log, records: int, spent: float) -> float:
    demand(log.log_end_offset == records, f"log end offset is {log.log_end_offset}, not {records}")
    return spent


def _fill(log: Log, size: int) -> int:
    """Append batches by the fields of their headers; return the number of records."""
    batch = memoryview(bytearray(batch_of(BATCH_BYTES).content))
    plain = [as_plain(batch, read_header(batch))]
    epoch, now_ms = LeaderEpoch(0), SystemClock().now_ms()
    count = size // BATCH_BYTES
    for _ in range(count):
        log.append_batches(plain, epoch, now_ms)
    return count * plain[0].record_count


# Sequential read


def read_row(bench: Bench) -> ReportRow:
    size = bench.plan.log_bytes
    return _match(bench, "read on, 1 MiB a fetch", size, 0.8, _read_raw, _read_ours)


def _read_raw(folder: Path, size: int) -> float:
    path = folder / "raw"
    path.write_bytes(bytes(size))
    buffer = memoryview(bytearray(READ_BYTES))
    descriptor = os.open(path, os.O_RDONLY)
    with _closing(descriptor), _sink(size) as send:
        start = time.perf_counter()
        for position in range(0, size, READ_BYTES):
            send(buffer[: os.preadv(descriptor, [buffer], position)])
        return time.perf_counter() - start


def _read_ours(folder: Path, size: int) -> float:
    log = open_partition(folder)
    records = _fill(log, size)
    batch_records = records // (size // BATCH_BYTES)
    end, offset = log.log_end_offset, Offset(0)
    with _sink(size) as send:
        start = time.perf_counter()
        while offset < end:
            found = log.locate(offset, READ_BYTES, end).warm()
            demand(bool(found), f"nothing to read at {offset}")
            send(found or b"")
            offset = Offset(offset + len(found or b"") // BATCH_BYTES * batch_records)
        spent = time.perf_counter() - start
    demand(offset == end, f"read up to {offset}, not {end}")
    return spent


@contextmanager
def _sink(size: int) -> Iterator[Callable[[memoryview | bytes], None]]:
    """The target of both sides' reads: a socket whose other end discards the data."""
    near, far = socket.socketpair()
    with near, far:
        drain = Thread(target=_drain, args=(far, size))
        drain.start()
        yield near.sendall
        near.close()
        drain.join()


def _drain(far: socket.socket, size: int) -> None:
    buffer = bytearray(READ_BYTES)
    while received := far.recv_into(buffer):
        size -= received
    demand(size == 0, f"{size} bytes did not arrive")


# Look-up


def look_up_row(bench: Bench) -> ReportRow:
    plan = bench.plan
    with bench.scratch() as folder:
        segment_bytes = plan.sparse_bytes // plan.sparse_segments
        sparse = sparse_log(folder, plan.sparse_segments, segment_bytes, plan.look_ups)
        end, spent_us = sparse.log.log_end_offset, []
        for offset, base, position in sparse.places:
            start = time.perf_counter_ns()
            extent = sparse.log.locate(Offset(offset), BATCH_BYTES, end)
            spent_us.append((time.perf_counter_ns() - start) / 1000)
            batch = read_header(extent.load())
            demand(
                extent[1:] == (position, BATCH_BYTES)
                and batch.base_offset <= offset < batch.next_offset
                and base <= offset,
                f"offset {offset} was looked for at {extent}",
            )
    p50, p99 = median(spent_us), quantiles(spent_us, n=100)[-1]
    figures = f"{p50:.1f} µs; p99 {p99:.1f}, max {max(spent_us):,.0f}"
    numbers = {"p50_us": p50, "p99_us": p99, "max_us": max(spent_us)}
    return ReportRow(
        f"look-up in {_sparse_gb(bench):.1f} GB, p50",
        figures,
        goal=f"< {LOOK_UP_GOAL_US} µs",
        met=p50 < LOOK_UP_GOAL_US,
        numbers=numbers,
    )


def _sparse_gb(bench: Bench) -> float:
    return bench.plan.sparse_bytes / 2**30


# Opening


def recovery_row(bench: Bench) -> ReportRow:
    size = bench.plan.recovered_bytes
    return _match(bench, "recovery after a crash", size, None, _scan_raw, _recover)


def _scan_raw(folder: Path, size: int) -> float:
    path = folder / "raw"
    path.write_bytes(bytes(size))
    start = time.perf_counter()
    with path.open("rb") as file:
        while file.read(4 * READ_BYTES):
            pass
    return time.perf_counter() - start


def _recover(folder: Path, size: int) -> float:
    log = open_partition(folder, segment_bytes=max(size // 4, READ_BYTES))
    records = _fill(log, size)
    del log
    start = time.perf_counter()
    log = open_partition(folder, clean=False)
    spent = time.perf_counter() - start
    return _check_end(log, records, spent)


def clean_open_row(bench: Bench) -> ReportRow:
    count = bench.plan.partitions
    with bench.scratch() as folder:
        logs = _logs(UnsyncedDisk(str(folder)))
        for number in range(count):
            log = logs.create(TopicPartition(PARTITION.topic, number), None, TopicConfig())
            _fill(log, 4 * BATCH_BYTES)
        logs.close({})
        start = time.perf_counter()
        logs = _logs(RealDisk(str(folder)))
        spent = time.perf_counter() - start
        demand(
            len(logs) == count and all(log.log_end_offset > 0 for log in logs),
            f"{len(logs)} of {count} partitions were opened",
        )
        logs.release()
    name = f"clean open of {count:,} partitions"
    return ReportRow(name, f"{spent:.2f} s", numbers={"seconds": spent})


class UnsyncedDisk(RealDisk):
    """A disk without fsync, to prepare the data."""

    def sync(self, path: str = "", /) -> None:
        pass

    def sync_all(self, paths: Collection[str], /) -> None:
        pass


def _logs(disk: RealDisk) -> Logs:
    logs = Logs([disk], clock=SystemClock(), random=Random(1))
    logs.acquire(BrokerId(0), CLUSTER)
    logs.open_all(lambda topic: TopicConfig())
    return logs


# Both sides


def _match(
    bench: Bench,
    name: str,
    size: int,
    goal: float | None,
    raw: Callable[[Path, int], float],
    ours: Callable[[Path, int], float],
) -> ReportRow:
    """Run both alternately, in an order that changes with the rounds."""
    spent: dict[str, list[float]] = {"ours": [], "raw": []}
    for number in range(bench.plan.repeat):
        sides = [("ours", ours), ("raw", raw)]
        for side, measure in sides if number % 2 else reversed(sides):
            with bench.scratch() as folder:
                spent[side].append(measure(folder, size))
    ratio = median(raw / our for our, raw in zip(spent["ours"], spent["raw"], strict=True))
    our, their = (size / median(spent[side]) for side in ("ours", "raw"))
    numbers = {"bytes_per_second": our, "raw_bytes_per_second": their}
    return ratio_row(name, rate(our), rate(their), ratio, goal, **numbers)


@contextmanager
def _closing(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)


ROWS: Final[dict[str, Callable[[Bench], ReportRow]]] = {
    "append": append_row,
    "append with header": append_with_header_row,
    "read": read_row,
    "look-up": look_up_row,
    "recovery": recovery_row,
    "clean open": clean_open_row,
}
