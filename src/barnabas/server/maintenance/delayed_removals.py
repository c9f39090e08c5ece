"""Files of deleted segments and logs, removed once `file.delete.delay.ms` is over."""

from barnabas.base.errors import DiskFault
from barnabas.base.failures import FailureChannel
from barnabas.base.offload import Offload
from barnabas.log.background_work import Removal
from barnabas.server.delayed.partition_purgatories import Delayed
from barnabas.server.maintenance.background_tasks import BackgroundTasks


class DelayedRemovals:
    """Removes files on a thread; the next start removes those that were not due before `stop`."""

    def __init__(self, delayed: Delayed, offload: Offload, failures: FailureChannel) -> None:
        self._delayed = delayed
        self._offload = offload
        self._failures = failures
        self._tasks = BackgroundTasks()

    def remove_later(self, removal: Removal) -> None:
        """Schedule a removal, and wake the readers that must learn the new log start."""
        if removal.partition is not None:
            self._delayed.on_log_start(removal.partition)
        self._tasks.spawn(self._remove(removal))

    async def _remove(self, removal: Removal) -> None:
        if await self._tasks.stops_within(removal.delay_ms):
            return
        try:
            await self._offload(removal.run)
        except DiskFault as fault:
            self._failures.disk_failed(fault)

    async def stop(self) -> None:
        await self._tasks.stop()
