"""A session whose requests are relayed to an embedded tree elsewhere: another loop, or a network.

It knows the tree only by messages: a subclass carries a request to the session at the tree's side,
and events of a watch back.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from barnabas.znodes.embedded.embedded_tree import EmbeddedSession
from barnabas.znodes.tree import (
    ANY_VERSION,
    Operation,
    Result,
    SessionState,
    Stat,
    StateListener,
    Watch,
)

T = TypeVar("T")
Ask = Callable[[EmbeddedSession], Coroutine[Any, Any, T]]


class RelayedSession(ABC):
    """The part of Coordination that is the same however requests are carried."""

    def __init__(self, session_id: int) -> None:
        self._listeners: list[StateListener] = []
        self._id = session_id
        self._state = SessionState.CONNECTED

    @abstractmethod
    async def _ask(self, path: str, ask: Ask[T]) -> T:
        """The result of `ask` at the tree's side; `path` is for the error of a lost answer."""

    @abstractmethod
    def _relayed(self, watch: Watch) -> Watch:
        """The watch to set at the tree's side; equal to another of the same watch."""

    @property
    def session_id(self) -> int:
        return self._id

    @property
    def state(self) -> SessionState:
        return self._state

    def listen(self, listener: StateListener, /) -> None:
        self._listeners.append(listener)

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
    ) -> str:
        def ask(session: EmbeddedSession) -> Coroutine[Any, Any, str]:
            return session.create(
                path, data, ephemeral=ephemeral, sequential=sequential, make_parents=make_parents
            )

        return await self._ask(path, ask)

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        return await self._ask(path, lambda session: session.get(path, self._far(watch)))

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        return await self._ask("/", lambda session: session.get_many(paths))

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        return await self._ask(path, lambda session: session.exists(path, self._far(watch)))

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        return await self._ask(path, lambda session: session.children(path, self._far(watch)))

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        return await self._ask(path, lambda session: session.set(path, data, version))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        return await self._ask(path, lambda session: session.delete(path, version))

    async def multi(self, operations: Sequence[Operation], /) -> list[Result]:
        path = operations[0].path if operations else "/"
        return await self._ask(path, lambda session: session.multi(operations))

    def _far(self, watch: Watch | None) -> Watch | None:
        return None if watch is None else self._relayed(watch)
