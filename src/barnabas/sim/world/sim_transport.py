"""One end of a simulated connection: asyncio's transport and the kernel's TCP behaviour."""

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, cast

from barnabas.sim.world.sim_loop import Host

Address = tuple[str, int]

# The socket buffers of both sides, beyond which a sender is paused.
KERNEL_BYTES: Final = 256 * 1024
HIGH_WATER: Final = 64 * 1024


class Carrier(Protocol):
    """The network, as a transport uses it."""

    def send(
        self, end: "SimTransport", callback: Callable[..., object], *args: Any, size: int = 0
    ) -> None: ...

    def pieces(self, data: bytes) -> list[bytes]: ...

    def arrived(self, end: "SimTransport", data: bytes) -> bool: ...

    def soon(self, host: Host | None, callback: Callable[..., object], *args: Any) -> None: ...

    def later(self, seconds: float, callback: Callable[[], object]) -> asyncio.TimerHandle: ...

    def gone(self, end: "SimTransport") -> None: ...


class SimTransport(asyncio.Transport):
    """A transport; its `on_...` methods are called by the network.

    It buffers data until `begin`. Once `is_gone`, it answers data with a reset.
    """

    other: "SimTransport"

    def __init__(
        self, network: Carrier, host: Host | None, sockname: Address, peername: Address
    ) -> None:
        super().__init__({"sockname": sockname, "peername": peername})
        self._network = network
        self.host = host
        self.names = (sockname[0], peername[0])
        self.is_gone = False
        self.has_given_up = False
        # Later packets must not arrive before this time.
        self.last_arrival = 0.0
        self._protocol: asyncio.BaseProtocol | None = None
        self._received: deque[bytes] = deque()
        self._is_eof = False
        self._is_reading = True
        self._is_due = False
        self._is_closing = False
        self._unread = 0  # of what was written, by the other side
        self._high_water = HIGH_WATER
        self._is_write_paused = False
        self._giving_up: asyncio.TimerHandle | None = None

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """Attach the protocol; runs on its host."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._read_soon()

    # -- asyncio's side: writing ---------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or self.is_gone or not data:
            return
        for piece in self._network.pieces(bytes(data)):
            self._unread += len(piece)
            self._network.send(self, self.other.on_data, piece, size=len(piece))
        if self._unread > KERNEL_BYTES + self._high_water and not self._is_write_paused:
            self._is_write_paused = True
            if self._protocol is not None:
                self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return max(0, self._unread - KERNEL_BYTES)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_water = HIGH_WATER if high is None else high

    def can_write_eof(self) -> bool:
        return False

    # -- asyncio's side: reading and ending ----------------------------------

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._read_soon()

    def is_reading(self) -> bool:
        return self._is_reading

    def is_closing(self) -> bool:
        return self._is_closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def close(self) -> None:
        """Close once all written data is in the socket buffers."""
        if not self._is_closing:
            self._is_closing = True
            self._received.clear()
            self._finish_if_sent()

    def abort(self) -> None:
        """Close now; the other side may miss the last writes."""
        if not self.is_gone:
            self.reset()
            self._lose(None)

    def _finish_if_sent(self) -> None:
        if self._is_closing and not self.is_gone and self._unread <= KERNEL_BYTES:
            self._network.send(self, self.other.on_eof)
            self._lose(None)

    def _read_soon(self) -> None:
        if not self._is_due and self._is_reading and (self._received or self._is_eof):
            self._is_due = True
            self._network.soon(self.host, self._read)

    def _read(self) -> None:
        """Pass received data to the protocol while it reads."""
        self._is_due = False
        taken = 0
        while self._received and self._is_reading and not (self._is_closing or self.is_gone):
            data = self._received.popleft()
            if (rest := self._feed(data)) is not None:
                self._received.appendleft(rest)
            taken += len(data) - len(rest or b"")
        if taken:
            self._network.soon(self.other.host, self.other.on_read, taken)
        done = self._is_eof and not self._received and self._is_reading
        if done and not (self._is_closing or self.is_gone):
            protocol = cast(asyncio.Protocol, self._protocol)
            if not protocol.eof_received():
                self.close()

    def _feed(self, data: bytes) -> bytes | None:
        protocol = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            cast(asyncio.Protocol, protocol).data_received(data)
            return None
        buffer = memoryview(protocol.get_buffer(len(data)))
        size = min(len(buffer), len(data))
        if not size:
            raise RuntimeError("get_buffer() returned an empty buffer")
        buffer[:size] = data[:size]
        protocol.buffer_updated(size)
        return data[size:] or None

    # -- the network's side --------------------------------------------------

    def on_data(self, data: bytes) -> None:
        """Data has arrived at the machine; the process reads it when it runs."""
        if not self._network.arrived(self, data):
            return
        if self.is_gone or self._is_closing:
            self.reset()
            return
        self._received.append(data)
        if self._protocol is not None:
            self._read_soon()

    def on_eof(self) -> None:
        self._is_eof = True
        if self._protocol is not None and not self.is_gone:
            self._read_soon()

    def on_reset(self) -> None:
        """The other side has no such connection."""
        if not self.is_gone:
            self._lose(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))

    def on_read(self, size: int) -> None:
        """The other side has read data."""
        self._unread -= size
        if self._is_write_paused and self._unread <= KERNEL_BYTES:
            self._is_write_paused = False
            if self._protocol is not None and not (self.is_gone or self._is_closing):
                self._protocol.resume_writing()
        self._finish_if_sent()

    def reset(self) -> None:
        """Send a reset to the other side."""
        self._network.send(self, self.other.on_reset)

    def give_up_in(self, seconds: float) -> None:
        """Close this side after `seconds` without an acknowledgement."""
        if self._giving_up is None and not self.is_gone:
            self._giving_up = self._network.later(seconds, self._give_up)

    def go_on(self) -> None:
        """Sent data was acknowledged: cancel the give-up timer."""
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _give_up(self) -> None:
        if not self.is_gone:
            self.has_given_up = True
            self._lose(TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))

    def _lose(self, error: Exception | None) -> None:
        self.is_gone = True
        self._is_closing = True
        self.go_on()
        self._received.clear()
        self._network.gone(self)
        if self._protocol is not None:
            self._network.soon(self.host, self._protocol.connection_lost, error)


class SimServer(asyncio.AbstractServer):
    """A listening socket, as asyncio's servers."""

    def __init__(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Host | None,
        address: Address,
        closed: Callable[[Address], None],
    ) -> None:
        self._protocol_factory = protocol_factory
        self.host = host
        self._address = address
        self._closed = closed
        self._is_serving = False

    @property
    def sockets(self) -> "tuple[SimServer, ...]":
        return (self,)

    def getsockname(self) -> Address:
        return self._address

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """Ignored: only the link limits the data in flight."""

    def take(self, end: SimTransport) -> None:
        """Accept a connection; runs on the server's host."""
        if self._is_serving and not end.is_gone:
            end.begin(self._protocol_factory())
        else:
            end.abort()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def is_serving(self) -> bool:
        return self._is_serving

    async def start_serving(self) -> None:
        self._is_serving = True

    async def serve_forever(self) -> None:
        await asyncio.get_running_loop().create_future()

    def close(self) -> None:
        self._is_serving = False
        self._closed(self._address)

    async def wait_closed(self) -> None:
        return
