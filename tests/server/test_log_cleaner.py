"""The log cleaner on the loop: which logs it takes, what voids it, what stops it."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import ParamSpec

import pytest

from barnabas.base.errors import DiskFault
from barnabas.base.ids import Offset, TopicPartition
from barnabas.base.offload import InlineOffload, T
from barnabas.base.randomness import Random
from barnabas.disk.disk import RealDisk
from barnabas.log.background_work import Removal
from barnabas.log.log import Log
from barnabas.log.logs import Logs
from barnabas.replication.replicas import Replicas
from barnabas.server.maintenance.log_cleaner import CleanerSettings, LogCleaner
from tests.log.batches import NOW
from tests.log.compaction import COMPACT, append_pairs, pairs_of
from tests.replication.leading import sole_leader
from tests.support.recorded_failures import RecordedFailures

P = ParamSpec("P")

SETTINGS = CleanerSettings(
    threads=1,
    dedupe_buffer_size=2**21,
    io_buffer_size=1000,
    io_buffer_load_factor=0.9,
    io_max_bytes_per_second=1.7976931348623157e308,
    backoff_ms=10,
)


class StoppedClock:
    def now_ms(self) -> int:
        return NOW


class MeddlingOffload(InlineOffload):
    """Lets a test do something on the loop after a given step of the work."""

    def __init__(self) -> None:
        self.steps = 0
        self.at: dict[int, Callable[[], object]] = {}

    async def __call__(self, work: Callable[[], T], /) -> T:
        result = await super().__call__(work)
        self.steps += 1
        self.at.get(self.steps, lambda: None)()
        await asyncio.sleep(0)
        return result


class Setting:
    """Some dirty logs, and a cleaner that was not started."""

    def __init__(self, folder: Path, topics: int = 1, settings: CleanerSettings = SETTINGS) -> None:
        self.logs = Logs([RealDisk(str(folder))], clock=StoppedClock(), random=Random(1))
        self.replicas = Replicas()
        self.removals: list[Removal] = []
        self.failures = RecordedFailures()
        self.offload = MeddlingOffload()
        self.settings = settings
        self.partitions = [TopicPartition(f"topic-{n}", 0) for n in range(topics)]
        for partition in self.partitions:
            self.create(partition)
        self.log_cleaner = LogCleaner(
            self.logs,
            self.replicas,
            StoppedClock(),
            self.offload,
            self,
            self,
            self.failures,
        )

    def cleaner(self) -> CleanerSettings:
        return self.settings

    def remove_later(self, removal: Removal) -> None:
        self.removals.append(removal)

    def create(self, partition: TopicPartition) -> Log:
        log = self.logs.create(partition, None, COMPACT)
        for n in range(60):
            append_pairs(log, [(f"key-{n % 4}", "value" * 10)])
        log.flush(NOW)
        self.replicas.put(sole_leader(log))
        return log

    def log(self, number: int = 0) -> Log:
        found = self.logs.get(self.partitions[number])
        assert found is not None
        return found

    async def clean_once(self) -> bool:
        """The cleaner's work when it looks for a log; True if it found one."""
        chosen = self.log_cleaner.next_log()
        cleaning = self.log_cleaner.begin(chosen) if chosen else None
        if chosen is None or cleaning is None:
            return False
        await self.log_cleaner.clean(chosen.log, cleaning)
        return True


async def until(condition: Callable[[], object]) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("waited in vain")


def left(folder: Path, suffix: str) -> list[Path]:
    return list(folder.glob(f"*/*{suffix}"))


def on_a_loop(test: Callable[P, Coroutine[None, None, None]]) -> Callable[P, None]:
    """Run a test on an event loop of its own."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@on_a_loop
async def test_all_dirty_logs_are_cleaned_then_it_rests(tmp_path: Path) -> None:
    here = Setting(tmp_path, topics=3)
    here.log_cleaner.start()
    await until(lambda: here.log_cleaner.statistics.cleanings == 3)
    await here.log_cleaner.stop()
    statistics = here.log_cleaner.statistics
    assert not statistics.running
    assert 0 < statistics.bytes_written < statistics.bytes_read
    assert 0 < statistics.records_kept < statistics.records_read
    for number in range(3):
        assert len(pairs_of(here.log(number))) < 15
        assert here.log(number).cleaning is None
    checkpoint = (tmp_path / "cleaner-offset-checkpoint").read_text().splitlines()
    assert checkpoint[1] == "3"
    for removal in here.removals:
        removal.run()
    assert not left(tmp_path, ".deleted")
    assert not await here.clean_once()


@on_a_loop
async def test_before_anything_is_swapped_in_the_recovery_point_is_written(tmp_path: Path) -> None:
    """So what is scanned after a crash has no gaps, but for those of lost batches."""
    here, seen = Setting(tmp_path), list[tuple[bool, str]]()
    path = tmp_path / "recovery-point-offset-checkpoint"

    def look() -> None:
        seen.append((bool(left(tmp_path, ".deleted")), path.read_text()))

    here.offload.at = dict.fromkeys(range(1, 1000), look)
    assert await here.clean_once()
    is_swapped, written = seen[0]
    assert not is_swapped
    assert f"topic-0 0 {here.log().recovery_point}" in written.splitlines()


@on_a_loop
async def test_a_log_that_cannot_be_cleaned_is_logged_once_and_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here = Setting(tmp_path, topics=2)
    path = tmp_path / here.log().segments[1].path(".log")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    here.log_cleaner.start()
    await until(
        lambda: here.log_cleaner.statistics.cleanings and here.log_cleaner.statistics.uncleanable
    )
    await asyncio.sleep(0.05)
    await here.log_cleaner.stop()
    told = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
    assert len(told) == 1
    assert "log cannot be cleaned partition=topic-0-0 cause=" in told[0]
    assert len(pairs_of(here.log(1))) < 15
    assert not left(tmp_path, ".cleaned")
    assert not here.failures.faults
    # A topic of the same name is another log.
    here.logs.delete(here.partitions[0])
    here.create(here.partitions[0])
    assert await here.clean_once()
    assert not here.log_cleaner.statistics.uncleanable


@pytest.mark.parametrize("step", range(1, 40, 3))
@on_a_loop
async def test_a_truncation_voids_the_cleaning_at_any_step(tmp_path: Path, step: int) -> None:
    here = Setting(tmp_path)
    log = here.log()
    here.offload.at[step] = lambda: log.truncate_to(Offset(30), NOW)
    assert await here.clean_once()
    assert (here.log_cleaner.statistics.voided, here.log_cleaner.statistics.cleanings) == (1, 0)
    assert log.log_end_offset <= 30
    assert all(offset < 30 for offset, _, _ in pairs_of(log))
    assert not left(tmp_path, ".cleaned")
    assert not left(tmp_path, ".swap")
    assert not here.failures.faults
    append_pairs(log, [("after", "x")])
    log.roll(NOW)
    log.flush(NOW)
    assert await here.clean_once()
    assert {key for _, key, _ in pairs_of(log)} == {"after", *(f"key-{n}" for n in range(4))}


@pytest.mark.parametrize("step", range(1, 40, 3))
@on_a_loop
async def test_a_partition_deleted_and_made_again_meanwhile_is_not_touched(
    tmp_path: Path, step: int
) -> None:
    here = Setting(tmp_path)
    (partition,) = here.partitions

    def make_again() -> None:
        here.logs.delete(partition)
        here.create(partition)

    here.offload.at[step] = make_again
    assert await here.clean_once()
    assert here.log_cleaner.statistics.voided == 1
    assert len(pairs_of(here.log())) == 60
    assert not list((tmp_path / str(partition)).glob("*.cleaned"))
    assert not here.failures.faults
    assert not here.log_cleaner.statistics.uncleanable


@on_a_loop
async def test_appends_and_retention_go_on_while_a_log_is_cleaned(tmp_path: Path) -> None:
    here = Setting(tmp_path)
    log = here.log()
    for step in range(2, 30):
        here.offload.at[step] = lambda: append_pairs(log, [("meanwhile", "x" * 50)])
    here.offload.at[5] = lambda: list(here.logs.due_removals(lambda partition: log.log_end_offset))
    assert await here.clean_once()
    assert here.log_cleaner.statistics.cleanings == 1
    assert sum(key == "meanwhile" for _, key, _ in pairs_of(log)) == 27


@on_a_loop
async def test_a_log_with_both_policies_is_cut_by_retention_before_it_is_compacted(
    tmp_path: Path,
) -> None:
    here = Setting(tmp_path)
    log = here.log()
    both = ("compact", "delete")
    log.config = replace(COMPACT, cleanup_policy=both, retention_bytes=log.size_bytes - 600)
    first = log.segments[0]
    assert await here.clean_once()
    assert log.log_start_offset == first.end_offset
    assert log.segments[0] is not first
    assert here.removals[0].paths
    assert len(pairs_of(log)) < 15


@on_a_loop
async def test_a_failed_disk_is_reported_on_the_failure_channel(tmp_path: Path) -> None:
    here = Setting(tmp_path)

    def fail() -> None:
        raise DiskFault(str(tmp_path), OSError("broken"))

    here.offload.at[4] = fail
    assert await here.clean_once()
    assert len(here.failures.faults) == 1
    assert not here.log_cleaner.statistics.uncleanable
    assert not here.failures.broken


@on_a_loop
async def test_it_reads_and_writes_no_faster_than_it_may(tmp_path: Path) -> None:
    here = Setting(tmp_path)
    here.settings = SETTINGS._replace(io_max_bytes_per_second=30_000)
    loop = asyncio.get_running_loop()
    started = loop.time()
    assert await here.clean_once()
    done = here.log_cleaner.statistics
    # Mapping has read the same bytes before.
    least = (2 * done.bytes_read + done.bytes_written) / 30_000
    assert least > 0.2
    assert loop.time() - started >= least * 0.9


@on_a_loop
async def test_stopping_ends_a_cleaning_that_waits(tmp_path: Path) -> None:
    here = Setting(tmp_path)
    here.settings = SETTINGS._replace(io_max_bytes_per_second=1)
    here.log_cleaner.start()
    await until(lambda: here.log_cleaner.statistics.running)
    async with asyncio.timeout(5):
        await here.log_cleaner.stop()
    assert here.log().cleaning is None
    assert len(pairs_of(here.log())) == 60


@on_a_loop
async def test_as_many_logs_are_cleaned_at_a_time_as_there_are_threads(tmp_path: Path) -> None:
    here = Setting(tmp_path, topics=3, settings=SETTINGS._replace(threads=2, backoff_ms=1))
    most = 0

    def look() -> None:
        nonlocal most
        most = max(most, len(here.log_cleaner.statistics.running))

    here.offload.at = dict.fromkeys(range(1000), look)
    here.log_cleaner.start()
    await until(lambda: here.log_cleaner.statistics.cleanings == 3)
    await here.log_cleaner.stop()
    assert most == 2
