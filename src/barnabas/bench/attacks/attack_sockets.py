"""A hostile client: frames as bytes on bare sockets, and what comes back."""

import errno
import selectors
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

HOST: Final = "127.0.0.1"
CONNECTED_WITHIN_S: Final = 30.0
_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")
_CHUNK: Final = 256 * 1024
_WOULD_WAIT: Final = (errno.EAGAIN, errno.EWOULDBLOCK)


def frame(
    key: int, version: int, body: bytes, *, client_id: bytes = b"", tagged: bool = False
) -> bytes:
    """A request, size first; `tagged` for flexible versions."""
    header = _HEADER.pack(key, version, 1, len(client_id)) + client_id + (b"\0" if tagged else b"")
    return _SIZE.pack(len(header) + len(body)) + header + body


def text(value: str) -> bytes:
    """A string of a version that is not flexible."""
    return struct.pack(">h", len(value)) + value.encode()


def connected(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), CONNECTED_WITHIN_S)


def answer(peer: socket.socket, timeout_s: float) -> bytes | None:
    """The next response behind its correlation id; None if the broker closes instead.

    Raises  TimeoutError, if neither happens in time
    """
    deadline = time.perf_counter() + timeout_s
    head = _read(peer, 4, deadline)
    whole = head and _read(peer, _SIZE.unpack(head)[0], deadline)
    return whole[4:] if whole else None


def _read(peer: socket.socket, size: int, deadline: float) -> bytes | None:
    found = bytearray()
    while len(found) < size:
        peer.settimeout(max(0.001, deadline - time.perf_counter()))
        try:
            part = peer.recv(size - len(found))
        except ConnectionError:
            return None
        if not part:
            return None
        found += part
    return bytes(found)


def asked(port: int, request: bytes, timeout_s: float = 10.0) -> bytes | None:
    """The answer to one request on its own connection; None if the broker closes."""
    with connected(port) as peer:
        try:
            peer.sendall(request)
        except ConnectionError:
            return None
        return answer(peer, timeout_s)


def send_all(peers: Sequence[socket.socket], content: bytes, each: int, patience_s: float) -> int:
    """Send `content` over and over to all peers at once, `each` bytes at most to one of them.

    Ends when all is sent, or when no socket accepts a byte for `patience_s`. Returns the number of
    bytes that the sockets accepted.
    """
    left = {peer.fileno(): each for peer in peers}
    sent = 0
    with selectors.DefaultSelector() as selector:
        for peer in peers:
            peer.setblocking(False)
            selector.register(peer, selectors.EVENT_WRITE, peer)
        while selector.get_map():
            ready = selector.select(patience_s)
            if not ready:
                break
            for key, _ in ready:
                accepted = _send(key.data, content[: min(_CHUNK, left[key.fd])])
                sent += max(0, accepted)
                left[key.fd] -= max(0, accepted)
                if accepted < 0 or not left[key.fd]:
                    selector.unregister(key.data)
    return sent


def _send(peer: socket.socket, content: bytes) -> int:
    """The bytes accepted; -1 if the broker has closed the connection."""
    try:
        return peer.send(content)
    except OSError as failure:
        return 0 if failure.errno in _WOULD_WAIT else -1


def closed(peers: Sequence[socket.socket]) -> int:
    """The number of connections that the broker has closed; unread responses are dropped."""
    return sum(map(_is_closed, peers))


def _is_closed(peer: socket.socket) -> bool:
    peer.setblocking(False)
    try:
        while peer.recv(_CHUNK):
            pass
    except OSError as failure:
        return failure.errno not in _WOULD_WAIT
    return True


def until_closed(peers: Sequence[socket.socket], patience_s: float) -> tuple[int, float]:
    """The number of connections that the broker closes in time, and the seconds that took."""
    start = time.perf_counter()
    while (count := closed(peers)) < len(peers) and time.perf_counter() - start < patience_s:
        time.sleep(0.05)
    return count, time.perf_counter() - start


def close_all(peers: Sequence[socket.socket]) -> None:
    for peer in peers:
        with suppress(OSError):
            peer.close()
