"""The log cleaner: compacts the dirtiest logs while the broker serves.

Decisions are made on the loop, a thread reads and writes the files a buffer at a time, and the loop
swaps the cleaned segments in. So a log may be appended to and read meanwhile; if it is truncated or
deleted, its cleaning is void.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from barnabas.base.clock import Clock
from barnabas.base.errors import BarnabasError, DiskFault, LawBroken
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import TopicPartition
from barnabas.base.offload import Offload
from barnabas.log.background_work import Removal, Removals
from barnabas.log.cleaner.cleanable import (
    LogToClean,
    decide_cleanable,
    decide_filthiest,
    plan_cleaning,
)
from barnabas.log.cleaner.cleaner import Cleaning
from barnabas.log.cleaner.offset_map import OffsetMap
from barnabas.log.log import Log
from barnabas.log.logs import Logs
from barnabas.log.segment.segment import Segment
from barnabas.replication.replicas import Replicas

log = logging.getLogger("barnabas.cleaner")


class CleanerSettings(NamedTuple):
    """The `log.cleaner.*` properties of a broker, as they are now."""

    threads: int
    dedupe_buffer_size: int
    io_buffer_size: int
    io_buffer_load_factor: float
    io_max_bytes_per_second: float
    backoff_ms: int


class CleanerConfig(Protocol):
    def cleaner(self) -> CleanerSettings:
        """The settings of now."""
        ...


@dataclass(slots=True)
class CleanerStatistics:
    """The work of the cleaner since the broker started, and its current state."""

    running: dict[TopicPartition, Cleaning] = field(default_factory=dict)
    uncleanable: dict[TopicPartition, Log] = field(default_factory=dict)
    cleanings: int = 0
    voided: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0
    max_seconds: float = 0.0
    max_map_utilization: float = 0.0


class _Void(BarnabasError):
    """The log no longer wants its cleaning, or the broker stops."""


class LogCleaner:
    """Cleans as many logs at a time as it has threads; a log that cannot be cleaned is skipped."""

    def __init__(
        self,
        logs: Logs,
        replicas: Replicas,
        clock: Clock,
        offload: Offload,
        config: CleanerConfig,
        removals: Removals,
        failures: FailureChannel,
    ) -> None:
        self._logs = logs
        self._replicas = replicas
        self._clock = clock
        self._offload = offload
        self._config = config
        self._removals = removals
        self._failures = failures
        self._stopping = asyncio.Event()
        self._schedule: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._free_at = 0.0
        self.statistics = CleanerStatistics()

    def start(self) -> None:
        self._schedule = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        """End after the step that each cleaning is at: what was not swapped in is discarded."""
        self._stopping.set()
        if self._schedule is not None:
            await self._schedule
        await asyncio.gather(*self._tasks)

    # -- which log -----------------------------------------------------------

    async def _run(self) -> None:
        stopping = asyncio.ensure_future(self._stopping.wait())
        while not self._stopping.is_set():
            try:
                self._start_due()
            except DiskFault as fault:
                self._failures.disk_failed(fault)
            except LawBroken as broken:
                self._failures.fatal(broken)
            except Exception:
                log.exception("choosing a log to clean failed")
            await asyncio.wait(
                {stopping, *self._tasks},
                timeout=self._config.cleaner().backoff_ms / 1000,
                return_when=asyncio.FIRST_COMPLETED,
            )

    def _start_due(self) -> None:
        while len(self._tasks) < self._config.cleaner().threads and (chosen := self.next_log()):
            cleaning = self.begin(chosen)
            if cleaning is not None:
                task = asyncio.ensure_future(self.clean(chosen.log, cleaning))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def next_log(self) -> LogToClean | None:
        """The log to clean next, if one is due."""
        statistics, now_ms = self.statistics, self._clock.now_ms()
        statistics.uncleanable = {
            partition: each
            for partition, each in statistics.uncleanable.items()
            if self._logs.get(partition) is each
        }
        candidates = [
            decide_cleanable(replica.log, replica.last_stable_offset, now_ms)
            for replica in self._replicas.all()
            if replica.log.config.compacts
            and replica.log.failure is None
            and replica.topic_partition not in statistics.running
            and replica.topic_partition not in statistics.uncleanable
            # A copy that has a value but not yet its tombstone must find the tombstone.
            and self._logs.futures.get(replica.topic_partition) is None
        ]
        return decide_filthiest(candidates)

    def begin(self, chosen: LogToClean) -> Cleaning | None:
        """A pass over the chosen log after retention; None if little is left to clean then."""
        partition_log, now_ms = chosen.log, self._clock.now_ms()
        replica = self._replicas.get(partition_log.partition)
        assert replica is not None, "it was chosen among them"
        deletable = partition_log.deletable_segments(now_ms, replica.high_watermark)
        if removal := partition_log.delete_segments(deletable, now_ms):
            self._removals.remove_later(removal)
            chosen = decide_cleanable(partition_log, replica.last_stable_offset, now_ms)
            if not chosen.is_due:
                return None
        self._tell_if_reset(chosen)
        settings = self._config.cleaner()
        memory = settings.dedupe_buffer_size // settings.threads
        cleaning = Cleaning(
            plan_cleaning(chosen, now_ms),
            OffsetMap(memory, settings.io_buffer_load_factor, chosen.most_keys),
            max(1, settings.io_buffer_size // settings.threads // 2),
        )
        partition_log.cleaning = self.statistics.running[partition_log.partition] = cleaning
        return cleaning

    def _tell_if_reset(self, chosen: LogToClean) -> None:
        known = chosen.log.first_dirty_offset
        if known not in (None, chosen.first_dirty_offset) and not chosen.log.config.deletes:
            log.warning(
                "first dirty offset reset partition=%s known=%s log=%d..%d",
                chosen.log.partition,
                known,
                chosen.log.log_start_offset,
                chosen.log.log_end_offset,
            )

    # -- one pass ------------------------------------------------------------

    async def clean(self, partition_log: Log, cleaning: Cleaning) -> None:
        """Carry out a pass that was begun, and settle whatever comes of it. Never raises."""
        try:
            await self._pass(partition_log, cleaning)
        except Exception as error:
            self._on_failure(partition_log, cleaning, error)
        await self._leave(partition_log, cleaning)

    def _on_failure(self, partition_log: Log, cleaning: Cleaning, error: Exception) -> None:
        partition = partition_log.partition
        # Where a partition is gone, so are its files: nothing else is wrong.
        if isinstance(error, _Void) or partition_log.cleaning is not cleaning:
            self.statistics.voided += 1
            log.info("cleaning aborted partition=%s", partition)
        elif isinstance(error, DiskFault):
            self._failures.disk_failed(error)
        elif isinstance(error, LawBroken):
            self._failures.fatal(error)
        else:
            self.statistics.uncleanable[partition] = partition_log
            trace = None if isinstance(error, BarnabasError) else error
            log.error(
                "log cannot be cleaned partition=%s cause=%s", partition, error, exc_info=trace
            )

    async def _leave(self, partition_log: Log, cleaning: Cleaning) -> None:
        """Nothing of a pass stays behind but what was swapped in."""
        if partition_log.cleaning is cleaning:
            partition_log.cleaning = None
        try:
            await self._offload(cleaning.discard)
        except DiskFault as fault:
            self._failures.disk_failed(fault)
        del self.statistics.running[partition_log.partition]

    async def _pass(self, partition_log: Log, cleaning: Cleaning) -> None:
        started = asyncio.get_running_loop().time()
        await self._offload(self._logs.checkpoints.recovery_points_beside(partition_log).run)
        await self._steps(partition_log, cleaning, cleaning.map_keys())
        for group in cleaning.groups():
            await self._steps(partition_log, cleaning, cleaning.clean(group))
            await self._swap(partition_log, cleaning, group)
        # The last of a swap suspends: a log that was cut meanwhile is dirty from there on.
        if partition_log.cleaning is not cleaning:
            raise _Void
        partition_log.first_dirty_offset = cleaning.end_offset
        await self._offload(self._logs.checkpoints.compacted_beside(partition_log).run)
        self._note(partition_log, cleaning, asyncio.get_running_loop().time() - started)

    async def _steps(self, partition_log: Log, cleaning: Cleaning, work: Iterator[int]) -> None:
        size: int | None = 0
        while size is not None:
            size = await self._offload(partial(next, work, None))
            if partition_log.cleaning is not cleaning or self._stopping.is_set():
                raise _Void
            await self._throttle(size or 0)

    async def _throttle(self, size: int) -> None:
        """Wait until all cleanings together have read and written no faster than they may."""
        now = asyncio.get_running_loop().time()
        rate = self._config.cleaner().io_max_bytes_per_second
        self._free_at = max(self._free_at, now) + size / rate
        if self._free_at - now > 0.001:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._free_at - now):
                    await self._stopping.wait()

    async def _swap(self, partition_log: Log, cleaning: Cleaning, group: Sequence[Segment]) -> None:
        swap = partition_log.begin_swap(group, cleaning.take_cleaned())
        try:
            while not swap.is_done:
                await self._offload(swap.sync)
                # A log that is cut meanwhile finishes it by itself; one that is gone needs not.
                if partition_log.cleaning is not cleaning:
                    raise _Void
                partition_log.continue_swap(swap)
            await self._offload(swap.sync)
        finally:
            delay_ms = partition_log.config.file_delete_delay_ms
            self._removals.remove_later(Removal(partition_log.disk, swap.deleted, delay_ms))

    def _note(self, partition_log: Log, cleaning: Cleaning, seconds: float) -> None:
        total, done = self.statistics, cleaning.statistics
        total.cleanings += 1
        total.bytes_read += done.bytes_read
        total.bytes_written += done.bytes_written
        total.records_read += done.records.records_read
        total.records_kept += done.records.records_kept
        total.records_without_key += done.records.records_without_key
        total.max_seconds = max(total.max_seconds, seconds)
        total.max_map_utilization = max(total.max_map_utilization, done.map_utilization)
        log.info(
            "log cleaned partition=%s dirty=%d..%d bytes=%d..%d records=%d..%d map=%.0f%%"
            " seconds=%.1f",
            partition_log.partition,
            cleaning.plan.first_dirty_offset,
            cleaning.end_offset,
            done.bytes_read,
            done.bytes_written,
            done.records.records_read,
            done.records.records_kept,
            100 * done.map_utilization,
            seconds,
        )
