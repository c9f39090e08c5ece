"""Connection quotas: how many connections a broker accepts, and how fast: in all, by one listener
and from one address.

A connection beyond a number is closed; one beyond a rate waits, unread, or is closed later if the
rate is that of its address. The listener of the other brokers, unless it is the only one, has only
limits of its own: clients cannot shut brokers out. Connections over TLS count from the beginning
of their handshakes.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final, NamedTuple

from barnabas.base.errors import ConfigError
from barnabas.security.client_quotas import ClientQuotas
from barnabas.security.quota_rate import WINDOW_S, WINDOWS, Meter

# Linux doubles it, for what it keeps beside the bytes.
NEAR_RECEIVE_BUFFER: Final = 48 * 1024
_NO_RATE: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """The limits of one listener, or of all: connections, and new ones per second."""

    max_connections: int
    creation_rate: int = _NO_RATE


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits on connections and requests, by Kafka's property names."""

    socket_request_max_bytes: int
    connections_max_idle_ms: int
    max_connections: int
    max_connections_per_ip: int
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_connection_creation_rate: int = _NO_RATE
    of_listeners: Mapping[str, ListenerLimits] = field(default_factory=dict)
    protected_listener: str = ""
    socket_listen_backlog_size: int = 4096
    queued_max_request_bytes: int = -1
    receive_stall_timeout_ms: int = 30_000
    socket_send_buffer_bytes: int = -1
    socket_receive_buffer_bytes: int = -1

    def socket_options(self, address: str, has_tls: bool) -> Mapping[int, int]:
        """The options of a socket that is bound to this address, before it listens; where it is -1
        the operating system chooses.

        With TLS, one that only this machine reaches has a small receive buffer. Librdkafka sends
        one or two TLS records for each message, each with a system call. While the buffer has room
        each record goes through all of TCP by itself, in the client's time, and wakes up the
        broker; while it is full, the client's kernel joins them. A buffer that shrinks only after
        the connection is accepted would make the sender wait for its timer.
        """
        received = self.socket_receive_buffer_bytes
        if received < 0 and has_tls and ip_address(address).is_loopback:
            received = NEAR_RECEIVE_BUFFER
        wanted = {socket.SO_SNDBUF: self.socket_send_buffer_bytes, socket.SO_RCVBUF: received}
        return {option: size for option, size in wanted.items() if size > 0}


class Admission(NamedTuple):
    """The decision on a new connection: it may be refused, at once or later, or wait."""

    refusal: str | None = None
    close_after_ms: int = 0
    delay_ms: int = 0


class ConnectionQuotas:
    """Counts connections, and refuses those beyond the limits."""

    def __init__(self, limits: Limits, client_quotas: ClientQuotas | None = None) -> None:
        self.limits = limits
        self._client_quotas = client_quotas
        self._per_ip_overrides: dict[str, int] = {}
        self._total = 0
        self._per_ip: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        self._rates: dict[str, Meter] = {}  # by listener; of all by the empty name

    def enter(self, host: str, listener: str, now: float) -> Admission:
        """Count a connection from this address, until `remove`, and decide."""
        refusal = self.add(host, listener)
        if refusal is not None:
            return Admission(refusal)
        if throttle_ms := self.throttle_ms(host, now):
            return Admission(f"connection_creation_rate of {host} is exceeded", throttle_ms)
        return Admission(delay_ms=self.delay_ms(listener, now))

    def add(self, host: str, listener: str) -> str | None:
        """Count a connection from this address; returns why it is refused, or None."""
        limits = self.limits
        self._total += 1
        self._per_ip[host] += 1
        self._per_listener[listener] += 1
        if self._total > limits.max_connections and listener != limits.protected_listener:
            return f"max.connections={limits.max_connections} is reached"
        own = limits.of_listeners.get(listener)
        if own is not None and self._per_listener[listener] > own.max_connections:
            return f"max.connections={own.max_connections} of listener {listener} is reached"
        per_ip = self._per_ip_overrides.get(host, limits.max_connections_per_ip)
        if self._per_ip[host] > per_ip:
            return f"max.connections.per.ip={per_ip} is reached for {host}"
        return None

    @property
    def excess(self) -> int:
        """How many connections there are beyond `max.connections`: brokers may connect beyond it,
        and it may be lowered.
        """
        return max(0, self._total - self.limits.max_connections)

    def throttle_ms(self, host: str, now: float) -> int:
        """For how long a new connection from this address waits to be closed; 0: it may stay."""
        if self._client_quotas is None:
            return 0
        meter = self._client_quotas.connections_of(host, now)
        throttle_ms = 0 if meter is None else meter.record(1, now)
        if meter is not None and throttle_ms:
            meter.rate.record(-1, now)  # it is closed, and does not count
        return throttle_ms

    def delay_ms(self, listener: str, now: float) -> int:
        """For how long a new connection of this listener waits to be served."""
        limits, waits = self.limits, [0]
        own = limits.of_listeners.get(listener)
        if own is not None:
            waits.append(self._rate(listener, own.creation_rate, now))
        if listener != limits.protected_listener:
            waits.append(self._rate("", limits.max_connection_creation_rate, now))
        return min(max(waits), int(self._window()[1] * 1000))

    def _rate(self, listener: str, bound: int, now: float) -> int:
        if bound == _NO_RATE:
            return 0
        meter = self._rates.get(listener)
        if meter is None:
            meter = self._rates[listener] = Meter(bound, *self._window())
        meter.bound = bound
        return meter.record(1, now)

    def _window(self) -> tuple[int, float]:
        return (WINDOWS, WINDOW_S) if self._client_quotas is None else self._client_quotas.window

    def remove(self, host: str, listener: str) -> None:
        """Count a connection from this address no more, whether or not it was refused."""
        self._total -= 1
        self._per_listener[listener] -= 1
        self._per_ip[host] -= 1
        if not self._per_ip[host]:
            del self._per_ip[host]

    async def follow(self, limits: Limits) -> None:
        """Use these limits for new connections; `excess` says how many of now are too many.

        Raises  ConfigError, nothing changed, if one of `per_ip_overrides` is no known host
        """
        loop = asyncio.get_running_loop()
        overrides: dict[str, int] = {}
        for host, limit in limits.per_ip_overrides.items():
            try:
                found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except OSError as e:
                raise ConfigError(
                    f"max.connections.per.ip.overrides: {host} is no known host: {e.strerror or e}"
                ) from e
            for *_, address in found:
                overrides[str(address[0])] = limit
        self.limits, self._per_ip_overrides = limits, overrides
