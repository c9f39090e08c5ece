"""The open connections of a broker: admitted within quotas, closed when idle or at the end."""

import asyncio
from typing import Final

from barnabas.purgatory.timer import Timer
from barnabas.purgatory.timing_wheel import TimerTask
from barnabas.server.network.connection import Connection
from barnabas.server.network.connection_quotas import ConnectionQuotas

# How long a stopping broker waits for clients to read their last responses.
GRACE_SECONDS: Final = 5.0


class OpenConnections:
    """A connection enters when it is accepted, and leaves when it is lost."""

    def __init__(self, quotas: ConnectionQuotas, timer: Timer) -> None:
        self._quotas = quotas
        self._timer = timer
        self._idle_watches: dict[Connection, _IdleWatch] = {}
        self._all_gone = asyncio.Event()
        self._closing = False

    def __len__(self) -> int:
        return len(self._idle_watches)

    def admit(self, connection: Connection) -> str | None:
        """Add a connection; returns why it must close, or None."""
        max_idle_ms = self._quotas.limits.connections_max_idle_ms
        watch = _IdleWatch(connection, max_idle_ms, self._timer)
        self._idle_watches[connection] = watch
        refusal = self._quotas.add(connection.host)
        if self._closing:
            return "the broker stops"
        if refusal is None:
            watch.arm()
        return refusal

    def lost(self, connection: Connection) -> None:
        self._timer.cancel(self._idle_watches.pop(connection))
        self._quotas.remove(connection.host)
        if not self._idle_watches:
            self._all_gone.set()

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


class _IdleWatch(TimerTask):
    """Checks a connection when it could have been idle too long, and again if it was not."""

    __slots__ = ("_connection", "_max_idle_ms", "_timer")

    def __init__(self, connection: Connection, max_idle_ms: int, timer: Timer) -> None:
        super().__init__()
        self._connection = connection
        self._max_idle_ms = max_idle_ms
        self._timer = timer

    def arm(self) -> None:
        if self._max_idle_ms >= 0:
            self._timer.add(self, self._max_idle_ms)

    def run(self) -> None:
        idle_ms = int(self._connection.idle_seconds() * 1000)
        left_ms = self._max_idle_ms - idle_ms
        if self._connection.busy or left_ms > 0:
            self._timer.add(self, left_ms if left_ms > 0 else self._max_idle_ms)
        elif self._connection.is_closing:
            self._connection.abort()
        else:
            # It may not read its last answers: then it has as long again.
            self._timer.add(self, self._max_idle_ms)
            self._connection.close(f"idle for {idle_ms} ms, connections.max.idle.ms")
