"""The sockets that clients connect to, and the limits on who may stay connected."""

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from barnabas.base.errors import ConfigError, LawBroken
from barnabas.base.failures import FailureChannel
from barnabas.config.listeners import Listener
from barnabas.purgatory.timer import Timer
from barnabas.purgatory.timing_wheel import TimerTask
from barnabas.server.metrics.request_statistics import RequestStatistics
from barnabas.server.network.connection import Connection
from barnabas.server.network.connection_ports import Serve

log = logging.getLogger("barnabas.listeners")

# How long a stopping broker waits for clients to read their last answers.
GRACE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What one broker bears of its clients, by Kafka's property names."""

    socket_request_max_bytes: int
    connections_max_idle_ms: int
    max_connections: int
    max_connections_per_ip: int
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    socket_listen_backlog_size: int = 50
    socket_send_buffer_bytes: int = -1
    socket_receive_buffer_bytes: int = -1

    @property
    def socket_options(self) -> Mapping[int, int]:
        """What a socket is told; what is -1 is the operating system's to choose."""
        wanted = {
            socket.SO_SNDBUF: self.socket_send_buffer_bytes,
            socket.SO_RCVBUF: self.socket_receive_buffer_bytes,
        }
        return {option: size for option, size in wanted.items() if size > 0}


class Listeners:
    """Opens the listeners, counts their connections, closes those that are idle too long."""

    def __init__(
        self,
        serve: Serve,
        limits: Limits,
        timer: Timer,
        failures: FailureChannel,
        statistics: RequestStatistics,
    ) -> None:
        self._statistics = statistics
        self._serve = serve
        self._limits = limits
        self._timer = timer
        self._failures = failures
        self._servers: list[asyncio.Server] = []
        self._per_ip_overrides: dict[str, int] = {}
        self._connections: dict[Connection, _IdleWatch] = {}
        self._per_ip: Counter[str] = Counter()
        self._all_gone = asyncio.Event()
        self._closing = False

    def __len__(self) -> int:
        """How many connections there are."""
        return len(self._connections)

    async def open(self, listener: Listener, accept: bool = True) -> Listener:
        """Take the address, and serve there at once or only from `accept` on.

        Returns the listener with the port it got.

        Raises  ConfigError, if the address is taken or not this machine's
        """
        loop = asyncio.get_running_loop()

        def connection() -> Connection:
            limit = self._limits.socket_request_max_bytes
            return Connection(self._serve, self, limit, listener.name, loop, self._statistics)

        try:
            server = await loop.create_server(
                connection,
                listener.host or None,
                listener.port,
                backlog=self._limits.socket_listen_backlog_size,
                start_serving=accept,
            )
        except (OSError, socket.gaierror) as e:
            why = os.strerror(e.errno).lower() if e.errno and e.errno > 0 else e.strerror or str(e)
            raise ConfigError(f"cannot listen on {listener}: {why}") from e
        self._servers.append(server)
        for each in server.sockets:  # from which those of connections have it
            for option, size in self._limits.socket_options.items():
                each.setsockopt(socket.SOL_SOCKET, option, size)
        return listener._replace(port=server.sockets[0].getsockname()[1])

    async def accept(self) -> None:
        """Begin to serve whoever connects."""
        for server in self._servers:
            await server.start_serving()

    async def close(self) -> None:
        """Take no more connections and end those there are, once their last answer is sent."""
        for server in self._servers:
            server.close()
        self._closing = True
        for connection in list(self._connections):
            connection.close_quietly()
        if self._connections:
            self._all_gone.clear()
            abort = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._abort_all)
            await self._all_gone.wait()
            abort.cancel()

    def _abort_all(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    async def follow(self, limits: Limits) -> None:
        """Go by these limits from now on; connections that are there may stay.

        Raises  ConfigError, nothing changed, if one of `per_ip_overrides` is no known host
        """
        loop = asyncio.get_running_loop()
        overrides: dict[str, int] = {}
        for host, limit in limits.per_ip_overrides.items():
            try:
                found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except OSError as e:
                raise ConfigError(
                    f"max.connections.per.ip.overrides: {host} is no known host: {e.strerror or e}"
                ) from e
            for *_, address in found:
                overrides[str(address[0])] = limit
        self._limits, self._per_ip_overrides = limits, overrides

    # -- Registry, for connections -------------------------------------------

    def admit(self, connection: Connection) -> str | None:
        limits, host = self._limits, connection.host
        self._per_ip[host] += 1
        self._connections[connection] = watch = _IdleWatch(
            connection, limits.connections_max_idle_ms, self._timer
        )
        if self._closing:
            return "the broker stops"
        if len(self._connections) > limits.max_connections:
            return f"max.connections={limits.max_connections} is reached"
        per_ip = self._per_ip_overrides.get(host, limits.max_connections_per_ip)
        if self._per_ip[host] > per_ip:
            return f"max.connections.per.ip={per_ip} is reached for {host}"
        watch.arm()
        return None

    def lost(self, connection: Connection) -> None:
        self._timer.cancel(self._connections.pop(connection))
        self._per_ip[connection.host] -= 1
        if not self._per_ip[connection.host]:
            del self._per_ip[connection.host]
        if not self._connections:
            self._all_gone.set()

    def fatal(self, broken: LawBroken) -> None:
        self._failures.fatal(broken)


class _IdleWatch(TimerTask):
    """Looks at a connection when it could have been idle too long, and again if it was not."""

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
