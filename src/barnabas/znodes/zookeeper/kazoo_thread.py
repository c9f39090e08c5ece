"""The border to kazoo's thread: what it settles and sees is handed to the event loop, in order.

kazoo is told by its handler how to wait, connect and report. This one has no
threads of its own beside kazoo's connection: answers, watches and states go into
one mailbox, which wakes the loop once for many letters, so that nothing overtakes.

It is also quick, for reads by the thousand: requests and answers go through
buffers, so that a system call moves many of them, and asking never blocks the loop.
"""

import asyncio
import select
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import Callback

# How long a server may take to accept a connection; less than kazoo waits for its thread to end.
CONNECT_WITHIN_S: Final = 5.0
_BUFFER_BYTES: Final = 64 * 1024

Receiver: TypeAlias = Callable[[Any, Exception | None], None]


class Mailbox:
    """Calls on the event loop what any thread posts, in the order posted."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._letters: deque[Callable[[], None]] = deque()
        self._announced = False

    def post(self, letter: Callable[[], None]) -> None:
        self._letters.append(letter)
        if not self._announced:
            self._announced = True
            with suppress(RuntimeError):  # the loop is closed: nobody is left who wants to know
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        # First, so that who posts from now on announces it again.
        self._announced = False
        while self._letters:
            self._letters.popleft()()


class Reply:
    """What kazoo will answer to one request; settled by its thread, received on the loop."""

    __slots__ = ("_mailbox", "_outcome", "receiver")

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._outcome: tuple[Any, Exception | None] = (None, None)
        # Set by who asked, in the same step of the loop, and so before anything is delivered.
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
    """Both ends of the pair by which kazoo wakes its thread: rung once per request.

    Ringing never blocks, however many requests wait. It sounds when the loop has
    done what it is doing, so that all requests made at once wake the thread once.
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
        with suppress(OSError):  # closed meanwhile: nobody is to be woken
            self._writer.send(b"\0")

    def recv(self, _: int) -> bytes:
        """Take one ring."""
        if self._rings:
            self._rings.popleft()
        return b"\0"

    def quieten(self) -> None:
        """For the thread that it woke, which has to look at `pending` after this."""
        self._reader.recv(_BUFFER_BYTES)
        self._sounds = False

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


class BufferedSocket:
    """A connection to a server that reads ahead, and sends when there is nothing else to do."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._received = memoryview(b"")
        self.unsent = bytearray()

    def fileno(self) -> int:
        return self._connection.fileno()

    def setblocking(self, flag: bool) -> None:
        self._connection.setblocking(flag)

    def pending(self) -> int:
        """How many bytes `recv` has without asking the network."""
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
        """Send as much as the network takes now."""
        if self.unsent:
            with suppress(BlockingIOError):
                del self.unsent[: self._connection.send(self.unsent)]

    def close(self) -> None:
        self._connection.close()

    def break_off(self) -> None:
        """From any thread: let whoever waits for this connection see its end."""
        with suppress(OSError):  # it has ended already
            self._connection.shutdown(socket.SHUT_RDWR)


class _Event(threading.Event):
    """Cleared only while nobody asks; so what was asked was asked before.

    kazoo clears the event that says "connected" and then fails all that was asked.
    What slipped in between would be sent after a reconnect, when its asker has long
    been told that the connection was lost and has looked whether it was done.
    """

    def __init__(self, asking: threading.Lock) -> None:
        super().__init__()
        self._asking = asking

    def clear(self) -> None:
        with self._asking:
            super().clear()


class MailboxHandler(SequentialThreadingHandler):
    """Tells kazoo's thread how to wait, connect and report; for one session only."""

    running = True

    def __init__(self, mailbox: Mailbox) -> None:
        self.mailbox = mailbox
        # Held by who asks kazoo for something, from seeing that it is connected until it is asked.
        self.asking = threading.Lock()
        self._socket: BufferedSocket | None = None
        self._over = False

    def start(self) -> None:
        """There are no worker threads."""

    def stop(self) -> None:
        """There are no worker threads."""

    def end(self) -> None:
        """Break off the connection and allow no other: the session is over."""
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
        self._socket = BufferedSocket(connection)
        # kazoo begins another session by itself when one has expired. Its owner has to hear of
        # the end first, and nothing may be done for it in a session that it does not know.
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
        """Wait as select.select does, but for buffers too; what is to be sent never waits."""
        if writers:
            return [], list(writers), []
        if len(readers) == 1 and timeout is not None:
            # For the rest of an answer; above all for a session's first on a new connection, which
            # a server that is starting may forget. kazoo would wait as long as the session lasts.
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
    """What can be read, by file number; 0 where there is only room to send more."""
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
