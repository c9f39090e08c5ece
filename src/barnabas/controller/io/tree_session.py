"""One session with the tree, over any number of lost connections: calls wait, and are made again.

A change whose answer was lost may have happened. So whoever calls here must be able to meet its
own work: a version that has moved on, a node that is there already, a node that is gone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from barnabas.znodes.tree import ConnectionLoss, Coordination, SessionExpired, SessionState

T = TypeVar("T")
# The connection can be lost and back before we hear that it was lost.
_RETRY_S: Final = 0.1
# How many calls are under way at once: enough to fill the connection, few enough to be fair.
PIPELINED: Final = 500


class Connection:
    """Knows whether the tree can be reached; made once, for all sessions to come."""

    def __init__(self, coordination: Coordination) -> None:
        self.coordination = coordination
        self._settled = asyncio.Event()
        self._on_state(coordination.state)
        coordination.listen(self._on_state)

    def session(self) -> "Session":
        return Session(self.coordination, self.settled)

    async def settled(self) -> None:
        """Suspend until the session is known to live or known to be over."""
        await asyncio.sleep(_RETRY_S)
        await self._settled.wait()

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.SUSPENDED:
            self._settled.clear()
        else:
            self._settled.set()


class Session:
    """The session that is now. When it is over every call raises SessionExpired, also if there
    is a new one by then: what was begun in one session must not be finished in another."""

    def __init__(self, coordination: Coordination, settled: Callable[[], Awaitable[None]]) -> None:
        self.tree = coordination
        self.session_id = coordination.session_id
        self._settled = settled

    @property
    def is_over(self) -> bool:
        return self.tree.session_id != self.session_id or self.tree.state is SessionState.EXPIRED

    async def call(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make the call, again after each lost connection. Raises SessionExpired."""
        while True:
            if self.is_over:
                raise SessionExpired("/", f"session {self.session_id} is over")
            try:
                return await call()
            except ConnectionLoss:
                await self._settled()


async def pipelined(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Await all, many at once. Raises the first error, when none is under way any more."""
    waiting, results = list(calls), list[T]()
    for start in range(0, len(waiting), PIPELINED):
        chunk = waiting[start : start + PIPELINED]
        for result in await asyncio.gather(*chunk, return_exceptions=True):
            if isinstance(result, BaseException):
                _abandon(waiting[start + PIPELINED :])
                raise result
            results.append(result)
    return results


def _abandon(calls: Iterable[Awaitable[T]]) -> None:
    for call in calls:
        if asyncio.iscoroutine(call):
            call.close()
