"""The socket server: the listeners that clients connect to."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.base.errors import ConfigError
from barnabas.base.failures import FailureChannel
from barnabas.config.listeners import Listener
from barnabas.server.metrics.request_statistics import RequestStatistics
from barnabas.server.network.acceptor import Acceptor, allowed_backlog
from barnabas.server.network.connection import Connection
from barnabas.server.network.connection_ports import Serve
from barnabas.server.network.connection_quotas import ConnectionQuotas
from barnabas.server.network.handshakes import Handshakes
from barnabas.server.network.listener_security import ListenerSecurities
from barnabas.server.network.open_connections import OpenConnections

if TYPE_CHECKING:
    from barnabas.security.tls_listener import TlsListener

log = logging.getLogger("barnabas.listeners")


class SocketServer:
    """Opens and closes the listeners; each connection that they accept serves itself."""

    def __init__(
        self,
        serve: Serve,
        quotas: ConnectionQuotas,
        connections: OpenConnections,
        failures: FailureChannel,
        statistics: RequestStatistics,
        accepts_itself: bool = False,
        securities: ListenerSecurities | None = None,
    ) -> None:
        """`accepts_itself` with an `Acceptor`, instead of the servers of the loop."""
        self._serve = serve
        self._quotas = quotas
        self._failures = failures
        self._statistics = statistics
        self._accepts_itself = accepts_itself
        self._securities = securities
        self._servers: list[asyncio.Server] = []
        self._acceptors: list[Acceptor] = []
        self.connections = connections

    async def open(self, listener: Listener) -> Listener:
        """Bind the address and serve there.

        Returns the listener with the port that was bound.

        Raises  ConfigError, if the address is taken or not this machine's
        """
        loop = asyncio.get_running_loop()

        securities = self._securities

        def connection() -> Connection:
            authentication = None
            if securities is not None:
                authentication = securities.authentication(listener.name, self._serve)
            return Connection(
                self._serve,
                self.connections,
                self._quotas.limits.socket_request_max_bytes,
                listener.name,
                loop,
                self._statistics,
                self._failures,
                self.connections.memory,
                authentication,
            )

        try:
            server = await loop.create_server(
                connection,
                listener.host or None,
                listener.port,
                backlog=self._quotas.limits.socket_listen_backlog_size,
                start_serving=False,
            )
        except (OSError, socket.gaierror) as e:
            why = os.strerror(e.errno).lower() if e.errno and e.errno > 0 else e.strerror or str(e)
            raise ConfigError(f"cannot listen on {listener}: {why}") from e
        self._servers.append(server)
        for each in server.sockets:  # from which those of connections have it
            has_tls = self._tls(listener) is not None
            options = self._quotas.limits.socket_options(each.getsockname()[0], has_tls)
            for option, size in options.items():
                each.setsockopt(socket.SOL_SOCKET, option, size)
        await self._accept(server, connection, listener)
        return listener._replace(port=server.sockets[0].getsockname()[1])

    def _tls(self, listener: Listener) -> "TlsListener | None":
        return None if self._securities is None else self._securities.tls(listener.name)

    async def _accept(
        self, server: asyncio.Server, connection: Callable[[], Connection], listener: Listener
    ) -> None:
        """Begin to accept connections."""
        wanted = self._quotas.limits.socket_listen_backlog_size
        if (backlog := allowed_backlog(wanted)) < wanted:
            log.info(
                "socket.listen.backlog.size=%d is limited to net.core.somaxconn=%d", wanted, backlog
            )
        securities, tls = self._securities, self._tls(listener)
        if not self._accepts_itself and tls is None:
            await server.start_serving()
            return
        handshakes = None
        if securities is not None and tls is not None:
            timeout_s = securities.handshake_timeout_s
            handshakes = Handshakes(tls, timeout_s, self.connections)
        for bound in server.sockets:
            acceptor = Acceptor(bound, connection, handshakes, self.connections.floods)
            acceptor.start(backlog)
            self._acceptors.append(acceptor)

    async def close(self) -> None:
        """Accept no more connections, and end those of now once their last response is sent."""
        for acceptor in self._acceptors:
            acceptor.close()
        for server in self._servers:
            server.close()
        await self.connections.close()
