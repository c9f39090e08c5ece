"""The znode tree of a simulated cluster, and sessions with ZooKeeper's failures.

Theory of operation. One tree, on no host, serves all brokers. The client side of a session
(`SimSession`) and the server side (`ServerSession`) exchange messages that take time and arrive in
order. The client sends a heartbeat three times per session timeout; the server expires a session
without heartbeats, so a session also expires when its host is dead, paused or partitioned for that
long. A client without an answer for two thirds of the timeout is SUSPENDED, as a ZooKeeper client:
its requests may or may not have happened, and it reconnects. Watch events lost with a connection
are sent again on the next one.
"""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from barnabas.base.randomness import Random
from barnabas.sim.world.tree_sessions import (
    ServerSession,
    SessionWatch,
    SimTreeConnection,
    TreeServers,
)
from barnabas.znodes.embedded.embedded_tree import EmbeddedSession, Tree
from barnabas.znodes.embedded.relayed_session import Ask, RelayedSession, T
from barnabas.znodes.tree import (
    ConnectionLoss,
    SessionExpired,
    SessionState,
    Watch,
    ZnodeError,
)


class Ensemble:
    """The tree, its servers, and the current session of each host, with their faults."""

    def __init__(self, random: Random, session_timeout_s: float = 6.0) -> None:
        self.tree = Tree()
        self.own = self.tree.session()  # for the simulation itself, which is never suspended
        self.servers = TreeServers(random)
        self._timeout_s = session_timeout_s
        self._sessions: dict[str, SimSession] = {}

    def session(self, host: str) -> "SimSession":
        """Open a session for the calling host."""
        server_side = ServerSession(self.servers, self.tree.session(), self._timeout_s)
        self._sessions[host] = session = SimSession(
            self.servers, host, server_side, self._timeout_s
        )
        return session

    def cut(self, host: str) -> None:
        """Partition a host from the tree; it notices after a while."""
        self.servers.cut_off[host] = None
        if host in self._sessions:
            self._sessions[host].connection.is_open = False

    def heal(self, host: str) -> None:
        """End the partition; the host reconnects at once."""
        if host in self.servers.cut_off:
            del self.servers.cut_off[host]
            self.disconnect(host)

    def disconnect(self, host: str) -> None:
        """Close the connection for both sides; the host reconnects at once."""
        if host in self._sessions:
            self._sessions[host].break_off()

    def stop(self) -> None:
        """Stop serving. Sessions do not expire meanwhile."""
        self.servers.is_down = True
        for host in self._sessions:
            self.disconnect(host)

    def start(self) -> None:
        """Serve again; every session gets its full timeout to reconnect."""
        self.servers.is_down = False
        for session in self._sessions.values():
            session.server_side.touch()

    def expire(self, host: str) -> None:
        """Expire the host's session."""
        if host in self._sessions:
            self.servers.do(self._sessions[host].server_side.expire())


class SimSession(RelayedSession):
    """The client side of a session: Coordination over connections that break."""

    def __init__(
        self, servers: TreeServers, host: str, server_side: ServerSession, timeout_s: float
    ) -> None:
        super().__init__(server_side.session.session_id)
        self.server_side = server_side
        self._servers = servers
        self._host = host
        self._timeout_s = timeout_s
        self._waiting: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        self._asked = 0
        self._last_event = 0
        self._is_closed = False
        self._context = copy_context()
        self.connection = SimTreeConnection(servers, host)
        self._connect()
        self._beat()

    async def renew(self) -> None:
        """Open a new session. Raises ConnectionLoss if the tree does not answer in time."""
        if self._state is not SessionState.EXPIRED:
            return
        self._reconnect()
        number, answer = self._expect("/")
        self.connection.up(self.server_side.on_renew, self, self.connection, number)
        try:
            async with asyncio.timeout(self._timeout_s / 3):
                await answer
        except TimeoutError:
            raise ConnectionLoss("/", "no answer") from None
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        self._listeners.clear()
        if self._state is SessionState.CONNECTED:
            await self._ask("/", EmbeddedSession.close)
        self._is_closed = True
        self._enter(SessionState.EXPIRED)

    # -- requests ------------------------------------------------------------

    async def _ask(self, path: str, ask: Ask[T]) -> T:
        if self._state is SessionState.EXPIRED:
            raise SessionExpired(path, f"session {self._id} is over")
        if self._state is SessionState.SUSPENDED:
            raise ConnectionLoss(path, "not connected")
        number, answer = self._expect(path)
        self.connection.up(self.server_side.on_ask, self.connection, number, ask)
        answered: T = await answer
        return answered

    def _expect(self, path: str) -> tuple[int, "asyncio.Future[Any]"]:
        self._asked += 1
        answer = asyncio.get_running_loop().create_future()
        self._waiting[self._asked] = path, answer
        return self._asked, answer

    def _relayed(self, watch: Watch) -> Watch:
        return SessionWatch(self.server_side, watch)

    # -- messages from the server side ---------------------------------------

    def on_answer(self, number: int, answer: Any, error: Exception | None) -> None:
        self.on_heartbeat()
        _, future = self._waiting.pop(number, ("", None))
        if future is None or future.done():
            return  # the caller was cancelled
        if error is not None:
            future.set_exception(error)
            return
        future.set_result(answer)
        if self._state is SessionState.EXPIRED:  # only `renew` can be requested then
            self._id = answer
            self._enter(SessionState.CONNECTED)

    def on_event(self, number: int, callback: Callable[..., None], args: tuple[Any, ...]) -> None:
        if number > self._last_event and self._state is not SessionState.EXPIRED:
            self._last_event = number
            callback(*args)

    def on_heartbeat(self) -> None:
        self._heard = asyncio.get_running_loop().time()

    def on_connected(self) -> None:
        self.on_heartbeat()
        if self._state is SessionState.SUSPENDED:
            self._enter(SessionState.CONNECTED)

    def on_expired(self) -> None:
        self._enter(SessionState.EXPIRED)

    # -- connection and heartbeats -------------------------------------------

    def break_off(self) -> None:
        """Close the connection for both sides; called by the simulation."""
        self.connection.is_open = False
        loop = asyncio.get_running_loop()
        loop.call_soon(self._lost, self.connection, context=self._context)

    def _lost(self, connection: SimTreeConnection) -> None:
        if connection is self.connection and self._state is not SessionState.EXPIRED:
            self._enter(SessionState.SUSPENDED)
            self._connect()

    def _reconnect(self) -> None:
        self.connection.is_open = False
        self.connection = SimTreeConnection(self._servers, self._host)

    def _connect(self) -> None:
        """Continue the session on a new connection."""
        self._reconnect()
        self.on_heartbeat()
        self.connection.up(self.server_side.on_connect, self, self.connection, self._last_event)

    def _beat(self) -> None:
        """Send a heartbeat, and check that the server answers them."""
        if self._is_closed:
            return
        loop = asyncio.get_running_loop()
        loop.call_later(self._timeout_s / 3, self._beat)
        is_connected = self._state is SessionState.CONNECTED
        if not is_connected or loop.time() - self._heard > self._timeout_s * 0.6:
            self._lost(self.connection)
        else:
            self.connection.up(self.server_side.on_heartbeat, self.connection, self._last_event)

    def _enter(self, state: SessionState) -> None:
        if state is self._state:
            return
        self._state = state
        if state is not SessionState.CONNECTED:
            self._fail_waiting(
                ConnectionLoss if state is SessionState.SUSPENDED else SessionExpired
            )
        for listener in list(self._listeners):
            listener(state)

    def _fail_waiting(self, error: type[ZnodeError]) -> None:
        waiting, self._waiting = self._waiting, {}
        for path, future in waiting.values():
            if not future.done():
                future.set_exception(error(path, "the answer was lost"))
