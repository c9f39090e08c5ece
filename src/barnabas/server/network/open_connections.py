"""The open connections of a broker: admitted within quotas, closed when idle, stalled or at the
end.
"""

import asyncio
import heapq
from typing import Final

from barnabas.base.flood_log import FloodLog
from barnabas.base.freed_memory import return_freed_memory
from barnabas.purgatory.timer import Timer
from barnabas.purgatory.timing_wheel import NEVER_MS, TimerTask
from barnabas.server.network.connection import Connection
from barnabas.server.network.connection_quotas import Admission, ConnectionQuotas, Limits
from barnabas.server.network.request_memory import RequestMemory

# How long a stopping broker waits for clients to read their last responses.
GRACE_SECONDS: Final = 5.0
# How often the connections that hold memory are checked, and what they must receive meanwhile.
STALL_CHECK_MS: Final = 1_000
LEAST_PROGRESS: Final = 64 * 1024
# Their memory is returned to the system once so many connections have ended, after this time.
MANY_LOST: Final = 1_000
RETURN_MEMORY_MS: Final = 2_000


class OpenConnections:
    """A connection enters when it is accepted, and leaves when it is lost."""

    def __init__(self, quotas: ConnectionQuotas, timer: Timer) -> None:
        self._quotas = quotas
        self._timer = timer
        self._idle_watches: dict[Connection, _IdleWatch] = {}
        self.memory = RequestMemory(quotas.limits.queued_max_request_bytes)
        self._stall_watch = _StallWatch(self.memory, quotas.limits.receive_stall_timeout_ms, timer)
        self._lost = _LostConnections(timer)
        self.floods = FloodLog()
        # Of connections whose TLS handshakes have not ended, the addresses.
        self._handshakes: dict[Connection, str] = {}
        self._all_gone = asyncio.Event()
        self._closing = False

    def __len__(self) -> int:
        return len(self._idle_watches)

    def admit(self, connection: Connection) -> str | None:
        """Add a connection; returns why it must close, or None."""
        limits = self._quotas.limits
        watch = _IdleWatch(
            connection,
            limits.connections_max_idle_ms,
            limits.receive_stall_timeout_ms,
            self._timer,
        )
        self._idle_watches[connection] = watch
        entry = Admission()
        if self._handshakes.pop(connection, None) is None:
            entry = self._quotas.enter(connection.host, connection.listener, connection.now())
        if self._closing:
            return "the broker stops"
        if entry.refusal is not None and not entry.close_after_ms:
            return entry.refusal
        watch.arm()
        self.close_excess()
        if entry.refusal is not None:
            connection.close_later(entry.close_after_ms, entry.refusal)
        elif entry.delay_ms:
            connection.throttle(entry.delay_ms)
        return None

    def begin_handshake(self, connection: Connection, host: str) -> Admission:
        """Count a connection that is not made before its TLS handshake has ended."""
        self._handshakes[connection] = host
        return self._quotas.enter(host, connection.listener, connection.now())

    def end_handshake(self, connection: Connection) -> None:
        """Count the connection no more, unless it was admitted."""
        host = self._handshakes.pop(connection, None)
        if host is not None:
            self._quotas.remove(host, connection.listener)

    def close_excess(self) -> None:
        """Close the clients' connections that were used least recently, as many as there are
        beyond `max.connections`: a broker connected, or it was lowered.
        """
        excess = self._quotas.excess
        if not excess:
            return
        protected = self._quotas.limits.protected_listener
        others = [each for each in self._idle_watches if each.listener != protected]
        staying = [each for each in others if not each.is_closing]
        count = excess - (len(others) - len(staying))
        for each in heapq.nsmallest(count, staying, key=lambda each: each.last_active):
            each.close(f"max.connections={self._quotas.limits.max_connections} is exceeded")

    async def follow(self, limits: Limits) -> None:
        """Use these limits from now on. Raises ConfigError, nothing changed."""
        await self._quotas.follow(limits)
        self.close_excess()

    def lost(self, connection: Connection) -> None:
        self._timer.cancel(self._idle_watches.pop(connection))
        self._stall_watch.discard(connection)
        self._quotas.remove(connection.host, connection.listener)
        self._lost.count()
        if not self._idle_watches:
            self._all_gone.set()

    def log_once(self, connection: Connection, message: str, *facts: object) -> None:
        """See `flood_log`."""
        self.floods.info(connection.host, connection.now(), message, *facts)

    def forget_shortcuts(self) -> None:
        """Serve the next request of every connection the long way: rights or quotas changed."""
        for connection in self._idle_watches:
            connection.forget()
            if connection.fetches is not None:
                connection.fetches.reconsider()

    def watch(self, connection: Connection) -> None:
        """Close the connection if it stalls: it holds memory, or is about to."""
        self._stall_watch.add(connection)

    async def close(self) -> None:
        """Close all connections once their last responses are sent; abort them after a while."""
        self._closing = True
        for connection in list(self._idle_watches):
            connection.close_quietly()
        if self._idle_watches:
            self._all_gone.clear()
            abort = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._abort_all)
            await self._all_gone.wait()
            abort.cancel()

    def _abort_all(self) -> None:
        for connection in list(self._idle_watches):
            connection.abort()


class _LostConnections(TimerTask):
    """Returns the memory of connections that ended to the system, of many at once."""

    __slots__ = ("_count", "_timer")

    def __init__(self, timer: Timer) -> None:
        super().__init__()
        self._timer = timer
        self._count = 0

    def count(self) -> None:
        self._count += 1
        if self._count == MANY_LOST:
            self._timer.add(self, RETURN_MEMORY_MS)

    def run(self) -> None:
        self._count = 0
        return_freed_memory()


class _IdleWatch(TimerTask):
    """Checks a connection when it could have been idle too long, and again if it was not.

    A client that stalls within a small request has less time than one that sends none.
    """

    __slots__ = ("_connection", "_max_idle_ms", "_max_stall_ms", "_timer")

    def __init__(
        self, connection: Connection, max_idle_ms: int, max_stall_ms: int, timer: Timer
    ) -> None:
        super().__init__()
        self._connection = connection
        self._max_idle_ms = max_idle_ms if max_idle_ms >= 0 else NEVER_MS
        self._max_stall_ms = max_stall_ms
        self._timer = timer

    def arm(self) -> None:
        self._arm(self._max_idle_ms)

    def _arm(self, left_ms: int) -> None:
        self._timer.add(self, max(1, min(left_ms, self._max_stall_ms)))

    def run(self) -> None:
        connection = self._connection
        idle_ms = int(connection.idle_seconds() * 1000)
        if connection.busy or connection.waits_for_memory:
            self._arm(self._max_idle_ms)
        elif connection.unfinished and not connection.taken and idle_ms >= self._max_stall_ms:
            connection.close_stalled(idle_ms)
        elif idle_ms < self._max_idle_ms:
            self._arm(self._max_idle_ms - idle_ms)
        elif connection.is_closing:
            connection.abort()
        else:
            # It may not read its last answers: then it has as long again.
            self._timer.add(self, self._max_idle_ms)
            connection.close(f"idle for {idle_ms} ms, connections.max.idle.ms")


class _StallWatch(TimerTask):
    """Checks the connections that hold memory: those that stall are closed, those that are idle
    give their memory back.
    """

    __slots__ = ("_is_armed", "_max_stall_ms", "_memory", "_progress", "_timer")

    def __init__(self, memory: RequestMemory, max_stall_ms: int, timer: Timer) -> None:
        super().__init__()
        self._memory = memory
        self._max_stall_ms = max_stall_ms
        self._timer = timer
        self._is_armed = False
        # The bytes of the unfinished request, and for how long they have been about as many.
        self._progress: dict[Connection, tuple[int, int]] = {}

    def add(self, connection: Connection) -> None:
        self._progress.setdefault(connection, (0, 0))
        if not self._is_armed:
            self._is_armed = self._timer.add(self, self._interval_ms)

    def discard(self, connection: Connection) -> None:
        if self._progress.pop(connection, None) and not self._progress and self._is_armed:
            self._timer.cancel(self)
            self._is_armed = False

    @property
    def _interval_ms(self) -> int:
        return max(1, min(STALL_CHECK_MS, self._max_stall_ms // 10))

    def run(self) -> None:
        allowed_ms = self._max_stall_ms // (10 if self._memory.waiting else 1)
        progress, self._progress = self._progress, {}
        for connection, (before, stalled_ms) in progress.items():
            received = connection.unfinished
            if not connection.taken and not connection.waits_for_memory:
                continue
            if received == 0 or not before <= received < before + LEAST_PROGRESS:
                self._progress[connection] = (received, 0)
                if connection.is_unused and connection.idle_seconds() * 1000 > self._max_stall_ms:
                    connection.shrink_buffer()
            elif stalled_ms + self._interval_ms > allowed_ms:
                connection.close_stalled(stalled_ms + self._interval_ms)
            else:
                self._progress[connection] = (before, stalled_ms + self._interval_ms)
        self._is_armed = bool(self._progress) and self._timer.add(self, self._interval_ms)
