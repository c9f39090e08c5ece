"""The one queue of events, and what has come of the last of them.

An event that a client waits for stands here with its future. It is settled exactly once: by its
handler, or with NOT_CONTROLLER when this controller is no more.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.controller.events import Event

_REMEMBERED: Final = 50


@dataclass(slots=True)
class Entry:
    """An event in the queue; `since` is the loop's time when it came."""

    event: Event
    since: float
    answer: "asyncio.Future[Any] | None" = None

    def settle(self, result: object) -> None:
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(result)

    def refuse(self, error: BrokerError | None = None) -> None:
        """Does nothing if the entry is settled already."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(error or BrokerError(ErrorCode.not_controller))


class Handled(NamedTuple):
    """One line of the controller's memory."""

    time_ms: int
    event: str
    took_ms: int
    outcome: str


class EventQueue:
    """First in, first out; but what says that all the others are void goes first."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._filled = asyncio.Event()
        self.handled: deque[Handled] = deque(maxlen=_REMEMBERED)

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, event: Event, *, first: bool = False) -> None:
        self._add(Entry(event, asyncio.get_running_loop().time()), first)

    def ask(self, event: Event) -> "asyncio.Future[Any]":
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._add(Entry(event, loop.time(), answer), first=False)
        return answer

    def _add(self, entry: Entry, first: bool) -> None:
        (self._entries.appendleft if first else self._entries.append)(entry)
        self._filled.set()

    async def take(self) -> Entry:
        while not self._entries:
            self._filled.clear()
            await self._filled.wait()
        return self._entries.popleft()

    def keep_only(self, kinds: tuple[type[Event], ...]) -> None:
        """Refuse all other events, which were for a controller that is no more."""
        kept = deque(each for each in self._entries if isinstance(each.event, kinds))
        for entry in self._entries:
            if not isinstance(entry.event, kinds):
                entry.refuse()
        self._entries = kept

    def oldest_ms(self) -> int:
        """How long the oldest event waits."""
        if not self._entries:
            return 0
        now = asyncio.get_running_loop().time()
        return max(int(1000 * (now - entry.since)) for entry in self._entries)
