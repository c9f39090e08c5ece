"""The bridge from kazoo's thread to the event loop: responses, watches and states, in order.

A kazoo handler defines how kazoo waits, connects and reports. This one starts no
threads beside kazoo's connection: responses, watches and states go through one
mailbox, which keeps their order and wakes the loop once for many of them.

It is fast for thousands of reads: requests and responses are buffered, so that one
system call moves many of them, and sending a request never blocks the loop.
"""

import asyncio
import select
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import Callback

if TYPE_CHECKING:
    import ssl


# The timeout of a connection attempt; shorter than kazoo waits for its thread to end.
CONNECT_WITHIN_S: Final = 5.0
_BUFFER_BYTES: Final = 64 * 1024

Receiver: TypeAlias = Callable[[Any, Exception | None], None]


class Mailbox:
    """Runs callbacks that any thread posts on the event loop, in the order posted."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._letters: deque[Callable[[], None]] = deque()
        self._announced = False

    def post(self, letter: Callable[[], None]) -> None:
        self._letters.append(letter)
        if not self._announced:
            self._announced = True
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        # First, so that a later post announces itself again.
        self._announced = False
        while self._letters:
            self._letters.popleft()()


class Reply:
    """kazoo's response to one request; set by its thread, received on the loop."""

    __slots__ = ("_mailbox", "_outcome", "receiver")

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._outcome: tuple[Any, Exception | None] = (None, None)
        # Set by the caller in the same step of the loop, so before any delivery.
        self.receiver: Receiver | None = None

    def set(self, value: Any = None) -> None:
        self._outcome = (value, None)
        self._mailbox.post(self._deliver)

    def set_exception(self, error: Exception) -> None:
        self._outcome = (None, error)
        self._mailbox.post(self._deliver)

    def _deliver(self) -> None:
        receiver, self.receiver = self.receiver, None
        if receiver is not None:
            receiver(*self._outcome)


class Bell:
    """The socket pair by which kazoo wakes its thread, once per request.

    `send` never blocks, however many requests wait. The wake-up is sent at the end
    of the loop's turn, so that all requests of one turn wake the thread once.
    """

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._rings: deque[None] = deque()
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._sounds = False

    def fileno(self) -> int:
        return self._reader.fileno()

    def pending(self) -> int:
        return len(self._rings)

    def send(self, _: bytes) -> int:
        self._rings.append(None)
        if not self._sounds:
            self._sounds = True
            self._mailbox.post(self._sound)
        return 1

    def _sound(self) -> None:
        with suppress(OSError):  # closed meanwhile
            self._writer.send(b"\0")

    def recv(self, _: int) -> bytes:
        """Remove one ring."""
        if self._rings:
            self._rings.popleft()
        return b"\0"

    def quieten(self) -> None:
        """Acknowledge the wake-up, on the woken thread, which must then check `pending`."""
        self._reader.recv(_BUFFER_BYTES)
        self._sounds = False

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


class BufferedSocket:
    """A connection to a server that reads ahead, and sends when there is nothing else to do.

    The interface is that of a socket, as far as kazoo uses it.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._received = memoryview(b"")
        self.unsent = bytearray()

    def fileno(self) -> int:
        return self._connection.fileno()

    def setblocking(self, flag: bool) -> None:
        self._connection.setblocking(flag)

    def pending(self) -> int:
        """How many bytes `recv` returns without a system call."""
        return len(self._received)

    def recv(self, size: int) -> bytes:
        if not self._received:
            self._received = memoryview(self._connection.recv(_BUFFER_BYTES))
        taken, self._received = self._received[:size], self._received[size:]
        return bytes(taken)

    def send(self, data: memoryview) -> int:
        self.unsent += data
        return len(data)

    def flush(self) -> None:
        """Send as much as the kernel accepts now."""
        if self.unsent:
            with suppress(BlockingIOError):
                del self.unsent[: self._connection.send(self.unsent)]

    def close(self) -> None:
        self._connection.close()

    def break_off(self) -> None:
        """Shut the connection down, from any thread: its reader sees the end."""
        with suppress(OSError):  # it is closed already
            self._connection.shutdown(socket.SHUT_RDWR)


class TlsSocket(BufferedSocket):
    """The same over TLS, whose records may be received in parts."""

    def __init__(self, connection: "ssl.SSLSocket") -> None:
        super().__init__(connection)
        self._tls = connection

    def pending(self) -> int:
        return len(self._received) + self._tls.pending()

    def recv(self, size: int) -> bytes:
        while not self._received:
            try:
                self._received = memoryview(self._tls.recv(_BUFFER_BYTES))
                break
            except BlockingIOError:
                _wait_readable(self)
            except OSError as error:
                if not _wants_more(error):
                    raise
                _wait_readable(self)
        return super().recv(size) if self._received else b""

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            if not _wants_more(error):
                raise

    def break_off(self) -> None:
        with suppress(OSError):
            # Of the plain socket: its reader must not go on without TLS.
            socket.socket.shutdown(self._tls, socket.SHUT_RDWR)


def _wants_more(error: OSError) -> bool:
    return type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError")


def _wait_readable(connection: BufferedSocket) -> None:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    if not poll.poll(CONNECT_WITHIN_S * 1000):
        raise TimeoutError("the rest of a TLS record does not come")


class _Event(threading.Event):
    """An event that is cleared only while no request is being queued.

    When the connection is lost, kazoo clears the "connected" event and then fails all
    queued requests. A request queued in between would be sent after a reconnect, when
    its caller has already received ConnectionLoss and checked whether it was done.
    """

    def __init__(self, asking: threading.Lock) -> None:
        super().__init__()
        self._asking = asking

    def clear(self) -> None:
        with self._asking:
            super().clear()


class MailboxHandler(SequentialThreadingHandler):
    """Defines how kazoo's thread waits, connects and reports, for one session."""

    running = True

    def __init__(self, mailbox: Mailbox, tls: "ssl.SSLContext | None" = None) -> None:
        self.mailbox = mailbox
        self._tls = tls
        # Held while a request is queued, from the check of the connection on.
        self.asking = threading.Lock()
        self._socket: BufferedSocket | None = None
        self._over = False

    def start(self) -> None:
        """No-op: there are no worker threads."""

    def stop(self) -> None:
        """No-op: there are no worker threads."""

    def end(self) -> None:
        """Close the connection and allow no other: the session is over."""
        self._over = True
        if self._socket is not None:
            self._socket.break_off()

    def event_object(self) -> threading.Event:
        return _Event(self.asking)

    def async_result(self) -> Reply:
        return Reply(self.mailbox)

    def dispatch_callback(self, callback: Callback) -> None:
        self.mailbox.post(lambda: callback.func(*callback.args))

    def create_socket_pair(self) -> tuple[Bell, Bell]:
        bell = Bell(self.mailbox)
        return bell, bell

    def create_connection(
        self, address: tuple[str, int], *, timeout: float, **_: object
    ) -> BufferedSocket:
        connection = socket.create_connection(address, min(timeout, CONNECT_WITHIN_S))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            self._socket = BufferedSocket(connection)
        else:
            secured = self._tls.wrap_socket(connection, server_hostname=address[0])
            self._socket = TlsSocket(secured)
        # kazoo begins another session by itself when one has expired. The owner must see the
        # expiration first: nothing may be done for it in a session that it does not know.
        if self._over:
            connection.close()
            raise ConnectionAbortedError("the session is over")
        return self._socket

    def select(
        self,
        readers: Sequence[Bell | BufferedSocket],
        writers: Sequence[BufferedSocket],
        _: Sequence[object],
        timeout: float | None = None,
    ) -> tuple[list[Bell | BufferedSocket], list[BufferedSocket], list[object]]:
        """Wait as select.select does, including buffered data; writers are always ready."""
        if writers:
            return [], list(writers), []
        if len(readers) == 1 and timeout is not None:
            # kazoo waits for the rest of a response. A starting server may drop the first one on a
            # new connection, and kazoo would wait for the whole session timeout.
            timeout = min(timeout, max(CONNECT_WITHIN_S, timeout / 3))
        while True:
            pending = [each for each in readers if each.pending()]
            connections = [each for each in readers if isinstance(each, BufferedSocket)]
            full = any(len(each.unsent) >= _BUFFER_BYTES for each in connections)
            if pending and not full:
                return pending, [], []
            for connection in connections:
                connection.flush()
            events = _poll(readers, 0 if pending else timeout)
            ready = [each for each in readers if each.pending() or events.get(each.fileno())]
            if ready or not events:
                return ready, [], []


def _poll(readers: Sequence[Bell | BufferedSocket], timeout: float | None) -> dict[int, int]:
    """The readable files, by descriptor; 0 for one that is only writable."""
    poll = select.poll()
    for each in readers:
        unsent = isinstance(each, BufferedSocket) and each.unsent
        poll.register(each, select.POLLIN | (select.POLLOUT if unsent else 0))
    events = dict(poll.poll(None if timeout is None else timeout * 1000))
    for each in readers:
        if isinstance(each, Bell) and each.fileno() in events:
            each.quieten()
            events[each.fileno()] = 0
    return {number: event & ~select.POLLOUT for number, event in events.items()}
