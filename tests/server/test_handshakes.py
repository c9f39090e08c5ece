"""TLS handshakes: the end of a connection that a quota refuses before its handshake."""

import asyncio
import socket
from typing import Any

import pytest

from barnabas.server.network.connection_quotas import Admission
from barnabas.server.network.handshakes import Handshakes
from tests.server.raw import on_uvloop


class Refusing:
    """A registry that refuses all, and counts."""

    def __init__(self, close_after_ms: int) -> None:
        self.entry = Admission("too many", close_after_ms)
        self.counted = 0

    def begin_handshake(self, connection: Any, host: str) -> Admission:
        self.counted += 1
        return self.entry

    def end_handshake(self, connection: Any) -> None:
        self.counted -= 1


async def refused(close_after_ms: int) -> tuple[Handshakes, socket.socket, socket.socket]:
    """The handshakes, the client, and its connection that was refused."""
    registry, tls, connection = Refusing(close_after_ms), object(), object()
    handshakes: Any = Handshakes
    made = handshakes(tls, 1.0, registry)
    client, accepted = socket.socketpair()
    with pytest.raises(ConnectionRefusedError, match="too many"):
        await made.connect(connection, accepted, "::1")
    assert registry.counted == 0
    client.setblocking(False)
    return made, client, accepted


async def ended(client: socket.socket) -> bool:
    return await asyncio.get_running_loop().sock_recv(client, 1) == b""


def test_s41_a_connection_beyond_a_number_closes_at_once() -> None:
    async def scenario() -> None:
        _, client, accepted = await refused(0)
        assert accepted.fileno() == -1
        assert await ended(client)
        client.close()

    on_uvloop(scenario())


def test_s41_a_connection_beyond_the_rate_of_its_address_closes_later() -> None:
    async def scenario() -> None:
        _, client, accepted = await refused(20)
        assert accepted.fileno() != -1
        assert await ended(client)
        client.close()

    on_uvloop(scenario())


def test_s41_connections_that_wait_to_be_closed_close_with_the_listener() -> None:
    async def scenario() -> None:
        handshakes, client, _ = await refused(60_000)
        handshakes.close()
        assert await ended(client)
        client.close()

    on_uvloop(scenario())
