"""A blocking connection: responses in order, a reused buffer, and one end."""

import socket
import struct
from collections.abc import Iterator

import pytest

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.client.blocking_connection import BlockingConnection
from barnabas.client.frames import SHORT_BUFFER
from barnabas.wire.apis import APIS, UNADVERTISED, ApiKey
from barnabas.wire.control.describe_controller import (
    DescribeControllerRequest,
    DescribeControllerResponse,
)
from barnabas.wire.schema import write_response

Ends = tuple[BlockingConnection, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """A connection, and the broker's end of it."""
    near, far = socket.socketpair()
    near.settimeout(20)
    with near, far:
        yield BlockingConnection(near, "broker:9092", "test"), far


def frame(correlation_id: int) -> bytes:
    return struct.pack(">ii", 4, correlation_id)


def response(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


def test_several_requests_are_in_flight_and_answered_in_order(ends: Ends) -> None:
    connection, broker = ends
    for _ in range(3):
        connection.send(frame)
    assert broker.recv(1000) == frame(1) + frame(2) + frame(3)

    broker.sendall(response(1, b"one") + response(2, b"2" * (SHORT_BUFFER + 5)) + response(3, b""))

    assert bytes(connection.receive()) == b"one"
    assert bytes(connection.receive()) == b"2" * (SHORT_BUFFER + 5)
    assert bytes(connection.receive()) == b""


def test_large_responses_share_one_buffer(ends: Ends) -> None:
    connection, broker = ends
    seen = []
    for number, size in enumerate((90_000, 60_000, 80_000), 1):
        connection.send(frame)
        broker.sendall(response(number, bytes([number]) * size))
        received = connection.receive()
        assert bytes(received) == bytes([number]) * size
        seen.append(received.obj)

    assert seen[0] is seen[1] is seen[2]


def test_a_message_is_asked_and_its_response_read(ends: Ends) -> None:
    connection, broker = ends
    key = ApiKey.DESCRIBE_CONTROLLER
    broker.sendall(
        write_response(key, 0, 1, DescribeControllerResponse(error_code=ErrorCode.none, state="x"))
    )

    assert connection.request(key, 0, DescribeControllerRequest()).state == "x"


def test_versions_are_the_newest_that_both_sides_have(ends: Ends) -> None:
    connection, broker = ends
    newest = APIS[ApiKey.FETCH].highest
    ranges = [(1, 0, newest + 3), (3, 0, 5), (18, 99, 100), (9999, 0, 1)]
    body = struct.pack(">hi", 0, len(ranges)) + b"".join(struct.pack(">hhh", *r) for r in ranges)
    broker.sendall(response(1, body))

    versions = connection.versions()

    ours = {key: APIS[key].highest for key in UNADVERTISED}
    assert versions == {ApiKey.FETCH: newest, ApiKey.METADATA: 5, **ours}
    assert struct.unpack_from(">ihhi", broker.recv(1000)) == (14, ApiKey.API_VERSIONS, 0, 1)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"HTTP/1.1 400 Bad", "announces an answer of 1213486160 bytes"),
        (response(7, b"?"), "answers 7, which is not its turn"),
        (response(1, b"")[:6], "closed the connection"),
    ],
)
def test_whatever_is_no_response_ends_the_connection(ends: Ends, sent: bytes, why: str) -> None:
    connection, broker = ends
    connection.send(frame)
    broker.recv(1000)
    broker.sendall(sent)
    broker.close()

    with pytest.raises(PeerGone, match=f"^broker:9092: {why}"):
        connection.receive()
    with pytest.raises(PeerGone):
        connection.exchange(frame)


def test_a_response_that_is_late_ends_the_connection() -> None:
    near, far = socket.socketpair()
    near.settimeout(0.01)
    with near, far, pytest.raises(PeerGone, match=r"^broker:9092: no answer in time"):
        BlockingConnection(near, "broker:9092", "test").exchange(frame)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 1), ("127.0.0.1", -1), ("a" * 300, 9092)])
def test_nobody_there_is_gone(host: str, port: int) -> None:
    with pytest.raises(PeerGone, match=f"^{host}:{port}: "):
        BlockingConnection.connect(host, port, client_id="test", connect_s=20, response_s=20)
