"""The network of a cluster under test: real sockets, and who may not reach whom.

A connection that may not be is reset, and refused when it is tried again: both ends hear of it at
once. (A broker that is paused shows the other face of a failing network: silence.)
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


class Network:
    """What is cut, and which ports are brokers'; changed by the test's thread, read by all."""

    def __init__(self) -> None:
        self._cuts: set[frozenset[Party]] = set()
        self._brokers: dict[int, int] = {}  # the port that a broker listens on
        self._asking: dict[int, int] = {}  # the port that a broker's own connection comes from
        self._reserved: list[socket.socket] = []

    def reserve(self, broker: int) -> int:
        """A port for this broker in all its lives, which nobody else is given meanwhile."""
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((HOST, 0))
        port: int = held.getsockname()[1]
        if sys.platform == "linux":
            # Elsewhere whoever holds it keeps its own broker out as well.
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
        """Cut nothing any more; tells what was."""
        healed, self._cuts = list(self._cuts), set()
        return healed

    def allows(self, one: Party, other: Party) -> bool:
        return frozenset((one, other)) not in self._cuts

    def listening(self, port: int) -> Party:
        return self._brokers.get(port, CLIENTS)

    def asking(self, port: int) -> Party:
        """Whose connection comes from this port."""
        return self._asking.get(port, CLIENTS)

    def ask_from(self, port: int, broker: int) -> None:
        self._asking[port] = broker

    def ask_no_more(self, port: int) -> None:
        self._asking.pop(port, None)


class BrokerLoop(uvloop.Loop):
    """The loop of one broker's life: knows its connections, and can end them all at once."""

    def __init__(self, broker: int, network: Network) -> None:
        super().__init__()
        self._broker = broker
        self._network = network
        self._servers: list[asyncio.AbstractServer] = []
        self._lines: dict[_Line, None] = {}

    async def create_server(  # type: ignore[override]  # only what brokers use
        self, factory: Callable[[], Any], *where: Any, **options: Any
    ) -> asyncio.AbstractServer:
        server = await super().create_server(
            lambda: _line(factory(), self, None), *where, **options
        )
        self._servers.append(server)
        return server

    async def create_connection(  # type: ignore[override]  # only what brokers use
        self, factory: Callable[[], Any], host: str, port: int
    ) -> tuple[Any, Any]:
        other = self._network.listening(port)
        if not self._network.allows(self._broker, other):
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        # Bound first, so that the other side knows whose it is before it is there.
        asking = socket.socket()
        asking.setblocking(False)
        try:
            asking.bind((HOST, 0))
            self._network.ask_from(asking.getsockname()[1], self._broker)
            await self.sock_connect(asking, (host, port))
            transport, line = await super().create_connection(
                lambda: _line(factory(), self, other), sock=asking
            )
        except BaseException:
            self._network.ask_no_more(asking.getsockname()[1])
            asking.close()
            raise
        return transport, line.inner

    def drop(self, other: Party) -> None:
        """Reset all connections with another party."""
        for line in list(self._lines):
            if line.other == other:
                line.transport.abort()

    def sever(self) -> None:
        """Reset all connections and listen no more, as the end of a process does."""
        for server in self._servers:
            server.close()
        for line in list(self._lines):
            line.transport.abort()

    def opened(self, line: "_Line") -> None:
        self._lines[line] = None
        if line.other is None:
            line.other = self._network.asking(line.transport.get_extra_info("peername")[1])
            if not self._network.allows(self._broker, line.other):
                line.transport.abort()
        else:
            line.asks_from = line.transport.get_extra_info("sockname")[1]

    def lost(self, line: "_Line") -> None:
        self._lines.pop(line, None)
        if line.asks_from is not None:
            self._network.ask_no_more(line.asks_from)


class _Line(asyncio.BaseProtocol):
    """One connection, between its transport and the protocol that it is for."""

    transport: Any

    def __init__(self, inner: Any, loop: BrokerLoop, other: Party | None) -> None:
        self.inner = inner
        self.other = other
        self.asks_from: int | None = None
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


class _BufferedLine(_Line, asyncio.BufferedProtocol):
    def get_buffer(self, sizehint: int) -> Any:
        return self.inner.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self.inner.buffer_updated(nbytes)


class _StreamLine(_Line, asyncio.Protocol):
    def data_received(self, data: bytes) -> None:
        self.inner.data_received(data)


def _line(inner: Any, loop: BrokerLoop, other: Party | None) -> _Line:
    kind = _BufferedLine if isinstance(inner, asyncio.BufferedProtocol) else _StreamLine
    return kind(inner, loop, other)
