"""One session's watches and callbacks, fired on the event loop in the order of the events."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from barnabas.znodes.tree import EventKind, Watch, WatchEvent

T = TypeVar("T")
_Table: TypeAlias = dict[str, dict[Watch, None]]


class Watches:
    """The watches that are set, and the callbacks that are scheduled."""

    def __init__(self) -> None:
        self._on_data: _Table = {}
        self._on_children: _Table = {}
        self._on_the_way = 0
        self._arrived = asyncio.Event()

    def on_data(self, path: str, watch: Watch | None) -> None:
        if watch is not None:
            self._on_data.setdefault(path, {})[watch] = None

    def on_children(self, path: str, watch: Watch | None) -> None:
        if watch is not None:
            self._on_children.setdefault(path, {})[watch] = None

    def notify(self, event: WatchEvent) -> None:
        """Remove the watches for this event and schedule their calls."""
        called: dict[Watch, None] = {}
        if event.kind is not EventKind.CHILDREN:
            called |= self._on_data.pop(event.path, {})
        if event.kind in (EventKind.CHILDREN, EventKind.DELETED):
            called |= self._on_children.pop(event.path, {})
        for watch in called:
            self.post(watch, event)

    def post(self, callback: Callable[[T], None], news: T) -> None:
        """Schedule a call on the loop, after all calls posted before."""
        self._on_the_way += 1
        self._arrived.clear()
        asyncio.get_running_loop().call_soon(self._deliver, callback, news)

    async def settled(self) -> None:
        """Suspend until all posted calls are made; does not suspend if they are."""
        while self._on_the_way:
            await self._arrived.wait()

    def drop(self) -> None:
        """Remove all watches; posted calls are still made."""
        self._on_data.clear()
        self._on_children.clear()

    def _deliver(self, callback: Callable[[T], None], news: T) -> None:
        self._on_the_way -= 1
        if not self._on_the_way:
            self._arrived.set()
        callback(news)
