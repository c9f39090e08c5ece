"""The receive buffer of one connection: bytes in, whole frames out, without I/O.

A frame is its size in four bytes, then as many bytes. Frames are slices of the buffer, without a
copy. The buffer follows what was received, not what a client announces, and shrinks once a large
request is served: connections that wait hold little memory.
"""

import struct
from typing import Final

from barnabas.base.errors import BarnabasError

FIRST_BUFFER: Final = 16 * 1024
# A buffer that a read fills to the brim is doubled up to this: fewer, larger reads.
READ_AHEAD: Final = 256 * 1024
# Requests from this size on are read one at a time.
LARGE: Final = 64 * 1024
# A larger buffer is replaced once its one large request is served, and one for large requests once
# smaller ones follow.
KEPT_BUFFER: Final = 4 * 1024 * 1024
_SIZE = struct.Struct(">i")
_SIZE_AND_API = struct.Struct(">ih")
# The first bytes of other protocols, read as the size of a frame.
_TLS_HANDSHAKE: Final = 0x16
_HTTP: Final = frozenset({b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PRI "})


class BadFrameSize(BarnabasError):
    """The next four bytes are no size of a frame that is accepted."""


class ReceiveBuffer:
    """Bytes from `start` to `end` are received and not served yet; reading stops at `read_to`."""

    __slots__ = ("_last_large", "capacity", "end", "read_to", "start", "view")

    def __init__(self) -> None:
        self.capacity = FIRST_BUFFER
        self.view = memoryview(bytearray(FIRST_BUFFER))
        self.start = 0
        self.end = 0
        self.read_to = FIRST_BUFFER
        self._last_large = 0

    @property
    def is_full(self) -> bool:
        """Whether nothing more can be read before `make_room`."""
        return self.end == self.read_to

    def writable(self) -> memoryview:
        """The part that the next read may fill."""
        view, end, read_to = self.view, self.end, self.read_to
        return view[end:read_to] if end or read_to != self.capacity else view

    def next_frame(self, max_bytes: int) -> memoryview | None:
        """The next whole frame, without its size, which counts as served then; None if it is not
        whole yet.

        Raises  BadFrameSize, nothing changed
        """
        start = self.start
        if self.end - start < 4:
            return None
        (size,) = _SIZE.unpack_from(self.view, start)
        if not 0 <= size <= max_bytes:
            raise BadFrameSize(bad_size(size, max_bytes))
        after: int = start + 4 + size
        if after > self.end:
            return None
        self.start = after
        if size >= LARGE:
            self.note_large(size)
        return self.view[start + 4 : after]

    def note_large(self, size: int) -> None:
        """The last frame that was served is large, and so may be the next one."""
        self._last_large = size + 4

    def next_api(self) -> int | None:
        """The API key of the next request, if that much is received."""
        if self.end - self.start < _SIZE_AND_API.size:
            return None
        api: int = _SIZE_AND_API.unpack_from(self.view, self.start)[1]
        return api

    def release(self) -> None:
        """Use the buffer from its beginning again, if all frames in it are served.

        Large requests often follow each other: reading just up to the end of the next one leaves
        nothing behind it that would have to move to the front.
        """
        if self.start < self.end:
            return
        self.start = self.end = 0
        large, self._last_large = self._last_large, 0
        if self.capacity > (KEPT_BUFFER if large else READ_AHEAD):
            self._replace(FIRST_BUFFER)
        else:
            self.read_to = large or self.capacity

    def grow(self) -> bool:
        """Double an empty buffer that the last read filled; False if it may not be larger."""
        if self.end or self.capacity >= READ_AHEAD:
            return False
        self._replace(min(2 * self.capacity, READ_AHEAD))
        return True

    def make_room(self) -> bool:
        """Make room for the rest of the next frame; False if it is whole: serve it first."""
        have = self.end - self.start
        frame = 4
        if have >= 4:
            frame += _SIZE.unpack_from(self.view, self.start)[0]
            if frame <= have:
                return False
        if frame > self.capacity:
            # By steps: memory follows what was sent, not what was announced.
            self._replace(min(frame, 4 * self.capacity))
        elif self.start + max(frame, have + FIRST_BUFFER // 4) > self.capacity:
            self._move(have, frame)
        limit = self.start + frame if frame >= LARGE else self.capacity
        self.read_to = min(limit, self.capacity)
        return True

    def _move(self, have: int, frame: int) -> None:
        """Put the next frame to the front, in a larger buffer if many frames follow each other."""
        if self.start and self.capacity < READ_AHEAD and frame < LARGE:
            self._replace(min(2 * self.capacity, READ_AHEAD))
        else:
            self.view[:have] = self.view[self.start : self.end]
            self.start, self.end = 0, have

    def _replace(self, size: int) -> None:
        """Go on in another buffer: a response may still refer to a frame in this one."""
        have = self.end - self.start
        buffer = bytearray(size)
        buffer[:have] = self.view[self.start : self.end]
        self.view, self.capacity = memoryview(buffer), size
        self.start, self.end, self.read_to = 0, have, size


def bad_size(size: int, limit: int) -> str:
    """Why a frame of this size is refused."""
    first = _SIZE.pack(size)
    if first[0] == _TLS_HANDSHAKE:
        return "a TLS handshake on a listener without TLS"
    if first in _HTTP:
        return "an HTTP request, not a Kafka request"
    if size < 0:
        return f"frame size {size} is negative: not a Kafka request"
    return f"frame size {size} exceeds socket.request.max.bytes={limit}"
