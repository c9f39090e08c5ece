"""The controller's event queue, and the outcomes of the last events.

A request is queued with its future, which is settled exactly once: by the handler, or with
NOT_CONTROLLER when the controller resigns.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.controller.events import Event

_REMEMBERED: Final = 50


@dataclass(slots=True)
class QueuedEvent:
    """An event in the queue; `since` is the loop time at which it was queued."""

    event: Event
    since: float
    answer: "asyncio.Future[Any] | None" = None

    def settle(self, result: object) -> None:
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(result)

    def refuse(self, error: BrokerError | None = None) -> None:
        """Fail the request, by default with NOT_CONTROLLER; a no-op if it is settled."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(error or BrokerError(ErrorCode.not_controller))


class HandledEvent(NamedTuple):
    """The record of one handled event."""

    time_ms: int
    event: str
    took_ms: int
    outcome: str


class EventQueue:
    """First in, first out, except for the event that voids all others."""

    def __init__(self) -> None:
        self._entries: deque[QueuedEvent] = deque()
        self._filled = asyncio.Event()
        self.handled: deque[HandledEvent] = deque(maxlen=_REMEMBERED)

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, event: Event, *, first: bool = False) -> None:
        self._add(QueuedEvent(event, asyncio.get_running_loop().time()), first)

    def ask(self, event: Event) -> "asyncio.Future[Any]":
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._add(QueuedEvent(event, loop.time(), answer), first=False)
        return answer

    def _add(self, entry: QueuedEvent, first: bool) -> None:
        (self._entries.appendleft if first else self._entries.append)(entry)
        self._filled.set()

    async def take(self) -> QueuedEvent:
        while not self._entries:
            self._filled.clear()
            await self._filled.wait()
        return self._entries.popleft()

    def keep_only(self, kinds: tuple[type[Event], ...]) -> None:
        """Refuse all other events: their controller has resigned."""
        kept = deque(each for each in self._entries if isinstance(each.event, kinds))
        for entry in self._entries:
            if not isinstance(entry.event, kinds):
                entry.refuse()
        self._entries = kept

    def oldest_ms(self) -> int:
        """How long the oldest event has waited."""
        if not self._entries:
            return 0
        now = asyncio.get_running_loop().time()
        return max(int(1000 * (now - entry.since)) for entry in self._entries)
