"""One session with the tree: calls wait for a lost connection, then are repeated.

A change whose response was lost may have been made. So callers must expect their own change when
a call is repeated: a newer version, a node that exists, a node that is gone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from barnabas.znodes.tree import ConnectionLoss, Coordination, SessionExpired, SessionState

T = TypeVar("T")
# The connection can be lost and restored before its state changes here.
_RETRY_S: Final = 0.1
# Calls in flight at once: enough to fill the connection, few enough to be fair.
PIPELINED: Final = 500


class TreeConnection:
    """The connection to the tree, shared by all sessions in turn."""

    def __init__(self, coordination: Coordination) -> None:
        self.coordination = coordination
        self._settled = asyncio.Event()
        self._on_state(coordination.state)
        coordination.listen(self._on_state)

    def session(self) -> "TreeSession":
        return TreeSession(self.coordination, self.settled)

    async def settled(self) -> None:
        """Suspend until the session is known to be connected or expired."""
        await asyncio.sleep(_RETRY_S)
        await self._settled.wait()

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.SUSPENDED:
            self._settled.clear()
        else:
            self._settled.set()


class TreeSession:
    """The current session. When it is over every call raises SessionExpired.

    That holds even after a new session began: work of one session must not continue in another.
    """

    def __init__(self, coordination: Coordination, settled: Callable[[], Awaitable[None]]) -> None:
        self.tree = coordination
        self.session_id = coordination.session_id
        self._settled = settled

    @property
    def is_over(self) -> bool:
        return self.tree.session_id != self.session_id or self.tree.state is SessionState.EXPIRED

    async def call(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call, and repeat the call after each lost connection. Raises SessionExpired."""
        while True:
            if self.is_over:
                raise SessionExpired("/", f"session {self.session_id} is over")
            try:
                return await call()
            except ConnectionLoss:
                await self._settled()


async def pipelined(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Await all, many at once. Raises the first error once no call is in flight."""
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
