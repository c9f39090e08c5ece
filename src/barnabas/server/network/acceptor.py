"""The acceptor of one listening socket: a bounded number of connections in a turn of the loop.

The event loop's own servers accept all that wait at once. After a restart thousands of clients
connect together, and those that are connected already would wait until the last is accepted.
"""

import asyncio
import errno
import logging
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from barnabas.base.flood_log import FloodLog
from barnabas.server.network.handshakes import Handshakes

log = logging.getLogger("barnabas.listeners")

ACCEPTS_IN_A_TURN: Final = 16
# TLS handshakes at a time. The kernel keeps the connections beyond, until some end or stall.
MOST_HANDSHAKES: Final = 256
STALLED_AFTER_S: Final = 3.0
# How long a broker without a free file descriptor waits before it accepts again.
AGAIN_AFTER_SECONDS: Final = 1.0
_SOMAXCONN: Final = Path("/proc/sys/net/core/somaxconn")
_EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class HasDescriptor(Protocol):
    """A socket, as an event loop shows it."""

    def fileno(self) -> int: ...


class NewConnection(Protocol):
    """Makes the protocol of one more connection."""

    def __call__(self) -> Any: ...


class Acceptor:
    """Accepts the connections of a socket that is bound, from `start` to `close`.

    With `handshakes` a connection is made after its TLS handshake.
    """

    def __init__(
        self,
        bound: HasDescriptor,
        new_connection: NewConnection,
        handshakes: Handshakes | None = None,
        floods: FloodLog | None = None,
    ) -> None:
        self._socket = socket.socket(fileno=os.dup(bound.fileno()))
        self._socket.setblocking(False)
        self._new_connection = new_connection
        self._handshakes = handshakes
        self._floods = floods or FloodLog()
        self._is_reading = False
        self._loop = asyncio.get_running_loop()
        # Of those that are not connected yet: socket, its peer, and when it was accepted.
        self._connecting: dict[asyncio.Task[None], tuple[socket.socket, str, float]] = {}
        self._again: asyncio.TimerHandle | None = None

    def start(self, backlog: int) -> None:
        """Listen; up to `backlog` connections may wait to be accepted."""
        # Connections inherit it.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.listen(backlog)
        self._read()

    def close(self) -> None:
        """Accept no more; those that are accepted just now are still connected."""
        self._loop.remove_reader(self._socket)
        if self._again is not None:
            self._again.cancel()
        self._socket.close()
        if self._handshakes is not None:
            self._handshakes.close()

    def _read(self) -> None:
        self._again = None
        self._is_reading = True
        self._loop.add_reader(self._socket, self._on_readable)

    def _on_readable(self) -> None:
        for _ in range(ACCEPTS_IN_A_TURN):
            try:
                accepted, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as e:
                self._on_error(e)
                return
            accepted.setblocking(False)
            task = self._loop.create_task(self._connect(accepted, peer[0]))
            self._connecting[task] = (accepted, peer[0], self._loop.time())
            task.add_done_callback(self._on_connected)
            if self._handshakes is not None and len(self._connecting) >= MOST_HANDSHAKES:
                self._is_reading = False
                self._loop.remove_reader(self._socket)
                self._end_stalled()
                return

    def _end_stalled(self) -> None:
        """Make room: end the handshakes that have not ended by themselves for some time."""
        if self._is_reading or self._socket.fileno() < 0:
            return
        stalled = self._loop.time() - STALLED_AFTER_S
        for accepted, _, since in self._connecting.values():
            if since <= stalled:
                with suppress(OSError):  # its task ends with the connection
                    accepted.shutdown(socket.SHUT_RDWR)
        self._loop.call_later(STALLED_AFTER_S / 4, self._end_stalled)

    async def _connect(self, accepted: socket.socket, host: str) -> None:
        if self._handshakes is not None:
            await self._handshakes.connect(self._new_connection(), accepted, host)
        else:
            await self._loop.connect_accepted_socket(self._new_connection, accepted)

    def _on_connected(self, task: "asyncio.Task[None]") -> None:
        _, host, _ = self._connecting.pop(task)
        is_free = len(self._connecting) < MOST_HANDSHAKES
        if is_free and not self._is_reading and self._again is None and self._socket.fileno() >= 0:
            self._read()
        if not task.cancelled() and (error := task.exception()) is not None:
            now, why = self._loop.time(), _reason(error)
            self._floods.info(host, now, "connection not accepted peer=%s why=%s", host, why)

    def _on_error(self, error: OSError) -> None:
        """Wait for connections to close; the kernel keeps those that are not accepted."""
        if error.errno not in _EXHAUSTED:
            log.error("connection not accepted: %s", error)
            return
        log.error("connections not accepted for %g s: %s", AGAIN_AFTER_SECONDS, error)
        self._is_reading = False
        self._loop.remove_reader(self._socket)
        self._again = self._loop.call_later(AGAIN_AFTER_SECONDS, self._read)


def _reason(error: BaseException) -> str:
    return getattr(error, "reason", None) or str(error) or type(error).__name__


def allowed_backlog(wanted: int) -> int:
    """The backlog that the kernel allows, at most `wanted`."""
    try:
        return min(wanted, int(_SOMAXCONN.read_text()))
    except (OSError, ValueError):
        return wanted
