"""The raw limits as a section of the report, and as references for real clients."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from barnabas.bench.bench_plan import Bench
from barnabas.bench.bench_report import ReportRow, Section, rate, size_name
from barnabas.bench.limits.raw_limits import (
    fsync_seconds,
    loopback_bytes_per_second,
    write_bytes_per_second,
)

WRITE_SIZES: Final = (16 * 1024, 128 * 1024, 1_000_000)
REPEAT: Final = 3


@dataclass(frozen=True, slots=True)
class RawLimits:
    """Upper limits of this machine, in bytes per second."""

    loopback: float
    write: float

    @property
    def produce(self) -> float:
        """The limit of produce: every byte crosses the loopback and is written."""
        return min(self.loopback, self.write)


def measure_limits(bench: Bench, write_size: int) -> RawLimits:
    size = bench.plan.raw_bytes
    return RawLimits(
        _middle(lambda: loopback_bytes_per_second(size)),
        _write_limit(bench.folder, write_size, size),
    )


def raw_section(bench: Bench) -> Section:
    bench.say("raw limits")
    size = bench.plan.raw_bytes
    loopback = _middle(lambda: loopback_bytes_per_second(size))
    rows = [ReportRow("TCP over loopback", rate(loopback), numbers={"bytes_per_second": loopback})]
    for chunk in WRITE_SIZES:
        written = _write_limit(bench.folder, chunk, size)
        name = f"page-cache write, {size_name(chunk)} a call"
        rows.append(ReportRow(name, rate(written), numbers={"bytes_per_second": written}))
    synced = fsync_seconds(bench.folder)
    numbers = {"seconds": synced}
    rows.append(ReportRow("fsync after 4 KiB, p50", f"{synced * 1e6:,.0f} µs", numbers=numbers))
    notes = (f"medians of {REPEAT}; two processes, a MiB per call on the loopback",)
    return Section("raw", "Raw limits of this machine", "measured", "", rows, notes)


def _write_limit(folder: Path, chunk: int, size: int) -> float:
    return _middle(lambda: write_bytes_per_second(folder, chunk, size))


def _middle(measure: Callable[[], float]) -> float:
    return median(measure() for _ in range(REPEAT))
