"""One client's connection: bytes in, frames to the dispatcher, responses out in order.

Theory of operation. The socket fills the connection's receive buffer. Whole frames in it go to the
dispatcher one after another, as slices, without a copy. Almost every request is answered before
the dispatcher returns; the responses of one read leave in one write. A request that must wait (a
long poll, a slow disk) holds back all requests behind it, as in Kafka. Only a Produce that waits
for followers, its batches being in the log, lets the Produce behind it begin: their responses are
queued in the order of the requests. Back-pressure follows from this: while the next request may
not begin, or while the client does not read its responses, a full buffer stops the reading, and
the client's own sends come to a halt. So they do while `RequestMemory` has no more for a large
request.
"""

import asyncio
import logging
import struct
from functools import partial
from typing import Final

from barnabas.base.errors import BarnabasError, LawBroken
from barnabas.base.failures import FailureChannel
from barnabas.security.client_quotas import ClientMeters
from barnabas.security.principal import ANONYMOUS
from barnabas.server.fetching.cached_partitions import NamedPartitions
from barnabas.server.metrics.request_statistics import TIMED_ONE_IN, RequestStatistics
from barnabas.server.network.connection_ports import Authentication, Registry, Serve
from barnabas.server.network.connection_state import NEXT, ConnectionEvent, ConnectionState
from barnabas.server.network.known_requests import KnownRequests
from barnabas.server.network.low_water import LowWater
from barnabas.server.network.receive_buffer import (
    FIRST_BUFFER,
    LARGE,
    NOTHING_RECEIVED,
    BadFrameSize,
    ReceiveBuffer,
)
from barnabas.server.network.reply_queue import ReplyQueue
from barnabas.server.network.request_memory import RequestMemory
from barnabas.server.network.sending import SocketWriter
from barnabas.server.requests.fast_path import SEND_AT, Shortcut, serve_known
from barnabas.server.requests.replies import Answer, Pending, Refusal, Reply
from barnabas.wire.fetch.fetch_codec import Buffer

log = logging.getLogger("barnabas.connection")

# After so many bytes of responses in a row other connections have their turn.
MOST_IN_A_ROW: Final = 4 * 1024 * 1024
_API = struct.Struct(">h")
_PRODUCE: Final = 0
_UNTIMED: Final = TIMED_ONE_IN - 1
_SERVING: Final = ConnectionState.SERVING


class Connection(asyncio.BufferedProtocol):
    """The server's side of one TCP connection."""

    __slots__ = (
        "_blocked_since",
        "_failures",
        "_known",
        "_last",
        "_loop",
        "_max_request_bytes",
        "_memory",
        "_now",
        "_out",
        "_queue",
        "_queued",
        "_read_paused",
        "_reads",
        "_ready",
        "_received",
        "_registry",
        "_repeats",
        "_resumption",
        "_sent",
        "_serve",
        "_since",
        "_state",
        "_statistics",
        "_throttling",
        "_writer",
        "authentication",
        "fetches",
        "host",
        "is_follower",
        "is_stranger",
        "last_active",
        "listener",
        "low_water",
        "meters",
        "most_fetched",
        "now",
        "port",
        "principal",
        "software",
        "taken",
        "waits_for_memory",
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
        memory: RequestMemory,
        authentication: Authentication | None = None,
    ) -> None:
        self._serve = serve
        self.authentication = authentication
        self._registry = registry
        self._max_request_bytes = max_request_bytes
        self._loop = loop
        self._now = self.now = loop.time
        self._failures = failures
        self._state = ConnectionState.NEW
        self._writer: SocketWriter | None = None
        self._received = NOTHING_RECEIVED
        self._memory = memory
        self.taken = 0  # of it: what the buffer was granted beyond the first
        self.waits_for_memory = False
        self.low_water: LowWater | None = None  # of a connection with TLS
        self._read_paused = False
        self._known = KnownRequests(statistics)
        # Responses that are waited for, and those before them that can leave.
        self._queue = ReplyQueue()
        self._ready: list[Buffer] = []
        self._resumption: asyncio.Handle | None = None
        # Of one read: responses to send, their bytes, and the bytes sent before them.
        self._out: list[Buffer] = []
        self._queued = 0
        self._sent = 0
        # Of one read: repeated requests since the last other one, and when the read began if it is
        # to be timed.
        self._repeats = 0
        self._since: int | None = None
        self._reads = 0
        self._statistics = statistics
        self._last = statistics.before_any  # of the API of the last request
        self._blocked_since = 0
        # While a client is beyond its quota none of its requests is served or read.
        self._throttling: asyncio.TimerHandle | None = None
        self.meters: ClientMeters | None = None  # of its shortcuts, if it has a quota
        self.most_fetched: int | None = None  # bytes in one response, by its quota
        self.is_follower = False  # its last Fetch was one of a replica
        self.last_active = 0.0
        self.listener = listener
        self.fetches: NamedPartitions | None = None  # of a client that has no fetch session
        self.host = ""
        self.port = 0
        self.principal = ANONYMOUS
        # Until it is authenticated: it uses up no quota of those whose principal is ANONYMOUS.
        self.is_stranger = False
        self.software = ""

    @property
    def peer(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def busy(self) -> bool:
        """True if a request of this connection still waits for its response."""
        return len(self._queue) > 0

    @property
    def unfinished(self) -> int:
        """The bytes received of a request that is not whole, if the client is to send the rest."""
        received = self._received
        have = received.end - received.start
        if self._queue or self.waits_for_memory or have >= received.announced:
            return 0
        return have

    @property
    def copies_responses(self) -> bool:
        """True if a response that is not sent yet is copied: TLS encrypts it at once."""
        return self._writer is not None and self._writer.is_encrypted

    @property
    def is_unused(self) -> bool:
        """True if no request of this connection is received or waited for."""
        return not self._queue and self._received.start == self._received.end

    @property
    def is_closing(self) -> bool:
        return self._state in (ConnectionState.CLOSING, ConnectionState.CLOSED)

    def idle_seconds(self) -> float:
        return self._now() - self.last_active

    def remember(self, frame: memoryview, size: int, shortcut: "Shortcut") -> None:
        """See `KnownRequests`."""
        self._known.remember(frame, size, shortcut)

    def forget(self) -> None:
        """Serve the next request the long way, where quotas are looked up."""
        self.meters = self.most_fetched = None
        self._known.forget()

    def serve_with(self, serve: Serve, max_request_bytes: int) -> None:
        """Let `serve` have all frames from the next one on."""
        self._serve = serve
        self._max_request_bytes = max_request_bytes
        self._known.forget()

    def _on(self, event: ConnectionEvent) -> None:
        self._state = NEXT[self._state][event]

    # -- asyncio's side ------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._on(ConnectionEvent.CONNECTED)
        self._received = ReceiveBuffer()
        self._writer = SocketWriter(transport)
        self.last_active = self._now()
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.host, self.port = peer[0], peer[1]
        if (refusal := self._registry.admit(self)) is not None:
            self.close_stranger(refusal)
        elif self.authentication is not None:
            self.authentication.begin(self, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        received = self._received
        if not self.is_closing and not self._queue and received.end > received.start:
            self.log_once("connection lost within a request peer=%s", self.peer)
        self._on(ConnectionEvent.LOST)
        if self._throttling is not None:
            self._throttling.cancel()
        self._writer = None
        self._queue.abandon()
        self._known.forget()
        if self.fetches is not None:
            self.fetches.close()
        if self.low_water is not None:
            self.low_water.close()
        self._registry.lost(self)
        if self.authentication is not None:
            self.authentication.end()
        if self.waits_for_memory:
            self._memory.leave(self)
        self.shrink_buffer()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._received.writable()

    def buffer_updated(self, nbytes: int) -> None:
        received = self._received
        received.end += nbytes
        self.last_active = self._now()
        capacity = received.capacity
        was_filled = received.end == received.read_to
        if self._state is _SERVING:
            self._serve_frames()
        if self.low_water is not None and not was_filled:
            self.low_water.after_read(nbytes, received.missing)
        # A buffer that was given back meanwhile is not made larger again.
        if was_filled and received.capacity == capacity and self._read_ahead():
            return
        if received.end == received.read_to:
            self._make_room()

    def pause_writing(self) -> None:
        self._on(ConnectionEvent.WRITES_FULL)
        self._blocked_since = self._statistics.stopwatch()

    def resume_writing(self) -> None:
        self._on(ConnectionEvent.WRITES_DRAINED)
        self._last.send.add(self._statistics.stopwatch() - self._blocked_since)
        self.last_active = self._now()
        self._go_on()

    # -- frames --------------------------------------------------------------

    def _serve_frames(self) -> None:
        """Serve every whole frame in the buffer, until one of them has to wait."""
        received, statistics = self._received, self._statistics
        before = received.start
        self._sent = 0
        self._reads += 1
        self._since = None if self._reads & _UNTIMED else statistics.stopwatch()
        refusal = None
        try:
            while (
                self._state is _SERVING
                and self._throttling is None
                and not (self._queue and self._is_held())
            ):
                if received.end - received.start < 4:
                    break
                if self._known.size and self._serve_known():
                    continue
                if not self._serve_next():
                    break
        except BadFrameSize as e:
            refusal = str(e)
        except Exception as e:
            refusal = self._why_refused(e)
            # `serve_known` may have added responses before it raised.
            self._queued = sum(map(len, self._out))
        if self._repeats:
            self._count_repeats()
        if self._out:
            self._give()
        if refusal is not None:
            self._refuse(refusal)
        statistics.received_bytes += received.start - before
        if received.release() or self._memory.is_short:
            self._give_back(received.start != before)

    def _serve_known(self) -> bool:
        """Serve requests that begin like one before; False if the next is none, or not whole."""
        received, known, meters = self._received, self._known, self.meters
        if meters is not None:
            size = received.end - received.start
            if not meters.have_spare(known.is_produce, size, self._now()):
                return False
            queued, first = self._queued, received.start
            began = 0 if meters.request is None else self._statistics.stopwatch()
        start, served, last_size, self._queued, pending = serve_known(
            received.view,
            received.start,
            received.end,
            self._max_request_bytes,
            known.shortcuts,
            known.size,
            self._out,
            self._queued,
        )
        if not served:
            return False
        if meters is not None:
            took = 0 if meters.request is None else self._statistics.stopwatch() - began
            sent = self._queued - queued + (pending is not None)
            meters.spend(known.is_produce, start - first, sent, took)
        self._repeats += served
        received.start = start
        if last_size >= LARGE:  # nearly all others are spared the call
            received.note_repeated(last_size)
        if pending is not None:
            self._wait_for(pending)
            return True
        if self._queued >= SEND_AT:
            self._give()
            return self._sent < MOST_IN_A_ROW
        # Behind a response that is waited for, the next request may have to wait, too.
        return len(self._queue) > 0

    def _serve_next(self) -> bool:
        """Serve one request the long way; False if it is not whole, or others have their turn."""
        received = self._received
        if self._state is not _SERVING:
            return False
        if self._sent >= MOST_IN_A_ROW:
            # A client that reads as fast as it is answered would have the loop for itself.
            self._go_on_soon()
            return False
        frame = received.next_frame(self._max_request_bytes)
        if frame is None:
            return False
        self._known.api.repeated += self._repeats
        self._repeats, self._since = 0, None
        reply = self._dispatch(frame)
        if type(reply) is bytes:
            self._out.append(reply)
            self._queued += len(reply)
        elif type(reply) is list:
            self._out += reply
            self._queued += sum(map(len, reply))
        elif reply is not None:
            assert isinstance(reply, Pending)
            self._wait_for(reply)
        if self._queued >= SEND_AT:
            self._give()
        return True

    def _dispatch(self, frame: memoryview) -> Reply:
        stopwatch = self._statistics.stopwatch
        began = stopwatch()
        reply = self._serve(frame, self)
        self._last = self._statistics.by_api[_API.unpack_from(frame)[0]]
        self._last.dispatched += 1
        self._last.local.add(stopwatch() - began)
        return reply

    def _count_repeats(self) -> None:
        """Count the repeated requests that a read ended with; a read of only such may be timed."""
        repeats, self._repeats = self._repeats, 0
        self._last = last = self._known.api
        last.repeated += repeats
        if self._since is not None:
            took = self._statistics.stopwatch() - self._since
            last.local.add(took // repeats, repeats * TIMED_ONE_IN)

    def _refuse(self, why: str) -> None:
        """Close once the responses to all requests before are sent."""
        if self._queue:
            self._queue.append(Refusal(why))
        else:
            self.close_stranger(why)

    def _why_refused(self, error: Exception) -> str:
        if isinstance(error, LawBroken):
            self._failures.fatal(error)
            return "the broker stops"
        if isinstance(error, BarnabasError):
            self._statistics.refused += 1
            return str(error)
        log.error("request failed peer=%s", self.peer, exc_info=error)
        return "a bug in the broker"

    # -- responses -----------------------------------------------------------

    def _is_held(self) -> bool:
        """True if the next request has to wait for the responses in the queue."""
        return self._queue.is_closed or self._received.next_api() not in (None, _PRODUCE)

    def _give(self) -> None:
        """Send the responses of this read, or queue them behind those that are waited for."""
        out, size = self._out, self._queued
        if not out:
            return
        self._out, self._queued = [], 0
        self._sent += size
        if self._queue:
            self._queue.append(out)
        else:
            self._send(out, size)

    def _wait_for(self, pending: Pending) -> None:
        self._give()
        pending.since = self._statistics.stopwatch()
        self._queue.append(pending)
        pending.deliver_to(self._answered)
        if not pending.is_read:
            self._lend_buffer(pending)
        elif self.taken and not pending.next_may_begin:
            # Members that join a group wait for minutes, and their requests may be large.
            self._loop.call_soon(self._give_back, False)

    def _answered(self, _: Answer | Refusal) -> None:
        """Send the responses at the head of the queue, unless more are about to come."""
        refusal = self._queue.take(self._ready, self._waited)
        if refusal is not None:
            self.close_stranger(refusal.why)
            self._queue.abandon()
            return
        self.last_active = self._now()
        if not self._queue:
            self._send_ready()
        received = self._received
        if self._ready or received.end > received.start or self._read_paused:
            # Not at once: the caller is in the middle of another connection's request.
            self._go_on_soon()

    def _waited(self, pending: Pending) -> None:
        self._last.remote.add(self._statistics.stopwatch() - pending.since)

    def _send_ready(self) -> None:
        if self._ready:
            out, self._ready = self._ready, []
            self._send(out, sum(map(len, out)))

    def _send(self, out: list[Buffer], size: int) -> None:
        if self._writer is not None:
            self._statistics.sent_bytes += size
            self._writer.send(out, size)

    # -- reading on ----------------------------------------------------------

    def _go_on_soon(self) -> None:
        if self._resumption is None:
            self._resumption = self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Serve the requests that came while others were waited for, then read again."""
        self._resumption = None
        self._send_ready()
        if self._state is not _SERVING or self._throttling is not None:
            return
        self._serve_frames()
        if self._received.is_full:
            self._make_room()
        if (
            self._read_paused
            and self._throttling is None
            and not self._received.is_full
            and self._writer is not None
        ):
            self._read_paused = False
            self._writer.transport.resume_reading()

    def throttle(self, ms: int) -> None:
        """Read nothing more for so long; responses leave as ever."""
        if self._throttling is not None:
            self._throttling.cancel()
        self._throttling = self._loop.call_later(ms / 1000, self._on_throttled)
        self._pause_reading()

    def close_later(self, ms: int, why: str) -> None:
        """Serve nothing, and close then."""
        self._throttling = self._loop.call_later(ms / 1000, self.close, why)
        self._pause_reading()

    def _on_throttled(self) -> None:
        self._throttling = None
        self._go_on()

    def _make_room(self) -> None:
        """Let the socket write more into the buffer, or stop reading while requests wait in it."""
        received = self._received
        is_held = (
            self._state is not _SERVING
            or self._throttling is not None
            or (self._queue and self._is_held())
        )
        wanted = 0 if is_held or self.waits_for_memory else received.wanted()
        if wanted and (wanted == received.granted or self._take(wanted - received.granted)):
            received.make_room(wanted)
        else:
            self._pause_reading()

    def _pause_reading(self) -> None:
        if not self._read_paused and self._writer is not None and not self.is_closing:
            self._read_paused = True
            self._writer.transport.pause_reading()

    # -- memory --------------------------------------------------------------

    def _take(self, size: int) -> bool:
        """Take memory for a part of a large request; False if it has to be waited for."""
        self._registry.watch(self)
        self.waits_for_memory = not self._memory.take(self, size, self._received.announced)
        if self.waits_for_memory:
            return False
        self.taken += size
        return True

    def on_granted(self, size: int) -> None:
        """See `RequestReceiver`."""
        self.taken += size
        self._received.granted += size
        self.waits_for_memory = False
        self.last_active = self._now()
        self._go_on_soon()

    def _read_ahead(self) -> bool:
        """Use a larger buffer if that saves reads, unless memory is short."""
        received = self._received
        capacity = received.larger_capacity()
        size = capacity - received.capacity
        if not size or not self._memory.take_to_read_ahead(size):
            return False
        self.taken += size
        self._registry.watch(self)
        received.enlarge(capacity)
        return True

    def _give_back(self, has_served: bool) -> None:
        """Return the memory of the requests that are served, and the exception from its limit."""
        if self._received.start == self._received.end:
            self.shrink_buffer()
        elif has_served and self.taken:
            self._memory.give_back(self, 0)

    def _lend_buffer(self, pending: Pending) -> None:
        """Leave the buffer to a request that is still read, and receive the next one in another.

        Its memory counts until then, also if the connection is lost. So does a large copy of what
        is received of the next ones, which nobody can refuse any more.
        """
        pending.on_read = partial(self._memory.give_back, self, self.taken)
        self._received.detach()
        self.taken = self._received.granted - FIRST_BUFFER
        if self.taken:
            self._memory.count(self.taken)
            self._registry.watch(self)

    def shrink_buffer(self) -> None:
        """Use a small buffer again: none of the requests in this one is needed any more."""
        if self.taken:
            self._received.shrink()
            taken, self.taken = self.taken, 0
            self._memory.give_back(self, taken)

    # -- the end -------------------------------------------------------------

    def close(self, why: str) -> None:
        """Close once the responses of now are sent; one line in the log says why."""
        if not self.is_closing:
            log.info("connection closed peer=%s why=%s", self.peer, why)
        self.close_quietly()

    def close_stranger(self, why: str) -> None:
        """The same, for a reason that its client may give again and again: see `flood_log`."""
        if not self.is_closing:
            self.log_once("connection closed peer=%s why=%s", self.peer, why)
        self.close_quietly()

    def log_once(self, message: str, *facts: object) -> None:
        """See `flood_log`."""
        self._registry.log_once(self, message, *facts)

    def close_stalled(self, stalled_ms: int) -> None:
        """Close at once: the client does not send the rest of its request."""
        received = self._received
        self.close(
            f"stalled for {stalled_ms} ms after {received.end - received.start} of"
            f" {received.announced} bytes of a request, barnabas.receive.stall.timeout.ms"
        )
        self.abort()

    def abort(self) -> None:
        """Close at once, whatever the client has not read yet."""
        self._on(ConnectionEvent.CLOSE)
        if self._writer is not None:
            self._writer.transport.abort()

    def close_quietly(self) -> None:
        """Close for a reason that is not this connection's."""
        self._send_ready()
        self._on(ConnectionEvent.CLOSE)
        if self._writer is not None:
            self._writer.transport.close()
