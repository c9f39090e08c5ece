"""What a broker does from time to time: flush, retain, checkpoint, forget what is idle."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from barnabas.base.clock import Clock
from barnabas.base.errors import DiskFault, LawBroken
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import Offset, TopicPartition
from barnabas.base.offload import Offload
from barnabas.log.background_work import Removal
from barnabas.log.logs import Logs
from barnabas.replication.replicas import Replicas
from barnabas.server.delayed.partition_purgatories import Delayed

log = logging.getLogger("barnabas.housekeeping")

# What could not be done is tried again after this.
AGAIN_MS: Final = 1_000
# How often what was read of the logs since then is taken out of the broker's memory.
LET_GO_MS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Intervals:
    """How often, in milliseconds."""

    flush_ms: int
    retention_ms: int
    checkpoint_ms: int
    producer_expiration_ms: int
    offset_expiration_ms: int


class Housekeeping:
    """Runs each duty at its interval; what blocks goes to a thread."""

    def __init__(
        self,
        logs: Logs,
        replicas: Replicas,
        delayed: Delayed,
        clock: Clock,
        offload: Offload,
        intervals: Intervals,
        failures: FailureChannel,
        producer_expiration_ms: Callable[[], int],
        expire_offsets: Callable[[], Awaitable[None]],
    ) -> None:
        self._logs = logs
        self._replicas = replicas
        self._delayed = delayed
        self._clock = clock
        self._offload = offload
        self._intervals = intervals
        self._failures = failures
        self._producer_expiration_ms = producer_expiration_ms
        self._expire_offsets = expire_offsets
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()

    def start(self) -> None:
        every = self._intervals
        self._spawn(self._repeat(every.flush_ms, self.flush))
        self._spawn(self._repeat(every.retention_ms, self.retain))
        self._spawn(self._repeat(every.checkpoint_ms, self.checkpoint))
        self._spawn(self._repeat(every.producer_expiration_ms, self.expire_producers))
        self._spawn(self._repeat(every.offset_expiration_ms, self._expire_offsets))
        self._spawn(self._repeat(LET_GO_MS, self.let_go))

    async def stop(self) -> None:
        """End all duties; a removal that was not due yet is done at the next start.

        What a thread is at is waited for: nobody else may write the same files meanwhile.
        """
        self._stopping.set()
        await asyncio.gather(*self._tasks)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _repeat(self, interval_ms: int, duty: Callable[[], Awaitable[None]]) -> None:
        while not await self._stopped_within(interval_ms):
            try:
                await duty()
            except DiskFault as fault:
                self._failures.disk_failed(fault)
            except LawBroken as broken:
                self._failures.fatal(broken)
            except Exception:
                log.exception("housekeeping failed duty=%s", getattr(duty, "__name__", duty))

    def soon(self, duty: Callable[[], Awaitable[bool]]) -> None:
        """Do this as soon as the loop can, and again until it says that it is done."""
        self._spawn(self._until_done(duty))

    async def _until_done(self, duty: Callable[[], Awaitable[bool]]) -> None:
        while not await duty():
            if await self._stopped_within(AGAIN_MS):
                return

    async def _stopped_within(self, delay_ms: int) -> bool:
        """Wait; returns early, and True, when the duties end."""
        try:
            async with asyncio.timeout(delay_ms / 1000):
                return await self._stopping.wait()
        except TimeoutError:
            return False

    async def _run(self, work: Callable[[], None]) -> bool:
        """Whether blocking work was done; if not its folder, and no other, goes offline."""
        try:
            await self._offload(work)
        except DiskFault as fault:
            self._failures.disk_failed(fault)
            return False
        return True

    # -- the duties ----------------------------------------------------------

    async def flush(self) -> None:
        """Bring onto the medium what the topics' flush properties ask for."""
        for partition_log, flush in self._logs.due_flushes():
            if await self._run(flush.run):
                partition_log.on_flushed(flush, self._clock.now_ms())

    async def retain(self) -> None:
        """Let go of the segments that are too old or too many."""
        for removal in self._logs.due_removals(self._high_watermark):
            log.info("segments deleted folder=%s files=%d", removal.disk.folder, len(removal.paths))
            self.remove_later(removal)

    def _high_watermark(self, partition: TopicPartition) -> Offset:
        replica = self._replicas.get(partition)
        return Offset(0) if replica is None else replica.high_watermark

    def remove_later(self, removal: Removal) -> None:
        """Carry out a removal when its delay is over; readers learn where the log begins now."""
        if removal.partition is not None:
            self._delayed.on_log_start(removal.partition)
        self._spawn(self._remove(removal))

    async def _remove(self, removal: Removal) -> None:
        if not await self._stopped_within(removal.delay_ms):
            await self._run(removal.run)

    async def checkpoint(self) -> None:
        """Write down recovery points, log starts and high watermarks, where they have changed."""
        for write in self._logs.checkpoints(self._replicas.high_watermarks()):
            await self._run(write.run)

    async def expire_producers(self) -> None:
        """Forget the producers that wrote nothing for as long as is configured now."""
        now_ms, expiration_ms = self._clock.now_ms(), self._producer_expiration_ms()
        for partition_log in self._logs:
            partition_log.producers.expiration_ms = expiration_ms
            partition_log.producers.expire(now_ms)

    async def let_go(self) -> None:
        """Have the log's pages count as the page cache's only, and not as this process's memory."""
        for folder in self._logs.folders.values():
            for _ in folder.disk.let_go():
                await asyncio.sleep(0)
