"""Request frames and the responses to them, without I/O: correlation ids, order, buffers.

A broker answers the requests of one connection in the order it received them, so those in flight
form a queue. Small responses pass through one short buffer and are copied out of it. A larger one
gets a buffer of its own, into which the socket writes directly: records are never copied.

This module and the codecs that use it do not import kio: Spark's tasks load it in each process.
"""

import struct
from collections import deque
from typing import Final, Generic, TypeVar

from barnabas.base.errors import BarnabasError
from barnabas.wire.apis import APIS, ApiKey

# As large as a size can be: replica.fetch.response.max.bytes may ask for it.
MOST_RESPONSE_BYTES: Final = 0x7FFFFFFF
SHORT_BUFFER: Final = 16 * 1024
# Allocated at once on the broker's word; beyond it, memory follows what was received.
TRUSTED_BYTES: Final = 16 * 1024 * 1024

_HEADER = struct.Struct(">ihhih")  # size, API, version, correlation id, length of the client id
_TLS_TYPES: Final = range(0x14, 0x18)
_TLS_VERSIONS: Final = range(0x0300, 0x0305)
_HTTP: Final = int.from_bytes(b"HTTP", "big")
_INT = struct.Struct(">i")

Waiting = TypeVar("Waiting")


class MalformedResponse(BarnabasError):
    """The bytes do not answer the request that was sent."""


def request_header(key: ApiKey, version: int, correlation_id: int, client_id: str) -> bytearray:
    """The beginning of a frame; its first four bytes are for its size, see `sized`."""
    name = client_id.encode()
    head = bytearray(_HEADER.pack(0, key, version, correlation_id, len(name)))
    head += name
    if version >= APIS[key].flexible:
        head += b"\0"
    return head


def sized(frame: bytearray) -> bytes:
    """The whole frame with its size in front."""
    frame[:4] = (len(frame) - 4).to_bytes(4, "big")
    return bytes(frame)


def _is_foreign(size: int) -> bool:
    """True if the first word is that of a TLS record or of HTTP, not the size of a response."""
    return (size >> 24 in _TLS_TYPES and (size >> 8) & 0xFFFF in _TLS_VERSIONS) or size == _HTTP


class ResponseBuffer:
    """Cuts what a socket receives into responses.

    A response belongs to the caller. With `reuse`, a large one is valid only until the next: its
    buffer is used again, which spares the kernel a clean page for every 4 KiB received.
    """

    def __init__(self, *, reuse: bool = False) -> None:
        self._reuse = reuse
        self._kept = memoryview(b"")
        self._short = memoryview(bytearray(SHORT_BUFFER))
        # The socket writes to `_buffer[_end:]`: the short buffer, or that of one large response.
        self._buffer = self._short
        self._start = 0
        self._end = 0
        self._large = 0  # the size of the response that has its own buffer, or 0

    def writable(self) -> memoryview:
        """Where the next bytes of the socket belong; never empty after `next` returned None."""
        return self._buffer[self._end :]

    def received(self, count: int) -> None:
        """The socket has written so many bytes to `writable`."""
        self._end += count

    def next(self) -> memoryview | None:
        """The next whole response without its size; None until more is received.

        Raises  MalformedResponse, if no response can have the size that is announced
        """
        if self._large:
            return self._next_large()
        view, start, left = self._short, self._start, self._end - self._start
        if left >= 4:
            (size,) = _INT.unpack_from(view, start)
            if size < 4 or _is_foreign(size):
                raise MalformedResponse(f"announces an answer of {size} bytes")
            if size <= left - 4:
                self._start = start + 4 + size
                return memoryview(bytes(view[start + 4 : self._start]))
            if size > SHORT_BUFFER - 4:
                self._begin_large(size, view[start + 4 : self._end])
                return None
        if start:
            view[:left] = view[start : self._end]
            self._start, self._end = 0, left
        return None

    def _begin_large(self, size: int, begun: memoryview) -> None:
        trusted = min(size, TRUSTED_BYTES)
        kept = len(self._kept) >= trusted
        self._buffer = self._kept[:trusted] if kept else memoryview(bytearray(trusted))
        self._buffer[: len(begun)] = begun
        self._start, self._end, self._large = 0, len(begun), size

    def _next_large(self) -> memoryview | None:
        if self._end == self._large:
            response = self._buffer
            if self._reuse and len(response) > len(self._kept):
                self._kept = response
            self._buffer, self._end, self._large = self._short, 0, 0
            return response
        if self._end == len(self._buffer):
            larger = memoryview(bytearray(min(self._large, 4 * self._end)))
            larger[: self._end] = self._buffer
            self._buffer = larger
        return None


class InFlightRequests(Generic[Waiting]):
    """The requests of one connection that are not answered yet, oldest first."""

    def __init__(self, *, reuse_buffer: bool = False) -> None:
        self.buffer = ResponseBuffer(reuse=reuse_buffer)
        self._last_correlation_id = 0
        self._queue: deque[tuple[int, Waiting]] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def next_correlation_id(self) -> int:
        self._last_correlation_id = self._last_correlation_id % 0x7FFFFFFF + 1
        return self._last_correlation_id

    def add(self, correlation_id: int, waiting: Waiting) -> None:
        """The request with this id is about to be sent; `waiting` gets its response."""
        self._queue.append((correlation_id, waiting))

    def next(self) -> tuple[Waiting, memoryview] | None:
        """The next response after its correlation id, and who waits for it; None if none is whole.

        Raises  MalformedResponse, if it is not the response to the oldest request
        """
        response = self.buffer.next()
        if response is None:
            return None
        (correlation_id,) = _INT.unpack_from(response)
        if not self._queue or self._queue[0][0] != correlation_id:
            raise MalformedResponse(f"answers {correlation_id}, which is not its turn")
        return self._queue.popleft()[1], response[4:]

    def drain(self) -> list[Waiting]:
        """All that wait; they will get no response."""
        waiting = [each for _, each in self._queue]
        self._queue.clear()
        return waiting
