"""The TLS handshakes of one listener: they count as connections from the time they are accepted.

One beyond a limit is closed before it costs a handshake; one beyond a rate waits for it, or is
closed later if the rate is that of its address.
"""

import asyncio
import socket
import sys
from typing import TYPE_CHECKING, Protocol

from barnabas.server.network.connection_quotas import Admission
from barnabas.server.network.low_water import LowWater

if TYPE_CHECKING:
    from barnabas.security.tls_listener import TlsListener
    from barnabas.server.network.connection import Connection


class HandshakeRegistry(Protocol):
    """See `OpenConnections`."""

    def begin_handshake(self, connection: "Connection", host: str, /) -> Admission: ...

    def end_handshake(self, connection: "Connection", /) -> None: ...


class Handshakes:
    """Connects accepted sockets; a handshake has `timeout_s`."""

    def __init__(
        self,
        tls: "TlsListener",
        timeout_s: float,
        registry: HandshakeRegistry,
    ) -> None:
        self._tls = tls
        self._timeout_s = timeout_s
        self._registry = registry
        self._loop = asyncio.get_running_loop()
        # Beyond the rate of their address: closed later.
        self._closing: dict[socket.socket, asyncio.TimerHandle] = {}

    async def connect(self, connection: "Connection", accepted: socket.socket, host: str) -> None:
        """Give the connection its transport once its handshake has ended.

        Raises  ConnectionRefusedError, if a quota is exceeded
                OSError, if the handshake fails
        """
        entry = self._registry.begin_handshake(connection, host)
        try:
            if entry.refusal is not None:
                self._close_later(accepted, entry.close_after_ms)
                raise ConnectionRefusedError(entry.refusal)
            if entry.delay_ms:
                await asyncio.sleep(entry.delay_ms / 1000)
            await self._loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._tls.context(self._loop.time()),
                ssl_handshake_timeout=self._timeout_s,
            )
            if sys.platform == "linux":  # elsewhere a mark is not looked at when it changes
                connection.low_water = LowWater(accepted, self._loop)
        finally:
            self._registry.end_handshake(connection)

    def _close_later(self, accepted: socket.socket, ms: int) -> None:
        if not ms:
            accepted.close()
            return
        self._closing[accepted] = self._loop.call_later(ms / 1000, self._close, accepted)

    def _close(self, accepted: socket.socket) -> None:
        self._closing.pop(accepted).cancel()
        accepted.close()

    def close(self) -> None:
        """Close the connections that wait to be closed."""
        for accepted in list(self._closing):
            self._close(accepted)
