"""Compaction of one log: speed and memory.

    python -m barnabas.bench.limits.compaction_bench --megabytes 64

A log with several records per key is compacted once, on one thread. Bytes are those of the dirty
log, which is read twice: to map the keys, then to copy the records that stay. The reference is a
copy of the same files with fsync. Memory is the peak growth of the process; the offset map has the
broker's default size, 128 MB.
"""

import os
import random
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from barnabas.base.ids import LeaderEpoch, TopicPartition
from barnabas.base.randomness import Random
from barnabas.bench.bench_report import ReportRow, Section, rate, ratio_row, show, size_name
from barnabas.config.topic_config import TopicConfig
from barnabas.disk.disk import RealDisk
from barnabas.log.cleaner.cleanable import decide_cleanable, plan_cleaning
from barnabas.log.cleaner.cleaner import Cleaning
from barnabas.log.cleaner.offset_map import OffsetMap
from barnabas.log.log import Log
from barnabas.log.producers.producer_state import ProducerStates
from barnabas.log.recovery.log_loader import Opening, open_log
from barnabas.wire.records.batch import read_header
from barnabas.wire.records.compression import Codec
from barnabas.wire.records.records import Record, build_batch

PARTITION: Final = TopicPartition("bench", 0)
CONFIG: Final = replace(TopicConfig(), cleanup_policy=("compact",), segment_bytes=16 * 1024 * 1024)
TIMES_EACH_KEY: Final = 4
RECORDS_IN_A_BATCH: Final = 100
MAP_BYTES: Final = 128 * 1024 * 1024
BUFFER_BYTES: Final = 256 * 1024
NOW_MS: Final = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class CompactionLoad:
    value_size: int
    codec: Codec

    @property
    def name(self) -> str:
        packed = "" if self.codec is Codec.NONE else f", {self.codec.name.lower()}"
        return f"values of {size_name(self.value_size)}{packed}"


LOADS: Final = (
    CompactionLoad(100, Codec.NONE),
    CompactionLoad(1024, Codec.NONE),
    CompactionLoad(1024, Codec.LZ4),
)


@dataclass(frozen=True, slots=True)
class Result:
    seconds: float
    copy_seconds: float
    bytes_before: int
    bytes_after: int
    records: int
    keys: int
    peak_bytes: int


def fill(folder: Path, load: CompactionLoad, size: int) -> Log:
    """A log of about `size` bytes of records, all of it cleanable."""
    disk = RealDisk(str(folder))
    disk.make_dir(str(PARTITION))
    log = open_log(
        disk,
        Opening(PARTITION, CONFIG, clean=True),
        producers=ProducerStates(86_400_000),
        random=Random(1),
        now_ms=NOW_MS,
    )
    source = random.Random(load.value_size)
    batches = max(1, size // ((load.value_size + 25) * RECORDS_IN_A_BATCH))
    keys = batches * RECORDS_IN_A_BATCH // TIMES_EACH_KEY
    pool = source.randbytes(100_000)
    half = load.value_size // 2
    for _ in range(batches):
        records = [
            Record(n, NOW_MS, b"user-%012d" % source.randrange(keys), pool[at : at + half] * 2)
            for n in range(RECORDS_IN_A_BATCH)
            if (at := source.randrange(len(pool) - half)) >= 0
        ]
        batch = memoryview(build_batch(records, codec=load.codec))
        log.append(batch, read_header(batch), LeaderEpoch(0), NOW_MS)
    log.roll(NOW_MS)
    log.flush(NOW_MS)
    return log


def compact(log: Log) -> Cleaning:
    """One pass of the broker's log cleaner."""
    chosen = decide_cleanable(log, log.log_end_offset, NOW_MS)
    offset_map = OffsetMap(MAP_BYTES, most_keys=chosen.most_keys)
    cleaning = Cleaning(plan_cleaning(chosen, NOW_MS), offset_map, BUFFER_BYTES)
    log.cleaning = cleaning
    for _ in cleaning.map_keys():
        pass
    for group in cleaning.groups():
        for _ in cleaning.clean(group):
            pass
        swap = log.begin_swap(group, cleaning.take_cleaned())
        while not swap.is_done:
            swap.sync()
            log.continue_swap(swap)
        swap.sync()
    return cleaning


def copy(log: Log, folder: Path) -> float:
    """Seconds to copy the log's segments, buffer by buffer, with fsync."""
    started = time.perf_counter()
    for segment in log.segments[:-1]:
        target = os.open(folder / f"{segment.base_offset}.copy", os.O_WRONLY | os.O_CREAT)
        for position in range(0, segment.size, BUFFER_BYTES):
            os.write(target, segment.file.read(position, BUFFER_BYTES))
        os.fsync(target)
        os.close(target)
    return time.perf_counter() - started


def measure(load: CompactionLoad, size: int) -> Result:
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as name:
        folder = Path(name)
        log = fill(folder, load, size)
        before = log.size_bytes
        copy_seconds = copy(log, folder)
        resident = _reset_peak()
        started = time.perf_counter()
        cleaning = compact(log)
        seconds = time.perf_counter() - started
        records = cleaning.statistics.records
        return Result(
            seconds,
            copy_seconds,
            before,
            log.size_bytes,
            records.records_read,
            records.records_kept,
            max(0, _memory("VmHWM") - resident),
        )


def _reset_peak() -> int:
    """Reset the kernel's peak memory of the process; return its current memory."""
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _memory(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def _row(load: CompactionLoad, size: int) -> ReportRow:
    result = measure(load, size)
    ours = result.bytes_before / result.seconds
    theirs = result.bytes_before / result.copy_seconds
    per_key = result.peak_bytes / max(1, result.keys)
    return ratio_row(
        f"{load.name}: {result.records:,} records to {result.keys:,}, peak "
        f"{result.peak_bytes / 1e6:.0f} MB ({per_key:.0f} B a key)",
        f"{rate(ours)}, {result.records / result.seconds / 1000:,.0f}k records/s",
        rate(theirs),
        ours / theirs,
        bytes_per_second=ours,
        records_per_second=result.records / result.seconds,
        peak_bytes=result.peak_bytes,
    )


def section(megabytes: int) -> Section:
    rows = [_row(load, megabytes * 1_000_000) for load in LOADS]
    notes = (f"{megabytes} MB before, each key {TIMES_EACH_KEY} times on average, one thread",)
    return Section("compaction", "Compaction", "Barnabas", "plain copy", rows, notes)


def main(
    megabytes: Annotated[int, typer.Option(min=1, help="Size of the log.")] = 64,
) -> None:
    """One pass of compaction, compared with a copy of the same files."""
    show(Console(), section(megabytes))


if __name__ == "__main__":
    typer.run(main)
