"""One blocking connection to a broker: a frame out, an answer in, whole and in order.

Spark's Python workers are single-threaded and short-lived; an event loop would only be started
to wait in it. Two requests may be on their way at once, so that the next records come over while
the last ones are decoded.
"""

import socket
import struct
from typing import Final

from barnabas.base.errors import PeerGone
from barnabas.spark.source.source_options import SourceOptions
from barnabas.spark.user_errors import SparkFailure

# Far more than a broker answers; less than other protocols' first words, read as a size.
_MOST_RESPONSE_BYTES: Final = 1 << 30
_SIZE = struct.Struct(">i")
_DEFAULT_API_TIMEOUT_MS: Final = 60_000
_DEFAULT_REQUEST_TIMEOUT_MS: Final = 30_000
_MOST_CONNECT_S: Final = 5.0


def api_timeout_s(options: SourceOptions) -> float:
    """How long a question is asked again before the read fails. Raises WrongOption."""
    return options.property_number("default.api.timeout.ms", _DEFAULT_API_TIMEOUT_MS) / 1000


def connect(host: str, port: int, options: SourceOptions) -> "Connection":
    """A connection as the client's properties want it, with TLS and a login if they do.

    Raises  PeerGone, if nobody is there in time
            SparkFailure, if either side does not trust the other
    """
    name = f"{host}:{port}"
    answer_s = options.property_number("request.timeout.ms", _DEFAULT_REQUEST_TIMEOUT_MS) / 1000
    try:
        connected = socket.create_connection((host, port), min(_MOST_CONNECT_S, answer_s))
    except (OSError, ValueError, OverflowError) as failure:
        raise PeerGone(f"{name}: {_reason(failure)}") from None
    connected.settimeout(answer_s)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not options.is_secured:
        return Connection(connected, name)
    from barnabas.spark.security import login, wrap  # most clusters need none of it

    connection = Connection(wrap(connected, host, options.kafka), name)
    try:
        login(connection.ask, name, options.kafka)
    except SparkFailure:
        connection.close()
        raise
    return connection


class Connection:
    """A TCP connection that can be asked. After PeerGone it is closed for good."""

    def __init__(self, connected: socket.socket, name: str) -> None:
        self.name = name
        self._socket = connected
        self._buffer = bytearray()

    @property
    def local_host(self) -> str:
        """The address by which this machine is seen from the broker's network."""
        return str(self._socket.getsockname()[0])

    def send(self, frame: bytes) -> None:
        """Raises  PeerGone"""
        try:
            self._socket.sendall(frame)
        except OSError as failure:
            raise self._gone(failure) from None

    def ask(self, frame: bytes) -> memoryview:
        """Send, and the answer, as `receive` gives it. Raises PeerGone."""
        self.send(frame)
        return self.receive()

    def receive(self) -> memoryview:
        """What follows the correlation id of the next answer; valid until the one after it.

        Raises  PeerGone
        """
        head = bytearray(_SIZE.size)
        try:
            self._fill(memoryview(head))
            (size,) = _SIZE.unpack(head)
            if not _SIZE.size <= size <= _MOST_RESPONSE_BYTES:
                raise OSError(f"announces an answer of {size} bytes")
            if len(self._buffer) < size:
                self._buffer = bytearray(size)
            answer = memoryview(self._buffer)[:size]
            self._fill(answer)
        except OSError as failure:
            raise self._gone(failure) from None
        return answer[_SIZE.size :]

    def close(self) -> None:
        self._socket.close()

    def _fill(self, view: memoryview) -> None:
        filled = 0
        while filled < len(view):
            received = self._socket.recv_into(view[filled:])
            if not received:
                raise OSError("closed the connection")
            filled += received

    def _gone(self, failure: OSError) -> PeerGone:
        self.close()
        return PeerGone(f"{self.name}: {_reason(failure)}")


def _reason(failure: Exception) -> str:
    if isinstance(failure, TimeoutError):
        return "no answer in time"
    return getattr(failure, "strerror", None) or str(failure)
