"""The network between simulated hosts: latency, loss, slow links, partitions, crashed machines.

The fault model, as an application sees TCP. Bytes of one connection arrive complete, in order,
delayed and split anywhere; connections do not block each other. A lost packet arrives later. Data
sent into a partition stalls: it arrives after the partition heals, unless the sender's kernel has
given up. That closes the sender's side only; the other side learns of it when it sends. A process
that dies resets its connections; a machine that dies is silent, and resets them when it is up
again.
"""

import asyncio
import errno
import os
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from barnabas.sim.world.sim_loop import HOST, Host, SimLoop
from barnabas.sim.world.sim_transport import Address, SimServer, SimTransport

# The name of the simulation itself as a peer.
OUTSIDE: Final = "simulation"
FIRST_PORT: Final = 40_000
# How long a kernel retransmits, and how long it tries to connect.
GIVEN_UP_AFTER_S: Final = (4.0, 16.0)
NOT_CONNECTED_AFTER_S: Final = 10.0
# The delay of a retransmission.
SENT_AGAIN_S: Final = (0.2, 1.2)
# The fraction of writes that arrive in two pieces.
CUT_IN_TWO: Final = 0.1
LATENCY_S: Final = (0.0002, 0.003)
OWN_LATENCY_S: Final = 0.00002


@dataclass(frozen=True, slots=True)
class Packet:
    """A callback at the receiver on arrival; `end` is the sender's, once it is connected."""

    end: SimTransport | None
    size: int
    callback: Callable[..., object]
    args: tuple[Any, ...]


@dataclass(slots=True)
class Link:
    """One direction between two hosts."""

    latency_s: float
    is_cut: bool = False
    bytes_per_s: float = 0.0  # 0: unlimited
    loss: float = 0.0
    free_at: float = 0.0
    stalled: list[Packet] = field(default_factory=list)

    def arrival(self, now: float, size: int, random: Random) -> float:
        """The arrival time of a packet sent now."""
        when = now + self.latency_s * random.uniform(0.8, 1.6)
        if self.bytes_per_s:
            self.free_at = max(self.free_at, now) + size / self.bytes_per_s
            when += self.free_at - now
        if self.loss and random.random() < self.loss:
            when += random.uniform(*SENT_AGAIN_S)
        return when


class SimNetwork:
    """Connections between hosts, with faults on each link."""

    def __init__(self, loop: SimLoop, random: Random) -> None:
        self._loop = loop
        self._random = random
        self._links: dict[tuple[str, str], Link] = {}
        self._servers: dict[Address, SimServer] = {}
        self._ends: dict[SimTransport, None] = {}
        self._silent: dict[str, None] = {}
        self._last_port = FIRST_PORT
        self._kernel = Context()  # of no host: packets arrive even while hosts are paused
        # Called with all data that reaches a host, for the trace.
        self.on_arrival: Callable[[str, str, bytes], None] = lambda *_: None

    # -- for asyncio ---------------------------------------------------------

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        name: str,
        port: int,
        start_serving: bool,
    ) -> SimServer:
        """Bind an address. Raises OSError if it is in use or belongs to another host."""
        host = HOST.get()
        if host is not None and host.name != name:
            raise _os_error(errno.EADDRNOTAVAIL)
        address = (name, port or self._next_port())
        if address in self._servers:
            raise _os_error(errno.EADDRINUSE)
        self._servers[address] = server = SimServer(protocol_factory, host, address, self._forget)
        if start_serving:
            await server.start_serving()
        return server

    async def connect(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], name: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect. Raises OSError if the connection is refused or times out."""
        near = HOST.get()
        own = (OUTSIDE if near is None else near.name, self._next_port())
        connected: asyncio.Future[SimTransport] = self._loop.create_future()
        silence = self._loop.call_later(
            NOT_CONNECTED_AFTER_S, _refuse, connected, _os_error(errno.ETIMEDOUT)
        )
        self._carry(
            own[0], name, Packet(None, 0, self._knock, (near, own, (name, port), connected))
        )
        try:
            end = await connected
        finally:
            silence.cancel()
        protocol = protocol_factory()
        end.begin(protocol)
        return end, protocol

    def _knock(
        self,
        near: Host | None,
        own: Address,
        wanted: Address,
        connected: "asyncio.Future[SimTransport]",
    ) -> None:
        """Handle a connection request: refuse it, or create both ends."""
        if wanted[0] in self._silent:
            return
        server = self._servers.get(wanted)
        if server is None or not server.is_serving():
            refusal = (connected, _os_error(errno.ECONNREFUSED))
            self._carry(wanted[0], own[0], Packet(None, 0, _refuse, refusal))
            return
        asking, asked = (
            SimTransport(self, near, own, wanted),
            SimTransport(self, server.host, wanted, own),
        )
        asking.other, asked.other = asked, asking
        self._ends[asking] = self._ends[asked] = None
        self.soon(server.host, server.take, asked)
        self.send(asked, _welcome, asking, connected)

    # -- for transports ------------------------------------------------------

    def send(
        self, end: SimTransport, callback: Callable[..., object], *args: Any, size: int = 0
    ) -> None:
        """Call `callback` at the other side, after everything sent before."""
        source, target = end.names
        self._carry(source, target, Packet(end, size, callback, args))
        if target in self._silent or self._link(target, source).is_cut:  # no acknowledgement
            end.give_up_in(self._random.uniform(*GIVEN_UP_AFTER_S))

    def pieces(self, data: bytes) -> list[bytes]:
        """Split one write into the pieces in which it arrives."""
        if len(data) < 2 or self._random.random() >= CUT_IN_TWO:
            return [data]
        middle = self._random.randrange(1, len(data))
        return [data[:middle], data[middle:]]

    def arrived(self, end: SimTransport, data: bytes) -> bool:
        """Record arriving data; return whether the receiving machine is up."""
        target, source = end.names
        if target in self._silent:
            return False
        self.on_arrival(source, target, data)
        return True

    def soon(self, host: Host | None, callback: Callable[..., object], *args: Any) -> None:
        context = self._kernel if host is None else host.context
        self._loop.call_soon(callback, *args, context=context)

    def later(self, seconds: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        return self._loop.call_later(seconds, callback, context=self._kernel)

    def gone(self, end: SimTransport) -> None:
        self._ends.pop(end, None)

    # -- faults --------------------------------------------------------------

    def cut(self, one: str, other: str, both: bool = True) -> None:
        """Block traffic from one host to another; and back, if `both`."""
        self._link(one, other).is_cut = True
        if both:
            self._link(other, one).is_cut = True

    def slow(self, one: str, other: str, bytes_per_s: float) -> None:
        """Limit the rate between two hosts, in both directions."""
        for link in (self._link(one, other), self._link(other, one)):
            link.bytes_per_s = bytes_per_s

    def lose(self, one: str, other: str, share: float) -> None:
        """Lose a fraction of the packets between two hosts, so that they arrive late."""
        for link in (self._link(one, other), self._link(other, one)):
            link.loss = share

    def reset(self, one: str, other: str) -> int:
        """Reset every connection between two hosts; return their number."""
        broken = [end for end in self._ends if end.names == (one, other)]
        for end in broken:
            end.on_reset()
            end.other.on_reset()
        return len(broken)

    def join(self, one: str, other: str) -> None:
        """Remove all faults between two hosts; stalled data is retransmitted."""
        for link in (self._link(one, other), self._link(other, one)):
            self._mend(link)
        self._acknowledge()

    def heal(self) -> None:
        """Remove all faults between all hosts."""
        for link in self._links.values():
            self._mend(link)
        self._acknowledge()

    def crash(self, name: str, *, silently: bool) -> None:
        """Drop the connections of a dead process, or silently those of a dead machine."""
        if silently:
            self._silent[name] = None
        for address in [address for address in self._servers if address[0] == name]:
            del self._servers[address]
        for end in [end for end in self._ends if end.names[0] == name]:
            end.is_gone = True
            del self._ends[end]
            if not silently:
                end.reset()

    def up(self, name: str) -> None:
        """The machine answers again, and resets its old connections."""
        self._silent.pop(name, None)

    # -- inside --------------------------------------------------------------

    def _link(self, source: str, target: str) -> Link:
        link = self._links.get((source, target))
        if link is None:
            latency_s = OWN_LATENCY_S if source == target else self._random.uniform(*LATENCY_S)
            link = self._links[source, target] = Link(latency_s)
        return link

    def _carry(self, source: str, target: str, packet: Packet) -> None:
        link = self._link(source, target)
        if not link.is_cut:
            self._deliver(packet, link)
            return
        link.stalled.append(packet)
        if packet.end is not None:
            packet.end.give_up_in(self._random.uniform(*GIVEN_UP_AFTER_S))

    def _deliver(self, packet: Packet, link: Link, later_s: float = 0.0) -> None:
        when = link.arrival(self._loop.time(), packet.size, self._random) + later_s
        if (end := packet.end) is not None:
            end.last_arrival = when = max(when, end.last_arrival)
        self._loop.call_at(when, packet.callback, *packet.args, context=self._kernel)

    def _mend(self, link: Link) -> None:
        link.is_cut, link.bytes_per_s, link.loss = False, 0.0, 0.0
        stalled, link.stalled = link.stalled, []
        for packet in stalled:
            # A kernel that gave up sends nothing again.
            if packet.end is None or not packet.end.has_given_up:
                self._deliver(packet, link, self._random.uniform(*SENT_AGAIN_S))

    def _acknowledge(self) -> None:
        """Stop the give-up timers of connections whose hosts reach each other again."""
        for end in self._ends:
            source, target = end.names
            if target not in self._silent and not (
                self._link(source, target).is_cut or self._link(target, source).is_cut
            ):
                end.go_on()

    def _next_port(self) -> int:
        self._last_port += 1
        return self._last_port

    def _forget(self, address: Address) -> None:
        self._servers.pop(address, None)


def _welcome(end: SimTransport, connected: "asyncio.Future[SimTransport]") -> None:
    """The connection is accepted; the caller may have stopped waiting."""
    if connected.done() or end.is_gone:
        end.reset()
    else:
        connected.set_result(end)


def _refuse(connected: "asyncio.Future[SimTransport]", error: OSError) -> None:
    if not connected.done():
        connected.set_exception(error)


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
