"""The receive buffer of one connection: bytes in, whole frames out, without I/O.

A frame is its size in four bytes, then as many bytes. Frames are slices of the buffer, without a
copy. Memory follows what was received, not what a client announces: beyond the first buffer, a
buffer is a mapping whose pages take no memory before they are filled, and `granted` is how many
of its bytes may be filled. The buffer shrinks once a large request is served: connections that
wait hold little memory.
"""

import mmap
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
# A large request is granted so much at a time, or an eighth of what was received of it.
GRANTED_AHEAD: Final = 64 * 1024
# From this size on the kernel may back a mapping by pages that are larger than what was received.
_HUGE_PAGE: Final = 2 * 1024 * 1024
_SIZE = struct.Struct(">i")
_SIZE_AND_API = struct.Struct(">ih")
# The first bytes of other protocols, read as the size of a frame.
_TLS_HANDSHAKE: Final = 0x16
_HTTP: Final = frozenset({b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PRI "})


class BadFrameSize(BarnabasError):
    """The next four bytes are no size of a frame that is accepted."""


class ReceiveBuffer:
    """Bytes from `start` to `end` are received and not served yet; reading stops at `read_to`.

    `granted` is `capacity`, except within a large request: then that begins at 0.
    """

    __slots__ = ("_last_large", "capacity", "end", "granted", "read_to", "start", "view")

    def __init__(self, size: int = FIRST_BUFFER) -> None:
        self.capacity = size
        self.granted = size
        self.view = memoryview(bytearray(size))
        self.start = 0
        self.end = 0
        self.read_to = size
        self._last_large = 0

    @property
    def is_full(self) -> bool:
        """True if nothing more can be read before `make_room`."""
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

    @property
    def announced(self) -> int:
        """The size of the next frame, with its four bytes; 4 if it is not known yet."""
        if self.end - self.start < 4:
            return 4
        size: int = _SIZE.unpack_from(self.view, self.start)[0]
        return 4 + size

    def release(self) -> bool:
        """Use the buffer from its beginning again, if all frames in it are served.

        Large requests often follow each other: reading just up to the end of the next one leaves
        nothing behind it that would have to move to the front.

        Returns whether the buffer became the first, small one.
        """
        if self.start < self.end:
            return False
        self.start = self.end = 0
        large, self._last_large = self._last_large, 0
        if self.capacity > (KEPT_BUFFER if large else READ_AHEAD):
            self.shrink()
            return True
        self.read_to = large or self.capacity
        return False

    def shrink(self) -> None:
        """Use the first, small buffer again: nothing in this one is needed."""
        self.start = self.end = 0
        self.granted = FIRST_BUFFER
        self._replace(FIRST_BUFFER)

    def detach(self) -> None:
        """Go on in another buffer: somebody still needs the frames in this one."""
        self._replace(max(FIRST_BUFFER, self.end - self.start))
        self.granted = self.capacity
        self._last_large = 0

    @property
    def may_read_ahead(self) -> bool:
        """True if small frames follow each other so fast that a larger buffer saves reads."""
        if self.capacity >= READ_AHEAD:
            return False
        return self.end == 0 or (self.start > 0 and self.end - self.start < self.announced < LARGE)

    def read_ahead(self) -> None:
        """Double the buffer."""
        self._replace(min(2 * self.capacity, READ_AHEAD))
        self.granted = self.capacity

    def wanted(self) -> int:
        """How many bytes have to be granted for the next part of the next frame.

        Returns 0 if that frame is whole: serve it first.
        """
        have, frame = self.end - self.start, self.announced
        if frame <= have:
            return 0
        return max(self.granted, min(frame, have + max(GRANTED_AHEAD, have // 8)))

    def make_room(self, granted: int) -> None:
        """Make room for as much of the next frame as is granted; `wanted` says how much."""
        have, frame = self.end - self.start, self.announced
        self.granted = granted
        if frame > self.capacity:
            self._replace(frame)
        elif self.start + max(frame, have + FIRST_BUFFER // 4) > self.capacity:
            self.view[:have] = self.view[self.start : self.end]
            self.start, self.end = 0, have
        limit = self.start + frame if frame >= LARGE else self.capacity
        self.read_to = min(limit, granted)

    def _replace(self, size: int) -> None:
        """Go on in another buffer: a response may still refer to a frame in this one."""
        have = self.end - self.start
        view = _new_buffer(size)
        view[:have] = self.view[self.start : self.end]
        self.view, self.capacity = view, size
        self.start, self.end, self.read_to = 0, have, size


# Of a connection that is not made yet: one that waits for a TLS handshake has nothing to receive.
NOTHING_RECEIVED: Final = ReceiveBuffer(0)


def _new_buffer(size: int) -> memoryview:
    """A buffer whose pages take memory once they are filled."""
    if size <= FIRST_BUFFER:
        return memoryview(bytearray(size))
    mapping = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= _HUGE_PAGE and hasattr(mmap, "MADV_NOHUGEPAGE"):
        mapping.madvise(mmap.MADV_NOHUGEPAGE)
    return memoryview(mapping)


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
