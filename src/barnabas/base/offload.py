"""Blocking work (fsync, cold reads, deletions), done away from the loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Offload(Protocol):
    """Runs a blocking call somewhere else and resumes here with its result or its exception."""

    async def __call__(self, work: Callable[[], T], /) -> T: ...


class ThreadOffload:
    """Offloads to a thread pool that the composer owns and shuts down."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def __call__(self, work: Callable[[], T], /) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)


class InlineOffload:
    """Runs the work here and now: for tools, tests and the simulation."""

    async def __call__(self, work: Callable[[], T], /) -> T:
        return work()
