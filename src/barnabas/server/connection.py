"""One client's connection: bytes in, frames to the dispatcher, answers out in order.

Theory of operation. The socket fills one buffer that belongs to the connection. Whole
frames in it are handed to the dispatcher one after another, as slices, without a copy.
Almost every request is answered before the dispatcher returns; answers of one read go
out in one write. A request that must wait (a long poll, a slow disk) makes the connection
`busy`: nothing more of it is served until the answer is there, as in Kafka, so answers
keep the order of requests without a queue. Back-pressure is the same rule seen from
outside: while busy, or while the client does not read its answers, the socket is not
read once the buffer is full, and the client's own sends come to a stop.
"""

import asyncio
import logging
import struct
from typing import Final, Protocol, cast

from barnabas.base.errors import BarnabasError, LawBroken
from barnabas.server.replies import Answer, Pending, Reply
from barnabas.wire.fetch import Buffer

log = logging.getLogger("barnabas.connection")

FIRST_BUFFER: Final = 16 * 1024
# A buffer that a read filled to the brim is doubled up to here: fewer, larger reads.
READ_AHEAD: Final = 256 * 1024
# A larger buffer goes back once its one large request is served.
KEPT_BUFFER: Final = 4 * 1024 * 1024
_SIZE = struct.Struct(">i")


class Serve(Protocol):
    """Serves one whole frame (without its size). Does not suspend.

    Raises  BarnabasError, if the frame is not a request that can be answered: the
            connection is closed. LawBroken is a bug of ours and is not for clients.
    """

    def __call__(self, frame: memoryview, connection: "Connection", /) -> Reply: ...


class Registry(Protocol):
    """Counts connections: asked before one is served, told when it is over."""

    def admit(self, connection: "Connection") -> str | None:
        """None if the connection may stay, otherwise why not."""
        ...

    def lost(self, connection: "Connection") -> None: ...

    def fatal(self, broken: LawBroken) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """The server's side of one TCP connection."""

    def __init__(
        self,
        serve: Serve,
        registry: Registry,
        max_request_bytes: int,
        listener: str,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._serve = serve
        self._registry = registry
        self._max_request_bytes = max_request_bytes
        self._loop = loop
        self._now = loop.time
        self._buffer = bytearray(FIRST_BUFFER)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._pending: Pending | None = None
        self._write_blocked = False
        self._read_paused = False
        self._transport: asyncio.Transport | None = None
        self._closing = False
        self.last_active = 0.0
        self.listener = listener
        self.host = ""
        self.port = 0
        self.software = ""

    @property
    def peer(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def busy(self) -> bool:
        """Whether a request of this connection still waits for its answer."""
        return self._pending is not None

    def idle_seconds(self) -> float:
        return self._now() - self.last_active

    # -- asyncio's side ------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not asyncio's by class, only by what they do.
        self._transport = cast(asyncio.Transport, transport)
        self.last_active = self._now()
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.host, self.port = peer[0], peer[1]
        if (refusal := self._registry.admit(self)) is not None:
            self.close(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._closing = True
        if self._pending is not None:
            self._pending.abandon()
            self._pending = None
        self._registry.lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        self.last_active = self._now()
        filled = self._end == len(self._buffer)
        if self._pending is None and not self._write_blocked:
            self._serve_frames()
        if self._end == len(self._buffer):
            self._make_room(filled)

    def pause_writing(self) -> None:
        self._write_blocked = True

    def resume_writing(self) -> None:
        self._write_blocked = False
        self._go_on()

    # -- frames --------------------------------------------------------------

    def _serve_frames(self) -> None:
        """Serve every whole frame in the buffer, until one of them has to wait."""
        out: list[Buffer] = []
        refusal = None
        view, start, end, serve = self._view, self._start, self._end, self._serve
        try:
            while end - start >= 4:
                (size,) = _SIZE.unpack_from(view, start)
                if not 0 <= size <= self._max_request_bytes:
                    refusal = _bad_size(size, self._max_request_bytes)
                    break
                after = start + 4 + size
                if after > end:
                    break
                reply = serve(view[start + 4 : after], self)
                start = after
                if reply is None:
                    continue
                if type(reply) is bytes:
                    out.append(reply)
                elif type(reply) is list:
                    out += reply
                else:
                    assert isinstance(reply, Pending)
                    self._pending = reply
                    break
        except LawBroken as broken:
            self._registry.fatal(broken)
            refusal = "the broker stops"
        except BarnabasError as e:
            refusal = str(e)
        except Exception:
            log.exception("request failed peer=%s", self.peer)
            refusal = "a bug in the broker"
        self._send(out)
        if refusal is not None:
            self.close(refusal)
            return
        self._consumed(start)
        if self._pending is not None:
            self._pending.deliver_to(self._answered)

    def _consumed(self, start: int) -> None:
        self._start = start
        if start == self._end:
            self._start = self._end = 0
            if len(self._buffer) > KEPT_BUFFER:
                self._buffer = bytearray(FIRST_BUFFER)
                self._view = memoryview(self._buffer)

    def _answered(self, answer: Answer | None) -> None:
        self._pending = None
        self.last_active = self._now()
        if answer is None:
            self.close("the request cannot be answered")
            return
        self._send([answer] if isinstance(answer, bytes) else answer)
        if self._end > self._start or self._read_paused:
            # Not at once: whoever gave the answer is in the middle of another's request.
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Serve what came in while the connection was busy, then listen again."""
        if self._pending is not None or self._write_blocked or self._closing:
            return
        self._serve_frames()
        if self._end == len(self._buffer):
            self._make_room(False)
        if self._read_paused and self._end < len(self._buffer) and self._transport is not None:
            self._read_paused = False
            self._transport.resume_reading()

    def _send(self, out: list[Buffer]) -> None:
        if not out or self._transport is None:
            return
        if len(out) == 1:
            self._transport.write(out[0])
        else:
            self._transport.writelines(out)

    def _make_room(self, filled: bool) -> None:
        """Let the socket write more: move the open frame to the front, or to a larger buffer.

        While the connection is busy the buffer stays as it is and reading stops.
        """
        have = self._end - self._start
        wanted = len(self._buffer)
        if have >= 4:
            (size,) = _SIZE.unpack_from(self._view, self._start)
            if 4 + size <= have:  # whole requests wait for their turn
                self._pause_reading()
                return
            # By steps: memory follows what was sent, not what was announced.
            wanted = min(4 + size, 4 * len(self._buffer))
        if filled and wanted < READ_AHEAD:
            wanted = min(READ_AHEAD, max(wanted, 2 * len(self._buffer)))
        if wanted <= len(self._buffer) and self._start > 0:
            self._view[:have] = self._view[self._start : self._end]
        elif wanted > len(self._buffer):
            grown = bytearray(wanted)
            grown[:have] = self._view[self._start : self._end]
            self._buffer, self._view = grown, memoryview(grown)
        else:
            self._pause_reading()
            return
        self._start, self._end = 0, have

    def _pause_reading(self) -> None:
        if not self._read_paused and self._transport is not None and not self._closing:
            self._read_paused = True
            self._transport.pause_reading()

    # -- the end -------------------------------------------------------------

    def close(self, why: str) -> None:
        """Close after what was already answered is sent; one line says why."""
        if not self._closing:
            log.info("connection closed peer=%s why=%s", self.peer, why)
        self.close_quietly()

    def close_quietly(self) -> None:
        """Close for a reason that is not this connection's."""
        self._closing = True
        if self._transport is not None:
            self._transport.close()


def _bad_size(size: int, limit: int) -> str:
    if size < 0:
        return f"frame size {size} is negative: not a Kafka request"
    return f"frame size {size} exceeds socket.request.max.bytes={limit}"
