"""The tasks that one part of a broker runs in the background, and their common end."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class BackgroundTasks:
    """Runs tasks until `stop`; a task waits by `stops_within`, which ends early then."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stops_within(self, delay_ms: int) -> bool:
        """Wait; return True, and early, when the tasks have to stop."""
        try:
            async with asyncio.timeout(delay_ms / 1000):
                return await self._stopping.wait()
        except TimeoutError:
            return False

    async def stop(self) -> None:
        """Return when no task runs, nor a thread for one: others may write the same files next."""
        self._stopping.set()
        await asyncio.gather(*self._tasks)
