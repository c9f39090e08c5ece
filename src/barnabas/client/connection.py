"""A connection to a broker on an event loop: requests out, responses in order, one end for all.

Several tasks may have requests in flight. There is no way to go on after a response that is late,
wrong or unreadable: the connection closes, and every request in flight fails with the same
`PeerGone`. The owner then opens another connection.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Self, cast

from barnabas.base.errors import PeerGone
from barnabas.client.frames import InFlightRequests, MalformedResponse
from barnabas.client.oauth_login import TokenNotGranted
from barnabas.client.requests import read_response, write_request
from barnabas.client.security import PLAINTEXT, AuthenticationFailed, Frame, SecurityContext
from barnabas.client.versions import read_versions, versions_request
from barnabas.wire.apis import ApiKey
from barnabas.wire.fetch.fetch_codec import Buffer
from barnabas.wire.schema import Message

# The future of a response, and the timer that gives it up.
_Waiting = tuple["asyncio.Future[memoryview]", asyncio.TimerHandle]


class AsyncConnection(asyncio.BufferedProtocol):
    """The client's side of one TCP connection; made by `connect`."""

    def __init__(self, name: str, client_id: str, loop: asyncio.AbstractEventLoop) -> None:
        self.name = name
        self.client_id = client_id
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._why_closed: str | None = None
        self._in_flight: InFlightRequests[_Waiting] = InFlightRequests()

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_s: float,
        security: SecurityContext = PLAINTEXT,
    ) -> Self:
        """A connection that is ready for requests.

        Raises  PeerGone, if the broker is not reached in time
                AuthenticationFailed, if either side does not trust the other
                In both cases, and if it is cancelled, nothing is left open
        """
        loop = asyncio.get_running_loop()
        name = f"{host}:{port}"
        tls = security.tls
        options: dict[str, Any] = {} if tls is None else {"ssl": tls, "server_hostname": host}
        try:
            async with asyncio.timeout(timeout_s):
                _, connection = await loop.create_connection(
                    lambda: cls(name, client_id, loop), host, port, **options
                )
        except TimeoutError:
            raise PeerGone(f"{name} is not reached within {timeout_s:g} s") from None
        except (OSError, ValueError, OverflowError) as e:  # the latter: no host, no port
            security.check_tls_failure(e, name)
            raise PeerGone(f"{name} is not reached: {str(e) or 'it closed the connection'}") from e
        if security.login is not None:
            await connection._authenticate(security, timeout_s)
        return connection

    async def _authenticate(self, security: SecurityContext, timeout_s: float) -> None:
        try:
            token = await fetched_token(security)
            steps = security.authenticate(self.name, self.client_id, token)
            frame = next(steps)
            while True:
                frame = steps.send(await self.exchange(frame, timeout_s))
        except StopIteration:
            return
        except MalformedResponse as e:
            raise self._unreadable(e) from e
        except (AuthenticationFailed, TokenNotGranted, asyncio.CancelledError):
            self.close()
            raise

    @property
    def closed(self) -> bool:
        return self._why_closed is not None

    def close(self) -> None:
        """Close now; requests in flight fail. Does nothing if the connection has ended."""
        self._end_all("closed on our side")

    async def versions(self, timeout_s: float) -> dict[ApiKey, int]:
        """The newest version of each API that both sides have. Raises PeerGone."""
        response = await self.exchange(versions_request(self.client_id), timeout_s)
        try:
            return read_versions(response)
        except MalformedResponse as e:
            raise self._unreadable(e) from e

    async def request(
        self, key: ApiKey, version: int, message: Message, timeout_s: float
    ) -> Message:
        """The response to `message`, in the newest version that we know.

        Raises  PeerGone, if the connection ended before the response or because of it
        """
        response = await self.exchange(
            lambda correlation_id: write_request(
                key, version, correlation_id, self.client_id, message
            ),
            timeout_s,
        )
        try:
            return read_response(key, version, response)
        except MalformedResponse as e:
            raise self._unreadable(e) from e

    async def exchange(
        self, frame: Callable[[int], bytes | list[Buffer]], timeout_s: float
    ) -> memoryview:
        """All that follows the correlation id in the response to a frame.

        `frame` is called at once with the correlation id. The view returned belongs to the
        caller: its buffer is not used again.

        Raises  PeerGone, if the connection ended before the response
        """
        transport = self._open()
        correlation_id = self._in_flight.next_correlation_id()
        out = frame(correlation_id)
        response: asyncio.Future[memoryview] = self._loop.create_future()
        timer = self._loop.call_later(timeout_s, self._late, timeout_s)
        self._in_flight.add(correlation_id, (response, timer))
        if isinstance(out, list):
            transport.writelines(out)
        else:
            transport.write(out)
        return await response

    def send_unanswered(self, frame: Frame) -> None:
        """Send a frame that has no response, as a Produce with acks=0.

        Raises  PeerGone, if the connection has ended
        """
        self._open().write(frame(self._in_flight.next_correlation_id()))

    # -- asyncio's side ------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not asyncio's by class, only by what they do.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_all(f"broke the connection: {exc}" if exc else "closed the connection")

    def get_buffer(self, sizehint: int) -> Any:
        return self._in_flight.buffer.writable()

    def buffer_updated(self, nbytes: int) -> None:
        in_flight = self._in_flight
        in_flight.buffer.received(nbytes)
        try:
            while (answered := in_flight.next()) is not None:
                (future, timer), response = answered
                timer.cancel()
                if not future.done():  # else its caller was cancelled
                    future.set_result(response)
        except MalformedResponse as e:
            self._end_all(str(e))

    # -- the end -------------------------------------------------------------

    def _open(self) -> asyncio.Transport:
        if self._transport is None or self._why_closed is not None:
            raise self._gone()
        return self._transport

    def _late(self, timeout_s: float) -> None:
        self._end_all(f"did not answer within {timeout_s:g} s")

    def _end_all(self, why: str) -> None:
        if self._why_closed is not None:
            return
        self._why_closed = why
        if self._transport is not None:
            self._transport.abort()
        for future, timer in self._in_flight.drain():
            timer.cancel()
            if not future.done():
                future.set_exception(self._gone())

    def _unreadable(self, why: MalformedResponse) -> PeerGone:
        self._end_all(f"answers what cannot be read: {why}")
        return self._gone()

    def _gone(self) -> PeerGone:
        return PeerGone(f"{self.name} {self._why_closed or 'is not connected'}")


async def fetched_token(security: SecurityContext) -> bytes | None:
    """The message with a bearer token, if it comes over the network: a thread waits for it.

    Raises  TokenNotGranted
    """
    oauth = None if security.login is None else security.login.oauth
    if oauth is None or oauth.url is None:
        return None
    return await asyncio.get_running_loop().run_in_executor(None, oauth.first_message)
