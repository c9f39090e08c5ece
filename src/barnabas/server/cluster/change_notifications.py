"""Change notifications: sequential znodes that make all brokers read something again."""

import asyncio
import logging
from contextlib import suppress
from typing import Final, Protocol

from barnabas.base.errors import BarnabasError, LawBroken
from barnabas.znodes import paths
from barnabas.znodes.tree import (
    Coordination,
    DeleteNode,
    MalformedZnode,
    NoNode,
    SessionExpired,
    WatchEvent,
)

log = logging.getLogger("barnabas.configs")

RETRY_S: Final = 0.5
# How many of the last notifications stay for brokers that are slow to read them.
NOTIFICATIONS_KEPT: Final = 100


class Receiver(Protocol):
    """Applies what a notification announces."""

    async def on_change(self, path: str, data: bytes, /) -> None:
        """Raises MalformedZnode, if the notification cannot be read."""
        ...


async def notify(coordination: Coordination, prefix: str, data: bytes) -> None:
    """Announce a change to all brokers; the oldest notifications go."""
    await coordination.create(prefix, data, sequential=True)
    root = prefix.rpartition("/")[0]
    names = await coordination.children(root)
    if old := [f"{root}/{name}" for name in names[:-NOTIFICATIONS_KEPT]]:
        with suppress(NoNode):  # another broker was faster
            await coordination.multi([DeleteNode(path) for path in old])


class ChangeNotifications:
    """Watches the children of `root`, and passes each new one to the receiver, in their order."""

    def __init__(self, coordination: Coordination, root: str, receiver: Receiver) -> None:
        self._coordination = coordination
        self._root = root
        self._receiver = receiver
        self._news = asyncio.Event()
        self._last_seen = -1
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Watch for changes; those announced before are known already."""
        self._last_seen = max((number for number, _ in await self._announced()), default=-1)
        if self._task is None:
            self._task = asyncio.ensure_future(self._follow())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _on_event(self, _: WatchEvent) -> None:
        self._news.set()

    async def _follow(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._read_news()
            except SessionExpired:
                pass  # the next session calls `start` again, and reads all
            except LawBroken:
                raise
            except BarnabasError as e:
                log.warning("reading change notifications again path=%s why=%s", self._root, e)
                await asyncio.sleep(RETRY_S)
                self._news.set()

    async def _read_news(self) -> None:
        for number, name in await self._announced():
            if number > self._last_seen:
                await self._read(f"{self._root}/{name}")
                self._last_seen = number

    async def _announced(self) -> list[tuple[int, str]]:
        """The changes there are, in their order; what is not named as one is not one."""
        names = await self._coordination.children(self._root, self._on_event)
        own = (name for name in names if name.rpartition("_")[2].isdecimal())
        return sorted((paths.sequence_number(name), name) for name in own)

    async def _read(self, path: str) -> None:
        try:
            data, _ = await self._coordination.get(path)
            await self._receiver.on_change(path, data)
        except NoNode:
            pass  # removed as too old
        except MalformedZnode as e:
            log.warning("ignoring an unreadable change notification: %s", e)
