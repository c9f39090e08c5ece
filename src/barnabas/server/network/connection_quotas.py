"""Connection quotas: how many connections a broker accepts, in all and from one address."""

import asyncio
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.base.errors import ConfigError
from barnabas.security.client_quotas import ClientQuotas


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits on connections and requests, by Kafka's property names."""

    socket_request_max_bytes: int
    connections_max_idle_ms: int
    max_connections: int
    max_connections_per_ip: int
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    socket_listen_backlog_size: int = 4096
    queued_max_request_bytes: int = -1
    receive_stall_timeout_ms: int = 30_000
    socket_send_buffer_bytes: int = -1
    socket_receive_buffer_bytes: int = -1

    @property
    def socket_options(self) -> Mapping[int, int]:
        """The options of a socket; where it is -1 the operating system chooses."""
        wanted = {
            socket.SO_SNDBUF: self.socket_send_buffer_bytes,
            socket.SO_RCVBUF: self.socket_receive_buffer_bytes,
        }
        return {option: size for option, size in wanted.items() if size > 0}


class ConnectionQuotas:
    """Counts connections, and refuses those beyond the limits."""

    def __init__(self, limits: Limits, client_quotas: ClientQuotas | None = None) -> None:
        self.limits = limits
        self._client_quotas = client_quotas
        self._per_ip_overrides: dict[str, int] = {}
        self._total = 0
        self._per_ip: Counter[str] = Counter()

    def add(self, host: str) -> str | None:
        """Count a connection from this address; returns why it is refused, or None."""
        limits = self.limits
        self._total += 1
        self._per_ip[host] += 1
        if self._total > limits.max_connections:
            return f"max.connections={limits.max_connections} is reached"
        per_ip = self._per_ip_overrides.get(host, limits.max_connections_per_ip)
        if self._per_ip[host] > per_ip:
            return f"max.connections.per.ip={per_ip} is reached for {host}"
        return None

    def throttle_ms(self, host: str, now: float) -> int:
        """For how long a new connection from this address waits to be closed; 0: it may stay."""
        if self._client_quotas is None:
            return 0
        meter = self._client_quotas.connections_of(host)
        return 0 if meter is None else meter.record(1, now)

    def remove(self, host: str) -> None:
        """Count a connection from this address no more, whether or not it was refused."""
        self._total -= 1
        self._per_ip[host] -= 1
        if not self._per_ip[host]:
            del self._per_ip[host]

    async def follow(self, limits: Limits) -> None:
        """Use these limits from now on; the connections of now may stay.

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
