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
# Requests from this size on are read to the end of one, so that none has to move to the front.
LARGE: Final = 64 * 1024
# Large requests that repeat are read together, as many as fit this: what a read costs, and what it
# displaces from the processor's caches, is paid once for all of them. Eight of 64 KiB fit, or four
# of 128 KiB, with 1 KiB each for what is around the records.
READ_TOGETHER: Final = 520 * 1024
# A larger buffer is replaced once its large requests are served.
KEPT_BUFFER: Final = 4 * 1024 * 1024
# The same once smaller ones were served. Buffers for requests that are read together are kept:
# where sizes are mixed, each read of small ones alone would cost a mapping, and its page faults.
KEPT_FOR_SMALL: Final = 2 * READ_TOGETHER
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

    `granted` is `capacity`, except within a large request: then that begins at 0. `_last_large` is
    the size of the last frame if that is large, until all frames are served: then `_expected` is
    that size, or 0. `_repeats` says that more like it may follow at once.
    """

    __slots__ = (
        "_expected",
        "_last_large",
        "_repeats",
        "capacity",
        "end",
        "granted",
        "read_to",
        "start",
        "view",
    )

    def __init__(self, size: int = FIRST_BUFFER) -> None:
        self.capacity = size
        self.granted = size
        self.view = memoryview(bytearray(size))
        self.start = 0
        self.end = 0
        self.read_to = size
        self._last_large = 0
        self._repeats = False
        self._expected = 0

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
            self._last_large, self._repeats = size + 4, False
        return self.view[start + 4 : after]

    def note_repeated(self, size: int) -> None:
        """The last frame that was served has this size and is like one before: so may be others.

        Such requests do not keep the buffer, so that one may hold several of them.
        """
        if size >= LARGE:
            self._last_large, self._repeats = size + 4, True

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

    @property
    def missing(self) -> int:
        """The bytes that the next frame lacks; 0 if it is whole, or its size not known."""
        have = self.end - self.start
        return 0 if have < 4 else max(0, self.announced - have)

    def release(self) -> bool:
        """Use the buffer from its beginning again, if all frames in it are served.

        Large requests often follow each other: reading just up to the end of one leaves nothing
        behind it that would have to move to the front.

        Returns whether the buffer became the first, small one.
        """
        if self.start < self.end:
            return False
        self.start = self.end = 0
        large, self._last_large = self._last_large, 0
        if self.capacity > (KEPT_BUFFER if large else KEPT_FOR_SMALL):
            self.shrink()
            return True
        self._expected = large
        self.read_to = self._whole_frames(large, self.capacity) if large else self.capacity
        return False

    def _whole_frames(self, large: int, room: int) -> int:
        """The bytes to read: one large frame, or as many as fit if they repeat."""
        count = min(room, READ_TOGETHER) // large if self._repeats else 1
        return max(1, count) * large

    def shrink(self) -> None:
        """Use the first, small buffer again: nothing in this one is needed."""
        self.start = self.end = self._expected = 0
        self.granted = FIRST_BUFFER
        self._replace(FIRST_BUFFER)

    def detach(self) -> None:
        """Go on in another buffer: somebody still needs the frames in this one."""
        self._replace(max(FIRST_BUFFER, self.end - self.start))
        self.granted = self.capacity
        self._last_large = self._expected = 0

    def larger_capacity(self) -> int:
        """The capacity that saves reads if frames follow each other as they did, once a read has
        filled the buffer; the capacity of now if no other does.
        """
        capacity, large = self.capacity, self._expected
        if self.end == 0 and large:
            return max(capacity, self._whole_frames(large, 2 * (capacity // large) * large))
        is_next_small = self.start > 0 and self.end - self.start < self.announced < LARGE
        if self.end == 0 or is_next_small:
            return max(capacity, min(2 * capacity, READ_AHEAD))
        return capacity

    def enlarge(self, capacity: int) -> None:
        """Use a buffer of this capacity, and all of it."""
        self._replace(capacity)
        self.granted = capacity
        if self.end == 0 and self._expected:
            self.read_to = self._whole_frames(self._expected, capacity)

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
        room = self.capacity - self.start
        limit = self._whole_frames(frame, room) if frame >= LARGE else room
        self.read_to = min(self.start + limit, granted)

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
