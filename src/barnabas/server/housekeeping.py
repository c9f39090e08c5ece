"""What a broker does from time to time: flush, retain, checkpoint, forget idle producers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from barnabas.base.clock import Clock
from barnabas.base.errors import DiskFault
from barnabas.base.ids import Offset, TopicPartition
from barnabas.base.offload import Offload
from barnabas.log.logs import Logs
from barnabas.log.work import Removal
from barnabas.replication.replicas import Replicas

log = logging.getLogger("barnabas.housekeeping")


@dataclass(frozen=True, slots=True)
class Intervals:
    """How often, in milliseconds."""

    flush_ms: int
    retention_ms: int
    checkpoint_ms: int
    producer_expiration_ms: int


class Housekeeping:
    """Runs each duty at its interval; what blocks goes to a thread."""

    def __init__(
        self,
        logs: Logs,
        replicas: Replicas,
        clock: Clock,
        offload: Offload,
        intervals: Intervals,
        disk_failed: Callable[[DiskFault], None],
    ) -> None:
        self._logs = logs
        self._replicas = replicas
        self._clock = clock
        self._offload = offload
        self._intervals = intervals
        self._disk_failed = disk_failed
        self._tasks: set[asyncio.Task[None]] = set()
        self._checkpointed: dict[tuple[str, str], bytes] = {}

    def start(self) -> None:
        every = self._intervals
        self._spawn(self._repeat(every.flush_ms, self.flush))
        self._spawn(self._repeat(every.retention_ms, self.retain))
        self._spawn(self._repeat(every.checkpoint_ms, self.checkpoint))
        self._spawn(self._repeat(every.producer_expiration_ms, self.expire_producers))

    async def stop(self) -> None:
        """End all duties; a removal that was not due yet is done at the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _repeat(self, interval_ms: int, duty: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            try:
                await duty()
            except DiskFault as fault:
                self._disk_failed(fault)
            except Exception:
                log.exception("housekeeping failed duty=%s", getattr(duty, "__name__", duty))

    # -- the duties ----------------------------------------------------------

    async def flush(self) -> None:
        """Bring onto the medium what the topics' flush properties ask for."""
        for partition_log, flush in self._logs.due_flushes():
            await self._offload(flush.run)
            partition_log.on_flushed(flush, self._clock.now_ms())

    async def retain(self) -> None:
        """Let go of the segments that are too old or too many."""
        for removal in self._logs.due_removals(self._high_watermark):
            log.info("segments deleted folder=%s files=%d", removal.disk.folder, len(removal.paths))
            self.remove_later(removal)

    def _high_watermark(self, partition: TopicPartition) -> Offset:
        leader = self._replicas.find(*partition)
        return Offset(0) if leader is None else leader.high_watermark

    def remove_later(self, removal: Removal) -> None:
        """Carry out a removal when its delay is over."""
        self._spawn(self._remove(removal))

    async def _remove(self, removal: Removal) -> None:
        await asyncio.sleep(removal.delay_ms / 1000)
        try:
            await self._offload(removal.run)
        except DiskFault as fault:
            self._disk_failed(fault)

    def high_watermarks(self) -> dict[TopicPartition, Offset]:
        return {leader.topic_partition: leader.high_watermark for leader in self._replicas}

    async def checkpoint(self) -> None:
        """Write down recovery points, log starts and high watermarks, where they have changed."""
        for write in self._logs.checkpoints(self.high_watermarks()):
            key = (write.disk.folder, write.name)
            if self._checkpointed.get(key) != write.data:
                await self._offload(write.run)
                self._checkpointed[key] = write.data

    async def expire_producers(self) -> None:
        now_ms = self._clock.now_ms()
        for partition_log in self._logs:
            partition_log.producers.expire(now_ms)
