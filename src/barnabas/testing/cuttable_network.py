"""The network of a cluster under test: real sockets, with partitions between parties.

A partition resets connections and refuses new ones: both ends notice at once. (A paused broker
shows the other kind of network failure: silence.)
"""

import asyncio
import errno
import os
import socket
import sys
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import uvloop

HOST: Final = "127.0.0.1"
CLIENTS: Final = "clients"
COORDINATION: Final = "coordination"

# A broker, or one of the names above.
Party: TypeAlias = int | str


class CuttableNetwork:
    """The partitions, and the brokers' ports; the test's thread changes it, all threads read it."""

    def __init__(self) -> None:
        self._cuts: set[frozenset[Party]] = set()
        self._brokers: dict[int, int] = {}  # broker by the port it listens on
        self._client_ports: dict[int, int] = {}  # broker by the port it connects from
        self._reserved: list[socket.socket] = []

    def reserve(self, broker: int) -> int:
        """Reserve a port for this broker, which it keeps over restarts."""
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((HOST, 0))
        port: int = held.getsockname()[1]
        if sys.platform == "linux":
            # On other systems the bound socket would keep the broker out as well.
            self._reserved.append(held)
        else:
            held.close()
        self._brokers[port] = broker
        return port

    def close(self) -> None:
        for held in self._reserved:
            held.close()

    def cut(self, one: Party, other: Party) -> None:
        self._cuts.add(frozenset((one, other)))

    def heal(self) -> list[frozenset[Party]]:
        """End all partitions; return those that existed."""
        healed, self._cuts = list(self._cuts), set()
        return healed

    def allows(self, one: Party, other: Party) -> bool:
        return frozenset((one, other)) not in self._cuts

    def listening(self, port: int) -> Party:
        return self._brokers.get(port, CLIENTS)

    def owner_of(self, port: int) -> Party:
        """The party that connects from this port."""
        return self._client_ports.get(port, CLIENTS)

    def register_client_port(self, port: int, broker: int) -> None:
        self._client_ports[port] = broker

    def release_client_port(self, port: int) -> None:
        self._client_ports.pop(port, None)


class BrokerLoop(uvloop.Loop):
    """A broker's event loop: tracks its connections, and can reset them all at once."""

    def __init__(self, broker: int, network: CuttableNetwork) -> None:
        super().__init__()
        self._broker = broker
        self._network = network
        self._servers: list[asyncio.AbstractServer] = []
        self._listening: list[Any] = []
        self._connections: dict[_TrackedConnection, None] = {}

    async def create_server(  # type: ignore[override]  # only what brokers use
        self, factory: Callable[[], Any], *where: Any, **options: Any
    ) -> asyncio.AbstractServer:
        server = await super().create_server(
            lambda: _tracked(factory(), self, None), *where, **options
        )
        self._servers.append(server)
        return server

    async def connect_accepted_socket(  # type: ignore[override]  # only what brokers use
        self, factory: Callable[[], Any], sock: socket.socket, **options: Any
    ) -> tuple[Any, Any]:
        connected: tuple[Any, Any] = await super().connect_accepted_socket(
            lambda: _tracked(factory(), self, None), sock, **options
        )
        return connected

    def add_reader(  # type: ignore[override]  # only what brokers use
        self, fd: Any, callback: Callable[..., Any], *args: Any
    ) -> None:
        """Of a listener with TLS, which accepts itself."""
        self._listening.append(fd)
        super().add_reader(fd, callback, *args)

    async def create_connection(  # type: ignore[override]  # only what brokers use
        self, factory: Callable[[], Any], host: str, port: int, **options: Any
    ) -> tuple[Any, Any]:
        other = self._network.listening(port)
        if not self._network.allows(self._broker, other):
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        # Bound first, so that the other side knows the owner before the connection exists.
        connecting = socket.socket()
        connecting.setblocking(False)
        try:
            connecting.bind((HOST, 0))
            self._network.register_client_port(connecting.getsockname()[1], self._broker)
            await self.sock_connect(connecting, (host, port))
            transport, connection = await super().create_connection(
                lambda: _tracked(factory(), self, other), sock=connecting, **options
            )
        except BaseException:
            self._network.release_client_port(connecting.getsockname()[1])
            connecting.close()
            raise
        return transport, connection.inner

    def drop(self, other: Party) -> None:
        """Reset all connections to another party."""
        for connection in list(self._connections):
            if connection.other == other:
                connection.transport.abort()

    def sever(self) -> None:
        """Reset all connections and close all listeners, as the end of a process does."""
        for server in self._servers:
            server.close()
        for listening in self._listening:
            if listening.fileno() >= 0:
                self.remove_reader(listening)
                listening.close()
        for connection in list(self._connections):
            connection.transport.abort()

    def opened(self, connection: "_TrackedConnection") -> None:
        self._connections[connection] = None
        if connection.other is None:
            connection.other = self._network.owner_of(
                connection.transport.get_extra_info("peername")[1]
            )
            if not self._network.allows(self._broker, connection.other):
                connection.transport.abort()
        else:
            connection.client_port = connection.transport.get_extra_info("sockname")[1]

    def lost(self, connection: "_TrackedConnection") -> None:
        self._connections.pop(connection, None)
        if connection.client_port is not None:
            self._network.release_client_port(connection.client_port)


class _TrackedConnection(asyncio.BaseProtocol):
    """A protocol that wraps another one, to track its connection."""

    transport: Any

    def __init__(self, inner: Any, loop: BrokerLoop, other: Party | None) -> None:
        self.inner = inner
        self.other = other
        self.client_port: int | None = None
        self._loop = loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.inner.connection_made(transport)
        self._loop.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._loop.lost(self)
        self.inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()

    def eof_received(self) -> Any:
        return self.inner.eof_received()


class _BufferedConnection(_TrackedConnection, asyncio.BufferedProtocol):
    def get_buffer(self, sizehint: int) -> Any:
        return self.inner.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self.inner.buffer_updated(nbytes)


class _StreamConnection(_TrackedConnection, asyncio.Protocol):
    def data_received(self, data: bytes) -> None:
        self.inner.data_received(data)


def _tracked(inner: Any, loop: BrokerLoop, other: Party | None) -> _TrackedConnection:
    kind = _BufferedConnection if isinstance(inner, asyncio.BufferedProtocol) else _StreamConnection
    return kind(inner, loop, other)
