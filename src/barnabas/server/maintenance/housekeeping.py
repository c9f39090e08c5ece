"""The periodic work of a broker: flush, retention, checkpoints, expiration."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from barnabas.base.clock import Clock
from barnabas.base.errors import DiskFault, LawBroken
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import Offset, TopicPartition
from barnabas.base.offload import Offload
from barnabas.log.logs import Logs
from barnabas.replication.replicas import Replicas
from barnabas.server.cluster.configs import Configs
from barnabas.server.groups.group_coordinator import GroupCoordinator
from barnabas.server.maintenance.background_tasks import BackgroundTasks
from barnabas.server.maintenance.delayed_removals import DelayedRemovals

log = logging.getLogger("barnabas.housekeeping")

# How often log pages that were read leave the memory of the broker for the page cache.
RELEASE_MEMORY_MS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Intervals:
    """The periods, in milliseconds."""

    flush_ms: int
    retention_ms: int
    checkpoint_ms: int
    producer_expiration_ms: int
    offset_expiration_ms: int


class Housekeeping:
    """Runs each duty at its interval; blocking work runs on a thread."""

    def __init__(
        self,
        logs: Logs,
        replicas: Replicas,
        removals: DelayedRemovals,
        groups: GroupCoordinator,
        configs: Configs,
        intervals: Intervals,
        clock: Clock,
        offload: Offload,
        failures: FailureChannel,
    ) -> None:
        self._logs = logs
        self._replicas = replicas
        self._removals = removals
        self._groups = groups
        self._configs = configs
        self._intervals = intervals
        self._clock = clock
        self._offload = offload
        self._failures = failures
        self._tasks = BackgroundTasks()

    def start(self) -> None:
        every = self._intervals
        self._repeat_every(every.flush_ms, self.flush)
        self._repeat_every(every.retention_ms, self.retain)
        self._repeat_every(every.checkpoint_ms, self.checkpoint)
        self._repeat_every(every.producer_expiration_ms, self.expire_producers)
        self._repeat_every(every.offset_expiration_ms, self._groups.expire)
        self._repeat_every(RELEASE_MEMORY_MS, self.release_memory)

    async def stop(self) -> None:
        """End all duties; return when none runs any more."""
        await self._tasks.stop()

    def _repeat_every(self, interval_ms: int, duty: Callable[[], Awaitable[None]]) -> None:
        self._tasks.spawn(self._repeat(interval_ms, duty))

    async def _repeat(self, interval_ms: int, duty: Callable[[], Awaitable[None]]) -> None:
        while not await self._tasks.stops_within(interval_ms):
            try:
                await duty()
            except DiskFault as fault:
                self._failures.disk_failed(fault)
            except LawBroken as broken:
                self._failures.fatal(broken)
            except Exception:
                log.exception("housekeeping failed duty=%s", getattr(duty, "__name__", duty))

    async def _run(self, work: Callable[[], None]) -> bool:
        """Return whether blocking work succeeded; if not, its log directory goes offline."""
        try:
            await self._offload(work)
        except DiskFault as fault:
            self._failures.disk_failed(fault)
            return False
        return True

    # -- the duties ----------------------------------------------------------

    async def flush(self) -> None:
        """Flush what the topics' flush properties ask for."""
        for partition_log, flush in self._logs.due_flushes():
            if await self._run(flush.run):
                partition_log.on_flushed(flush, self._clock.now_ms())

    async def retain(self) -> None:
        """Delete the segments that are beyond the retention of their topic."""
        for removal in self._logs.due_removals(self._high_watermark):
            log.info(
                "segments deleted log_dir=%s files=%d", removal.disk.log_dir, len(removal.paths)
            )
            self._removals.remove_later(removal)

    def _high_watermark(self, partition: TopicPartition) -> Offset:
        replica = self._replicas.get(partition)
        return Offset(0) if replica is None else replica.high_watermark

    async def checkpoint(self) -> None:
        """Write recovery points, log start offsets and high watermarks where they changed."""
        for write in self._logs.checkpoints.writes(self._replicas.high_watermarks()):
            await self._run(write.run)

    async def expire_producers(self) -> None:
        """Forget the producers that were idle for `producer.id.expiration.ms`."""
        now_ms = self._clock.now_ms()
        expiration_ms = self._configs.broker.int("producer.id.expiration.ms")
        for partition_log in self._logs:
            partition_log.producers.expiration_ms = expiration_ms
            partition_log.producers.expire(now_ms)

    async def release_memory(self) -> None:
        """Let the log's pages count as page cache, not as memory of this process."""
        for log_dir in self._logs.log_dirs.values():
            for _ in log_dir.disk.release_memory():
                await asyncio.sleep(0)
