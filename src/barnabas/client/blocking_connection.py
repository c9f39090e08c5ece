"""A blocking connection to a broker: requests out, responses in order.

For processes without an event loop: commands, and Spark's single-threaded workers. Several
requests may be in flight, so the next records arrive while the last ones are decoded.
"""

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from barnabas.base.errors import PeerGone
from barnabas.client.frames import InFlightRequests, MalformedResponse
from barnabas.client.security import PLAINTEXT, AuthenticationFailed, Frame, SecurityContext
from barnabas.client.versions import read_versions, versions_request
from barnabas.wire.apis import ApiKey

if TYPE_CHECKING:
    from barnabas.wire.schema import Message


class BlockingConnection:
    """A TCP connection without an event loop. After PeerGone it is closed for good."""

    def __init__(self, connected: socket.socket, name: str, client_id: str) -> None:
        self.name = name
        self.client_id = client_id
        self._socket = connected
        self._in_flight: InFlightRequests[None] = InFlightRequests(reuse_buffer=True)

    @classmethod
    def connect(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        connect_s: float,
        response_s: float,
        security: SecurityContext = PLAINTEXT,
    ) -> Self:
        """A connection that is ready for requests; each read waits `response_s` at most.

        Raises  PeerGone, if the broker is not reached in time
                AuthenticationFailed, if either side does not trust the other
                In both cases nothing is left open
        """
        name = f"{host}:{port}"
        try:
            connected = socket.create_connection((host, port), connect_s)
        except (OSError, ValueError, OverflowError) as failure:
            raise PeerGone(f"{name}: {_reason(failure)}") from None
        connected.settimeout(response_s)
        with suppress(OSError):  # macOS refuses it if the peer has closed; the next read says so
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = cls(_secured(connected, host, name, security), name, client_id)
        if security.login is not None:
            connection._authenticate(security)
        return connection

    def _authenticate(self, security: SecurityContext) -> None:
        steps = security.authenticate(self.name, self.client_id)
        try:
            frame = next(steps)
            while True:
                frame = steps.send(self.exchange(frame))
        except StopIteration:
            return
        except MalformedResponse as failure:
            raise self._gone(failure) from None
        except AuthenticationFailed:
            self.close()
            raise

    def versions(self) -> dict[ApiKey, int]:
        """The newest version of each API that both sides have. Raises PeerGone."""
        response = self.exchange(versions_request(self.client_id))
        try:
            return read_versions(response)
        except MalformedResponse as failure:
            raise self._gone(failure) from None

    def request(self, key: ApiKey, version: int, message: "Message") -> "Message":
        """The response to `message`, in the newest version that we know. Raises PeerGone."""
        from barnabas.client.requests import read_response, write_request  # kio

        response = self.exchange(
            lambda correlation_id: write_request(
                key, version, correlation_id, self.client_id, message
            )
        )
        try:
            # The message may hold views of the response, whose buffer is used again.
            return read_response(key, version, memoryview(bytes(response)))
        except MalformedResponse as failure:
            raise self._gone(failure) from None

    def exchange(self, frame: Frame) -> memoryview:
        """Send a frame and return its response, as `receive` does. Raises PeerGone."""
        self.send(frame)
        return self.receive()

    def send(self, frame: Frame) -> None:
        """Raises  PeerGone"""
        correlation_id = self._in_flight.next_correlation_id()
        out = frame(correlation_id)
        try:
            self._socket.sendall(out)
        except OSError as failure:
            raise self._gone(failure) from None
        self._in_flight.add(correlation_id, None)

    def receive(self) -> memoryview:
        """All that follows the correlation id of the next response; valid until the one after it.

        Raises  PeerGone
        """
        buffer = self._in_flight.buffer
        try:
            while (answered := self._in_flight.next()) is None:
                received = self._socket.recv_into(buffer.writable())
                if not received:
                    raise OSError("closed the connection")
                buffer.received(received)
        except (OSError, MalformedResponse) as failure:
            raise self._gone(failure) from None
        return answered[1]

    def close(self) -> None:
        self._socket.close()

    def _gone(self, failure: Exception) -> PeerGone:
        self.close()
        return PeerGone(f"{self.name}: {_reason(failure)}")


def _secured(
    connected: socket.socket, host: str, name: str, security: SecurityContext
) -> socket.socket:
    tls = security.tls
    if tls is None:
        return connected
    try:
        return tls.wrap_socket(connected, server_hostname=host)
    except OSError as failure:  # ssl.SSLError is one
        connected.close()
        security.check_tls_failure(failure, name)
        raise PeerGone(f"{name}: went away before TLS was agreed on") from None


def _reason(failure: Exception) -> str:
    if isinstance(failure, TimeoutError):
        return "no answer in time"
    return getattr(failure, "strerror", None) or str(failure)
