"""One client's connection: bytes in, frames to the dispatcher, answers out in order.

Theory of operation. The socket fills one buffer that belongs to the connection. Whole
frames in it are handed to the dispatcher one after another, as slices, without a copy.
Almost every request is answered before the dispatcher returns; answers of one read go
out in one write. A request that must wait (a long poll, a slow disk) makes the connection
`busy`: nothing more of it is served until the answer is there, as in Kafka. Only a Produce
whose batches are in the log, and that waits for followers to have them, lets the Produce behind
it begin: their answers stand in line, in the order of the requests. Back-pressure is the same
rule seen from outside: while the next request may not begin, or while the client does not read
its answers, the socket is not read once the buffer is full, and the client's own sends come to
a stop.
"""

import asyncio
import logging
import struct
from typing import Final, cast

from barnabas.base.errors import BarnabasError, LawBroken
from barnabas.base.failures import FailureChannel
from barnabas.server.fetching.fetch_partition import NamedPartitions
from barnabas.server.metrics.request_statistics import TIMED_ONE_IN, RequestStatistics
from barnabas.server.network.bad_size import bad_size
from barnabas.server.network.connection_ports import Registry, Serve
from barnabas.server.network.reply_queue import Line
from barnabas.server.network.sending import send_now, unsent
from barnabas.server.requests.fast_path import SEND_AT, Shortcut, serve_known
from barnabas.server.requests.replies import Answer, Pending, Refusal, Reply
from barnabas.wire.fetch.fetch_codec import Buffer

log = logging.getLogger("barnabas.connection")

FIRST_BUFFER: Final = 16 * 1024
# A buffer that a read filled to the brim is doubled up to here: fewer, larger reads.
READ_AHEAD: Final = 256 * 1024
# Requests from here on are read one at a time.
LARGE: Final = 64 * 1024
# After so many bytes of answers in a row others have their turn.
MOST_IN_A_ROW: Final = 4 * 1024 * 1024
# Below this, one buffer is sent sooner than several.
JOIN_BELOW: Final = 32 * 1024
# A larger buffer goes back once its one large request is served, and one for large requests
# once smaller ones follow: connections that wait hold little.
KEPT_BUFFER: Final = 4 * 1024 * 1024
MOST_SHORTCUTS: Final = 1_000
# Requests begin with names, which are short; one that tags make longer is not remembered.
LONGEST_SHORTCUT: Final = 1_024
_SIZE = struct.Struct(">i")
_HEAD = struct.Struct(">ii")  # API and version, correlation id
_API = struct.Struct(">h")
_SIZE_AND_API = struct.Struct(">ih")
_PRODUCE: Final = 0
_UNTIMED: Final = TIMED_ONE_IN - 1


class Connection(asyncio.BufferedProtocol):
    """The server's side of one TCP connection."""

    __slots__ = (
        "_blocked_since",
        "_buffer",
        "_closing",
        "_descriptor",
        "_end",
        "_failures",
        "_last",
        "_last_large",
        "_line",
        "_loop",
        "_max_request_bytes",
        "_now",
        "_read_paused",
        "_read_to",
        "_reads",
        "_ready",
        "_registry",
        "_repeated",
        "_serve",
        "_shortcut_size",
        "_shortcuts",
        "_start",
        "_statistics",
        "_stopwatch",
        "_transport",
        "_view",
        "_will_go_on",
        "_write_blocked",
        "fetches",
        "host",
        "last_active",
        "listener",
        "port",
        "software",
    )

    def __init__(
        self,
        serve: Serve,
        registry: Registry,
        max_request_bytes: int,
        listener: str,
        loop: asyncio.AbstractEventLoop,
        statistics: RequestStatistics,
        failures: FailureChannel,
    ) -> None:
        self._serve = serve
        self._registry = registry
        self._failures = failures
        self._max_request_bytes = max_request_bytes
        self._loop = loop
        self._now = loop.time
        self._statistics = statistics
        self._stopwatch = statistics.stopwatch
        # Of the API that was asked for last, and of all in line.
        self._last = statistics.before_any
        self._reads = 0
        self._blocked_since = 0
        self._buffer = bytearray(FIRST_BUFFER)
        self._view = memoryview(self._buffer)
        # What was received and not served yet, and where in the buffer reading shall stop.
        self._start = 0
        self._end = 0
        self._read_to = FIRST_BUFFER
        self._last_large = 0
        # Answers that are waited for, and those that can leave.
        self._line = Line()
        self._ready: list[Buffer] = []
        self._will_go_on = False
        self._write_blocked = False
        self._read_paused = False
        self._transport: asyncio.Transport | None = None
        self._descriptor = -1  # of the socket, if bytes may go there as they are
        self._closing = False
        self.last_active = 0.0
        # By what follows the correlation id: what the frame must begin with, and what serves it.
        # All are of one API, where they are counted: no client uses a connection for two at once.
        self._shortcuts: dict[bytes, tuple[int, Shortcut]] = {}
        self._shortcut_size = 0
        self._repeated = statistics.before_any
        self.listener = listener
        self.fetches: NamedPartitions | None = None  # of a client that has no fetch session
        self.host = ""
        self.port = 0
        self.software = ""

    @property
    def peer(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def busy(self) -> bool:
        """Whether a request of this connection still waits for its answer."""
        return len(self._line) > 0

    @property
    def is_closing(self) -> bool:
        return self._closing

    def idle_seconds(self) -> float:
        return self._now() - self.last_active

    def remember(self, frame: memoryview, size: int, shortcut: "Shortcut") -> None:
        """Serve by `shortcut` what begins like this frame, for `size` bytes.

        Only the correlation id, the second four bytes, may differ.
        """
        if size > LONGEST_SHORTCUT:
            return
        api_and_version, _ = _HEAD.unpack_from(frame)
        statistics = self._statistics.by_api[api_and_version >> 16]
        if len(self._shortcuts) >= MOST_SHORTCUTS or statistics is not self._repeated:
            self._shortcuts.clear()
        self._shortcut_size = size
        self._repeated = statistics
        self._shortcuts[bytes(frame[8:size])] = (api_and_version, shortcut)

    def forget(self) -> None:
        """Serve everything the long way again."""
        self._shortcuts.clear()
        self._shortcut_size = 0

    # -- asyncio's side ------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not asyncio's by class, only by what they do.
        self._transport = cast(asyncio.Transport, transport)
        self.last_active = self._now()
        sock = transport.get_extra_info("socket")
        if sock is not None and transport.get_extra_info("sslcontext") is None:
            self._descriptor = sock.fileno()
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.host, self.port = peer[0], peer[1]
        if (refusal := self._registry.admit(self)) is not None:
            self.close(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._closing and not self._line and self._end > self._start:
            log.info("connection lost within a request peer=%s", self.peer)
        self._transport = None
        self._closing = True
        self._line.abandon()
        if self.fetches is not None:
            self.fetches.close()
        self._registry.lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        view, end, read_to = self._view, self._end, self._read_to
        return view[end:read_to] if end or read_to != len(view) else view

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        self.last_active = self._now()
        filled = self._end == len(self._buffer)
        if not self._write_blocked:
            self._serve_frames()
        if filled and len(self._buffer) < READ_AHEAD and not self._end:
            self._replace_buffer(min(2 * len(self._buffer), READ_AHEAD))
        elif self._end == self._read_to:
            self._make_room()

    def pause_writing(self) -> None:
        self._write_blocked = True
        self._blocked_since = self._stopwatch()

    def resume_writing(self) -> None:
        self._write_blocked = False
        self._last.send.add(self._stopwatch() - self._blocked_since)
        self.last_active = self._now()
        self._go_on()

    # -- frames --------------------------------------------------------------

    def _serve_frames(self) -> None:
        """Serve every whole frame in the buffer, until one of them has to wait."""
        line = self._line
        out: list[Buffer] = []
        queued = sent = 0
        refusal = None
        view, start, end, most = self._view, self._start, self._end, self._max_request_bytes
        # How many took a shortcut since the last that did not; timed only if there was none.
        repeated, stopwatch = 0, self._stopwatch
        self._reads += 1
        since = None if self._reads & _UNTIMED else stopwatch()
        try:
            while not self._closing and not (line and self._is_held(start)):
                pending, served = None, 0
                if self._shortcut_size:
                    start, served, size, queued, pending = serve_known(
                        view, start, end, most, self._shortcuts, self._shortcut_size, out, queued
                    )
                    repeated += served
                    if size >= LARGE:
                        self._last_large = size + 4
                is_enough = queued >= SEND_AT
                if is_enough or pending is not None:
                    self._give(out, queued)
                    sent += queued
                    out, queued = [], 0
                if pending is not None:
                    self._line_up(pending)
                    continue
                if served and line:
                    continue  # the next one may have to wait
                if end - start < 4 or self._write_blocked:
                    break
                if sent >= MOST_IN_A_ROW:
                    # Who reads as fast as it is answered would have the loop for itself.
                    self._loop.call_soon(self._go_on)
                    break
                if is_enough and self._shortcut_size:
                    continue
                (size,) = _SIZE.unpack_from(view, start)
                if not 0 <= size <= most:
                    refusal = bad_size(size, most)
                    break
                after = start + 4 + size
                if after > end:
                    break
                if size >= LARGE:
                    self._last_large = size + 4
                self._repeated.repeated += repeated
                repeated, since = 0, None
                reply = self._serve_one(view[start + 4 : after])
                start = after
                if type(reply) is bytes:
                    out.append(reply)
                    queued += len(reply)
                elif type(reply) is list:
                    out += reply
                    queued += sum(map(len, reply))
                elif reply is not None:
                    assert isinstance(reply, Pending)
                    self._give(out, queued)
                    out, queued = [], 0
                    self._line_up(reply)
        except Exception as e:
            refusal = self._why_refused(e)
        if repeated:
            self._last = last = self._repeated
            last.repeated += repeated
            if since is not None:
                last.local.add((stopwatch() - since) // repeated, repeated * TIMED_ONE_IN)
        if refusal is not None:
            self._refuse(refusal, out)
            if self._closing:
                return
        elif out:
            self._give(out, queued)
        self._statistics.received_bytes += start - self._start
        self._consumed(start)

    def _refuse(self, why: str, out: list[Buffer]) -> None:
        """Close once all before it is answered: what is in `out` is, and what stands in line."""
        self._give(out, sum(map(len, out)))
        if self._line:
            self._line.append(Refusal(why))
        else:
            self.close(why)

    def _why_refused(self, error: Exception) -> str:
        if isinstance(error, LawBroken):
            self._failures.fatal(error)
            return "the broker stops"
        if isinstance(error, BarnabasError):
            self._statistics.refused += 1
            return str(error)
        log.error("request failed peer=%s", self.peer, exc_info=error)
        return "a bug in the broker"

    def _serve_one(self, frame: memoryview) -> Reply:
        """The long way of one frame."""
        began = self._stopwatch()
        reply = self._serve(frame, self)
        self._last = self._statistics.by_api[_API.unpack_from(frame)[0]]
        self._last.dispatched += 1
        self._last.local.add(self._stopwatch() - began)
        return reply

    def _consumed(self, start: int) -> None:
        """Note that all before `start` was served, and decide how far to read next.

        Large requests come one like the other: reading just up to the end of the next one
        leaves nothing behind it that would have to be moved to the front.
        """
        self._start = start
        if start < self._end:
            return
        self._start = self._end = 0
        large, self._last_large = self._last_large, 0
        if len(self._buffer) > (KEPT_BUFFER if large else READ_AHEAD):
            self._replace_buffer(FIRST_BUFFER)
        else:
            self._read_to = large or len(self._buffer)

    # -- answers -------------------------------------------------------------

    def _is_held(self, start: int) -> bool:
        """Whether the request that begins there has to wait for those in line."""
        if self._line.is_closed:
            return True
        if self._end - start < _SIZE_AND_API.size:
            return False
        _, api = _SIZE_AND_API.unpack_from(self._view, start)
        return bool(api != _PRODUCE)

    def _give(self, out: list[Buffer], size: int) -> None:
        """Send answers, if there are any, or let them stand in line if there is one."""
        if not self._line and out:
            self._send(out, size)
        elif out:
            self._line.append(out)

    def _line_up(self, pending: Pending) -> None:
        pending.since = self._stopwatch()
        self._line.append(pending)
        pending.deliver_to(self._answered)

    def _answered(self, _: Answer | Refusal) -> None:
        """Send what is there at the beginning of the line, unless more is about to come."""
        refusal = self._line.take(self._ready, self._waited)
        if refusal is not None:
            self.close(refusal.why)
            self._line.abandon()
            return
        self.last_active = self._now()
        if not self._line:
            self._send_ready()
        if (self._ready or self._end > self._start or self._read_paused) and not self._will_go_on:
            # Not at once: whoever gave the answer is in the middle of another's request.
            self._will_go_on = True
            self._loop.call_soon(self._go_on)

    def _waited(self, pending: Pending) -> None:
        self._last.remote.add(self._stopwatch() - pending.since)

    def _send_ready(self) -> None:
        if self._ready:
            out, self._ready = self._ready, []
            self._send(out, sum(map(len, out)))

    def _go_on(self) -> None:
        """Serve what came in while the connection was busy, then listen again."""
        self._will_go_on = False
        self._send_ready()
        if self._write_blocked or self._closing:
            return
        self._serve_frames()
        if self._end == self._read_to:
            self._make_room()
        if self._read_paused and self._end < self._read_to and self._transport is not None:
            self._read_paused = False
            self._transport.resume_reading()

    def _send(self, out: list[Buffer], size: int) -> None:
        """Let the socket take what it can, and leave the rest to the loop."""
        transport = self._transport
        if transport is None:
            return
        self._statistics.sent_bytes += size
        # A transport that closes may have let go of the descriptor, and another have got it.
        if (
            self._descriptor >= 0
            and not transport.get_write_buffer_size()
            and not transport.is_closing()
        ):
            sent = send_now(self._descriptor, out)
            if sent == size:
                return
            out, size = unsent(out, sent), size - sent
        if len(out) == 1:
            transport.write(out[0])
        elif size <= JOIN_BELOW:
            transport.write(b"".join(out))
        else:
            transport.writelines(out)

    def _make_room(self) -> None:
        """Let the socket write more: behind the open frame, or with it moved to where it fits.

        What waits for its turn stays as it is, and reading stops.
        """
        if self._write_blocked or (self._line and self._is_held(self._start)):
            self._pause_reading()
            return
        have = self._end - self._start
        frame = 4
        if have >= 4:
            frame += _SIZE.unpack_from(self._view, self._start)[0]
            if frame <= have:
                self._pause_reading()
                return
        capacity = len(self._buffer)
        if frame > capacity:
            # By steps: memory follows what was sent, not what was announced.
            self._replace_buffer(min(frame, 4 * capacity))
        elif self._start + max(frame, have + FIRST_BUFFER // 4) <= capacity:
            pass
        elif self._start and capacity < READ_AHEAD and frame < LARGE:
            # More come in a row than it has room for.
            self._replace_buffer(min(2 * capacity, READ_AHEAD))
        else:
            self._view[:have] = self._view[self._start : self._end]
            self._start, self._end = 0, have
        capacity = len(self._buffer)
        self._read_to = min(self._start + frame, capacity) if frame >= LARGE else capacity

    def _replace_buffer(self, size: int) -> None:
        """Go on in another buffer; a frame served from this one may still be referred to."""
        have = self._end - self._start
        buffer = bytearray(size)
        buffer[:have] = self._view[self._start : self._end]
        self._buffer, self._view = buffer, memoryview(buffer)
        self._start, self._end, self._read_to = 0, have, size

    def _pause_reading(self) -> None:
        if not self._read_paused and self._transport is not None and not self._closing:
            self._read_paused = True
            self._transport.pause_reading()

    # -- the end -------------------------------------------------------------

    def close(self, why: str) -> None:
        """Close once what was already answered is sent; one line says why."""
        if not self._closing:
            log.info("connection closed peer=%s why=%s", self.peer, why)
        self.close_quietly()

    def abort(self) -> None:
        """Close at once, whatever the client has not read yet."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def close_quietly(self) -> None:
        """Close for a reason that is not this connection's."""
        self._send_ready()
        self._closing = True
        if self._transport is not None:
            self._transport.close()
