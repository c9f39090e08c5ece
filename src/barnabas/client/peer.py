"""One connection to another broker: requests out, answers in order, and an end for all at once.

Theory of operation. Several may ask at a time; requests go out in the order asked and answers
come back in that order, so who waits stands in a queue. There is no way to go on after an
answer that is late, wrong or unreadable: the connection ends, and all who wait are told the
same `PeerGone`. Whoever owns the peer then makes another one.

Small answers come through one short buffer and are copied out of it. From where a larger one is
known, the socket writes into a buffer made for it alone, which is given away whole: records are
never copied, and never change under those who hold them.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Self, cast

from barnabas.base.errors import PeerGone
from barnabas.client.requests import MalformedResponse, read_response, write_request
from barnabas.wire.apis import ApiKey
from barnabas.wire.fetch.fetch_codec import Buffer
from barnabas.wire.schema import Message

# Far more than a broker answers; less than other protocols' first words, read as a size.
MOST_RESPONSE_BYTES: Final = 256 * 1024 * 1024
SHORT_BUFFER: Final = 16 * 1024
# Room made at once on a peer's word; beyond it, memory follows what was sent.
TRUSTED_BYTES: Final = 16 * 1024 * 1024
_SIZE = struct.Struct(">i")

# Correlation id, who waits, and the timer that ends the waiting.
_Waiting = tuple[int, "asyncio.Future[memoryview]", asyncio.TimerHandle]


class Peer(asyncio.BufferedProtocol):
    """The asking side of one TCP connection; made by `connect`."""

    def __init__(self, name: str, client_id: str, loop: asyncio.AbstractEventLoop) -> None:
        self.name = name
        self.client_id = client_id
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._why_closed: str | None = None
        self._last_correlation_id = 0
        self._waiting: deque[_Waiting] = deque()
        self._short = memoryview(bytearray(SHORT_BUFFER))
        # What the socket writes into: the short buffer, or a larger answer's own.
        self._buffer = self._short
        self._end = 0
        # The size of the answer that has a buffer of its own; 0 if there is none.
        self._large = 0

    @classmethod
    async def connect(cls, host: str, port: int, *, client_id: str, timeout_s: float) -> Self:
        """A connection that can be asked.

        Raises  PeerGone, if nobody is there or answers in time; nothing is left open
        """
        loop = asyncio.get_running_loop()
        name = f"{host}:{port}"
        try:
            async with asyncio.timeout(timeout_s):
                _, peer = await loop.create_connection(
                    lambda: cls(name, client_id, loop), host, port
                )
        except TimeoutError:
            raise PeerGone(f"{name} is not reached within {timeout_s:g} s") from None
        except (OSError, ValueError, OverflowError) as e:  # the latter: no host, no port
            raise PeerGone(f"{name} is not reached: {e}") from e
        return peer

    @property
    def closed(self) -> bool:
        return self._why_closed is not None

    def close(self) -> None:
        """End the connection now; all who wait are told. Does nothing if it has ended."""
        self._end_all("closed on our side")

    async def request(
        self, key: ApiKey, version: int, message: Message, timeout_s: float
    ) -> Message:
        """The answer to `message`, in the newest version served.

        Raises  PeerGone, if the connection ended before the answer or because of it
        """
        answer = await self.exchange(
            lambda correlation_id: write_request(
                key, version, correlation_id, self.client_id, message
            ),
            timeout_s,
        )
        try:
            return read_response(key, version, answer)
        except MalformedResponse as e:
            self._end_all(f"answers what cannot be read: {e}")
            raise self._gone() from e

    async def exchange(
        self, frame: Callable[[int], bytes | list[Buffer]], timeout_s: float
    ) -> memoryview:
        """What follows the correlation id in the answer to a frame; the header's tags come first.

        `frame` is given the correlation id and called at once. The view returned belongs to
        the caller: its buffer is not used again.

        Raises  PeerGone, if the connection ended before the answer
        """
        if self._transport is None or self._why_closed is not None:
            raise self._gone()
        self._last_correlation_id = correlation_id = self._last_correlation_id % 0x7FFFFFFF + 1
        out = frame(correlation_id)
        answered: asyncio.Future[memoryview] = self._loop.create_future()
        timer = self._loop.call_later(timeout_s, self._late, timeout_s)
        self._waiting.append((correlation_id, answered, timer))
        if isinstance(out, list):
            self._transport.writelines(out)
        else:
            self._transport.write(out)
        return await answered

    # -- asyncio's side ------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not asyncio's by class, only by what they do.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_all(f"broke the connection: {exc}" if exc else "closed the connection")

    def get_buffer(self, sizehint: int) -> Any:
        return self._buffer[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        if not self._large:
            self._take_short()
        elif self._end == self._large:
            answer = self._buffer
            self._buffer, self._end, self._large = self._short, 0, 0
            self._deliver(answer)
        elif self._end == len(self._buffer):
            self._grow()

    # -- answers -------------------------------------------------------------

    def _take_short(self) -> None:
        """Deliver all whole answers; what is left of the next one moves to where it fits."""
        view, start, end = self._short, 0, self._end
        while end - start >= 4:
            (size,) = _SIZE.unpack_from(view, start)
            if not 4 <= size <= MOST_RESPONSE_BYTES:
                self._end_all(f"announces an answer of {size} bytes")
                return
            if size > end - start - 4:
                break
            self._deliver(memoryview(bytes(view[start + 4 : start + 4 + size])))
            start += 4 + size
        left = end - start
        if left >= 4 and size > SHORT_BUFFER - 4:
            self._large = size
            self._buffer = memoryview(bytearray(min(size, TRUSTED_BYTES)))
            self._buffer[: left - 4] = view[start + 4 : end]
            self._end = left - 4
        else:
            if start:
                view[:left] = view[start:end]
            self._end = left

    def _grow(self) -> None:
        larger = memoryview(bytearray(min(self._large, 4 * len(self._buffer))))
        larger[: self._end] = self._buffer
        self._buffer = larger

    def _deliver(self, answer: memoryview) -> None:
        (correlation_id,) = _SIZE.unpack_from(answer)
        if not self._waiting or self._waiting[0][0] != correlation_id:
            self._end_all(f"answers {correlation_id}, which is not its turn")
            return
        _, answered, timer = self._waiting.popleft()
        timer.cancel()
        if not answered.done():  # else its caller was cancelled, and nobody wants the answer
            answered.set_result(answer[4:])

    # -- the end -------------------------------------------------------------

    def _late(self, timeout_s: float) -> None:
        self._end_all(f"did not answer within {timeout_s:g} s")

    def _end_all(self, why: str) -> None:
        if self._why_closed is not None:
            return
        self._why_closed = why
        if self._transport is not None:
            self._transport.abort()
        waiting, self._waiting = self._waiting, deque()
        for _, answered, timer in waiting:
            timer.cancel()
            if not answered.done():
                answered.set_exception(self._gone())

    def _gone(self) -> PeerGone:
        return PeerGone(f"{self.name} {self._why_closed or 'is not connected'}")
