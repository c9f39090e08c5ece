"""Answers straight to the socket: as much as it takes, and what is left; both twins."""

import os
import socket
from collections.abc import Iterator
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.system_calls import MOST_PARTS
from barnabas.server.network.sending import unsent
from barnabas.wire.fetch.fetch_codec import Buffer
from tests.support.twins import both

both_twins = pytest.mark.parametrize("twin", both("barnabas.base.system_calls"))


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def received(theirs: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += theirs.recv(size - len(data))
    return data


@both_twins
@pytest.mark.parametrize("count", [0, 1, 5, 64, 65, 500])
def test_all_of_it_is_sent_where_there_is_room(
    twin: ModuleType, sockets: tuple[socket.socket, socket.socket], count: int
) -> None:
    ours, theirs = sockets
    parts: list[Buffer] = [
        [bytes, bytearray, memoryview][number % 3](b"%d," % number) for number in range(count)
    ]
    whole = b"".join(parts)
    assert twin.send_parts(ours.fileno(), parts) == len(whole)
    assert received(theirs, len(whole)) == whole


@both_twins
def test_bytes_that_the_socket_does_not_accept_are_kept(
    twin: ModuleType, sockets: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = sockets
    parts: list[Buffer] = [os.urandom(10_000) for _ in range(MOST_PARTS)]
    sent = twin.send_parts(ours.fileno(), parts)
    left = unsent(parts, sent)
    assert 0 < sent < sum(map(len, parts))
    assert twin.send_parts(ours.fileno(), left) == 0
    assert received(theirs, sent) + b"".join(left) == b"".join(parts)


@both_twins
def test_no_more_parts_are_sent_than_one_call_may_get(
    twin: ModuleType, sockets: tuple[socket.socket, socket.socket]
) -> None:
    ours, _ = sockets
    assert twin.send_parts(ours.fileno(), [b"x"] * (MOST_PARTS + 1)) == MOST_PARTS


@both_twins
def test_a_closed_connection_accepts_nothing(
    twin: ModuleType, sockets: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = sockets
    theirs.close()
    assert twin.send_parts(ours.fileno(), [b"one", b"two"]) == 0


@given(parts=st.lists(st.binary(max_size=5), max_size=8), sent=st.integers(0, 50))
def test_what_is_left_is_what_is_behind_the_bytes_sent(parts: list[Buffer], sent: int) -> None:
    assert b"".join(unsent(parts, sent)) == b"".join(parts)[sent:]
