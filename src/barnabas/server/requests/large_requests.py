"""Large requests: how many of them are decoded and answered at a time.

As objects a request takes ten times its bytes and more, and its response about as much. So large
requests take their turn, in lanes, each in order of arrival: those of hundreds of partitions do not
wait behind those of thousands, nor these behind those of a hundred thousand. A request that waits
for something else, such as a CreateTopics for leaders, keeps its turn for a bounded time. Those
among brokers wait for nobody.
"""

import asyncio
from collections import deque
from typing import Final

# In bytes as they are sent. Requests beyond VERY_LARGE go one at a time.
LESS_LARGE: Final = 32 * 1024
VERY_LARGE: Final = 1024 * 1024
MOST_AT_ONCE: Final = 8 * 1024 * 1024
LONGEST_SECONDS: Final = 5.0
_UNLIMITED: Final = 2**62


class LargeRequests:
    """Lets large requests begin in turn."""

    def __init__(self) -> None:
        self._less_large = _Lane(MOST_AT_ONCE)
        self._large = _Lane(MOST_AT_ONCE)
        self._very_large = _Lane(0)
        self._among_brokers = _Lane(_UNLIMITED)

    def turn(self, size: int, *, among_brokers: bool = False) -> "LargeTurn":
        """The turn of a request of `size` bytes, behind those that came before."""
        if among_brokers:
            return LargeTurn(self._among_brokers, size)
        if size <= LESS_LARGE:
            return LargeTurn(self._less_large, size)
        return LargeTurn(self._large if size <= VERY_LARGE else self._very_large, size)


class LargeTurn:
    """The turn of one request. It ends by itself when it lasts too long."""

    def __init__(self, lane: "_Lane", size: int) -> None:
        loop = asyncio.get_running_loop()
        self.size = size
        self._lane = lane
        self._has_begun: asyncio.Future[None] = loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        lane.enter(self)

    async def begun(self) -> None:
        """Wait until it begins. Raises CancelledError, if `abandon` was called before."""
        await self._has_begun

    def abandon(self) -> None:
        """The client is gone: do not begin."""
        self._has_begun.cancel()

    @property
    def is_abandoned(self) -> bool:
        return self._has_begun.cancelled()

    def begin(self) -> None:
        self._has_begun.set_result(None)
        self._timer = asyncio.get_running_loop().call_later(LONGEST_SECONDS, self.end)

    def end(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            self._lane.give_back(self.size)


class _Lane:
    """At most `limit` bytes at a time, or one request."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._waiting: deque[LargeTurn] = deque()

    def enter(self, turn: LargeTurn) -> None:
        self._waiting.append(turn)
        self._let_in()

    def give_back(self, size: int) -> None:
        self._taken -= size
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting:
            turn = self._waiting[0]
            if turn.is_abandoned:
                self._waiting.popleft()
                continue
            if self._taken and self._taken + turn.size > self._limit:
                break
            self._waiting.popleft()
            self._taken += turn.size
            turn.begin()
