"""The servers' side of the simulated coordination tree: connections that break, and seats.

A seat is what the tree knows of one session: how long ago it was heard of, and the news that it
may not have got yet.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Final, Protocol

from barnabas.base.randomness import Random
from barnabas.znodes.embedded.embedded_tree import EmbeddedSession
from barnabas.znodes.tree import SessionState, Watch, WatchEvent, ZnodeError

Ask = Callable[[EmbeddedSession], Coroutine[Any, Any, Any]]

# Two messages of one direction never arrive at the same instant: a heap has no order then.
_APART_S: Final = 1e-6


class Servers:
    """The machines that the tree is on; made where no host runs, so that they die with none."""

    def __init__(self, random: Random) -> None:
        self.latency_ms = 2.0  # the most that a message takes
        self.is_down = False
        self.cut_off: dict[str, None] = {}
        self._random = random
        self._context = copy_context()
        self._tasks: set[asyncio.Task[None]] = set()

    def reach(self, host: str) -> bool:
        return not self.is_down and host not in self.cut_off

    def delay_s(self) -> float:
        return self._random.below(int(self.latency_ms * 1000) + 1) / 1e6

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, context=self._context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> None:
        asyncio.get_running_loop().call_at(when, callback, *args, context=self._context)


class Connection:
    """What a session and its seat send each other, in order, until either breaks it."""

    def __init__(self, servers: Servers, host: str) -> None:
        self.is_open = servers.reach(host)
        self._servers = servers
        self._near = copy_context()
        self._last_up = self._last_down = 0.0

    def up(self, callback: Callable[..., object], *args: Any) -> None:
        """Towards the tree."""
        self._last_up = at = self._next(self._last_up)
        self._servers.call_at(at, self._arrive, callback, args)

    def down(self, callback: Callable[..., object], *args: Any) -> None:
        """Towards the host, on which it is called."""
        self._last_down = at = self._next(self._last_down)
        loop = asyncio.get_running_loop()
        loop.call_at(at, self._arrive, callback, args, context=self._near)

    def _next(self, last: float) -> float:
        return max(asyncio.get_running_loop().time() + self._servers.delay_s(), last + _APART_S)

    def _arrive(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        if self.is_open:
            callback(*args)


class Near(Protocol):
    """What a seat sends to its session, over a connection."""

    def on_answer(self, number: int, answer: Any, error: Exception | None) -> None: ...

    def on_news(self, number: int, callback: Callable[..., None], args: tuple[Any, ...]) -> None:
        """`number` is one more than that of the news before."""

    def on_sign(self) -> None: ...

    def on_connected(self) -> None:
        """All news that were missed have been told."""

    def on_expired(self) -> None: ...


class Seat:
    """The tree's side of one session; everything here runs on the servers."""

    def __init__(self, servers: Servers, session: EmbeddedSession, timeout_s: float) -> None:
        self.session = session
        self._servers = servers
        self._timeout_s = timeout_s
        self._connection: Connection | None = None
        self._near: Near | None = None
        self._news: deque[tuple[int, Callable[..., None], tuple[Any, ...]]] = deque()
        self._told = 0
        session.listen(self._state_changed)
        self.hear_of()
        self._expire_later(self._heard)

    @property
    def is_alive(self) -> bool:
        return self.session.state is SessionState.CONNECTED

    def hear_of(self) -> None:
        self._heard = asyncio.get_running_loop().time()

    def _expire_later(self, since: float) -> None:
        self._servers.call_at(since + self._timeout_s, self._look, self.session.session_id)

    def _look(self, session_id: int) -> None:
        if not self.is_alive or self.session.session_id != session_id:
            return
        now = asyncio.get_running_loop().time()
        if self._servers.is_down:
            self._expire_later(now)
        elif now - self._heard >= self._timeout_s:
            self._servers.do(self.expire())
        else:
            self._expire_later(self._heard)

    async def expire(self) -> None:
        # Whoever expired is told that, and nothing else.
        self._news.clear()
        await self.session.expire()

    def _state_changed(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED and self._connection and self._near:
            self._connection.down(self._near.on_expired)

    # -- what the session sends ----------------------------------------------

    def on_connect(self, near: Near, connection: Connection, heard: int) -> None:
        """A session wants to go on, on another connection."""
        self._near, self._connection = near, connection
        if not self.is_alive:
            connection.down(near.on_expired)
            return
        self.on_sign(connection, heard)
        for number, callback, args in self._news:
            connection.down(near.on_news, number, callback, args)
        connection.down(near.on_connected)

    def on_sign(self, connection: Connection, heard: int) -> None:
        """A sign of life, with the number of the last news that arrived."""
        self.hear_of()
        while self._news and self._news[0][0] <= heard:
            self._news.popleft()
        if self._near:
            connection.down(self._near.on_sign)

    def on_renew(self, near: Near, connection: Connection, number: int) -> None:
        self._near, self._connection = near, connection
        self.on_ask(connection, number, _renewed)

    def on_ask(self, connection: Connection, number: int, ask: Ask) -> None:
        self.hear_of()
        self._servers.do(self._answer(connection, number, ask))

    async def _answer(self, connection: Connection, number: int, ask: Ask) -> None:
        answer: Any = None
        error: Exception | None = None
        try:
            answer = await ask(self.session)
        except (ZnodeError, ValueError) as failure:
            error = failure
        if ask is _renewed:
            self._expire_later(self._heard)
        if self._near:
            connection.down(self._near.on_answer, number, answer, error)

    def tell(self, callback: Callable[..., None], *args: Any) -> None:
        """News for the session, kept until it is known to have arrived."""
        self._told += 1
        self._news.append((self._told, callback, args))
        if self._near and self._connection:
            self._connection.down(self._near.on_news, self._told, callback, args)


async def _renewed(session: EmbeddedSession) -> int:
    await session.renew()
    return session.session_id


@dataclass(frozen=True, slots=True)
class Watched:
    """A watch of a session's, on its seat; equal to another of the same watch."""

    seat: Seat
    watch: Watch

    def __call__(self, event: WatchEvent) -> None:
        self.seat.tell(self.watch, event)
