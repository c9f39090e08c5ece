"""A tree session that a test can block before or after a transaction, or make lose a response."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from barnabas.znodes.embedded.embedded_tree import EmbeddedSession, Tree
from barnabas.znodes.tree import ConnectionLoss, Operation, Result, SessionState

Gate: TypeAlias = Callable[[Sequence[Operation]], Awaitable[None]]


async def open_gate(operations: Sequence[Operation]) -> None:
    """Pass at once."""


class GatedSession(EmbeddedSession):
    """Awaits `before` and `after` around every transaction; counts them."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self.before: Gate = open_gate
        self.after: Gate = open_gate
        self.transactions = 0

    async def multi(self, operations: Sequence[Operation], /) -> list[Result]:
        self.transactions += 1
        await self.before(operations)
        results = await super().multi(operations)
        await self.after(operations)
        return results

    def suspend(self) -> None:
        self._enter(SessionState.SUSPENDED)

    def reconnect(self) -> None:
        self._enter(SessionState.CONNECTED)


def once(gate: Gate, when: Callable[[Sequence[Operation]], bool] = lambda _: True) -> Gate:
    """A gate for the first transaction for which `when` holds; all others pass."""
    used = False

    async def guarded(operations: Sequence[Operation]) -> None:
        nonlocal used
        if not used and when(operations):
            used = True
            await gate(operations)

    return guarded


async def lose(operations: Sequence[Operation]) -> None:
    """Lose the connection."""
    raise ConnectionLoss(operations[0].path)


def touches(path: str) -> Callable[[Sequence[Operation]], bool]:
    return lambda operations: any(each.path == path for each in operations)
