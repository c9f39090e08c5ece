"""The server side of the simulated znode tree: connections that break, and sessions.

A `ServerSession` holds the time of the session's last heartbeat, and the watch events that the
client may not have received.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Final, Protocol

from barnabas.base.randomness import Random
from barnabas.znodes.embedded.embedded_tree import EmbeddedSession
from barnabas.znodes.embedded.relayed_session import Ask
from barnabas.znodes.tree import SessionState, Watch, WatchEvent, ZnodeError

# Two messages of one direction never arrive at the same instant.
_APART_S: Final = 1e-6


class TreeServers:
    """The servers of the tree. Created outside of any host, so that no crash affects them."""

    def __init__(self, random: Random) -> None:
        self.latency_ms = 2.0  # maximum
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


class SimTreeConnection:
    """An ordered connection between both sides of a session, until it breaks."""

    def __init__(self, servers: TreeServers, host: str) -> None:
        self.is_open = servers.reach(host)
        self._servers = servers
        self._client = copy_context()
        self._last_up = self._last_down = 0.0

    def up(self, callback: Callable[..., object], *args: Any) -> None:
        """Send a message to the server."""
        self._last_up = at = self._next(self._last_up)
        self._servers.call_at(at, self._arrive, callback, args)

    def down(self, callback: Callable[..., object], *args: Any) -> None:
        """Send a message to the client; it runs on the client's host."""
        self._last_down = at = self._next(self._last_down)
        loop = asyncio.get_running_loop()
        loop.call_at(at, self._arrive, callback, args, context=self._client)

    def _next(self, last: float) -> float:
        return max(asyncio.get_running_loop().time() + self._servers.delay_s(), last + _APART_S)

    def _arrive(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        if self.is_open:
            callback(*args)


class SessionClient(Protocol):
    """The messages from the server side to the client side of a session."""

    def on_answer(self, number: int, answer: Any, error: Exception | None) -> None: ...

    def on_event(self, number: int, callback: Callable[..., None], args: tuple[Any, ...]) -> None:
        """A watch event; `number` is one more than that of the event before."""

    def on_heartbeat(self) -> None: ...

    def on_connected(self) -> None:
        """Connected; all missed watch events have been sent."""

    def on_expired(self) -> None: ...


class ServerSession:
    """The server side of one session; runs on the servers."""

    def __init__(self, servers: TreeServers, session: EmbeddedSession, timeout_s: float) -> None:
        self.session = session
        self._servers = servers
        self._timeout_s = timeout_s
        self._connection: SimTreeConnection | None = None
        self._client: SessionClient | None = None
        self._events: deque[tuple[int, Callable[..., None], tuple[Any, ...]]] = deque()
        self._sent = 0
        session.listen(self._state_changed)
        self.touch()
        self._expire_later(self._heard)

    @property
    def is_alive(self) -> bool:
        return self.session.state is SessionState.CONNECTED

    def touch(self) -> None:
        self._heard = asyncio.get_running_loop().time()

    def _expire_later(self, since: float) -> None:
        self._servers.call_at(since + self._timeout_s, self._check_timeout, self.session.session_id)

    def _check_timeout(self, session_id: int) -> None:
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
        # An expired session gets no more watch events.
        self._events.clear()
        await self.session.expire()

    def _state_changed(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED and self._connection and self._client:
            self._connection.down(self._client.on_expired)

    # -- messages from the client side ---------------------------------------

    def on_connect(self, client: SessionClient, connection: SimTreeConnection, heard: int) -> None:
        """Continue the session on a new connection."""
        self._client, self._connection = client, connection
        if not self.is_alive:
            connection.down(client.on_expired)
            return
        self.on_heartbeat(connection, heard)
        for number, callback, args in self._events:
            connection.down(client.on_event, number, callback, args)
        connection.down(client.on_connected)

    def on_heartbeat(self, connection: SimTreeConnection, heard: int) -> None:
        """A heartbeat, with the number of the last watch event received."""
        self.touch()
        while self._events and self._events[0][0] <= heard:
            self._events.popleft()
        if self._client:
            connection.down(self._client.on_heartbeat)

    def on_renew(self, client: SessionClient, connection: SimTreeConnection, number: int) -> None:
        self._client, self._connection = client, connection
        self.on_ask(connection, number, _renewed)

    def on_ask(self, connection: SimTreeConnection, number: int, ask: Ask[Any]) -> None:
        self.touch()
        self._servers.do(self._answer(connection, number, ask))

    async def _answer(self, connection: SimTreeConnection, number: int, ask: Ask[Any]) -> None:
        answer: Any = None
        error: Exception | None = None
        try:
            answer = await ask(self.session)
        except (ZnodeError, ValueError) as failure:
            error = failure
        if ask is _renewed:
            self._expire_later(self._heard)
        if self._client:
            connection.down(self._client.on_answer, number, answer, error)

    def send_event(self, callback: Callable[..., None], *args: Any) -> None:
        """Send a watch event, and keep it until the client confirms it."""
        self._sent += 1
        self._events.append((self._sent, callback, args))
        if self._client and self._connection:
            self._connection.down(self._client.on_event, self._sent, callback, args)


async def _renewed(session: EmbeddedSession) -> int:
    await session.renew()
    return session.session_id


@dataclass(frozen=True, slots=True)
class SessionWatch:
    """A watch of one session; equal to another of the same session and watch."""

    server_side: ServerSession
    watch: Watch

    def __call__(self, event: WatchEvent) -> None:
        self.server_side.send_event(self.watch, event)
