"""The parts of a broker that its fetch loops share: settings, statistics, logs, removals."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from barnabas.base.clock import Clock
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.base.offload import Offload
from barnabas.base.safeguards import Safeguards
from barnabas.client.connection import AsyncConnection
from barnabas.log.background_work import Removals
from barnabas.log.logs import Logs
from barnabas.replication.replication_throttle import ReplicationThrottle

# Host, port, client id and the timeout in seconds.
Connect = Callable[[str, int, str, float], Awaitable[AsyncConnection]]


def connect_peer(
    host: str, port: int, client_id: str, timeout_s: float
) -> Awaitable[AsyncConnection]:
    return AsyncConnection.connect(host, port, client_id=client_id, timeout_s=timeout_s)


class FetcherSettings(NamedTuple):
    """`num.replica.fetchers` and the `replica.*` properties of a broker, as they are now."""

    fetchers: int = 1
    wait_max_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 1024 * 1024
    response_max_bytes: int = 10 * 1024 * 1024
    backoff_ms: int = 1000
    socket_timeout_ms: int = 30_000

    @property
    def backoff_s(self) -> float:
        return self.backoff_ms / 1000

    @property
    def timeout_s(self) -> float:
        return self.socket_timeout_ms / 1000


@dataclass(slots=True)
class FetcherStatistics:
    """Statistics over all fetch loops."""

    bytes_in: int = 0
    fetches: int = 0
    truncations: int = 0
    connections_lost: int = 0
    # Partitions that are not fetched until their next LeaderAndIsr, and the reasons.
    failed: dict[TopicPartition, str] = field(default_factory=dict)


class FetcherConfig(Protocol):
    def fetcher(self) -> FetcherSettings:
        """Return the current settings."""
        ...


class Registered(Protocol):
    @property
    def epoch(self) -> int:
        """Return the current broker epoch."""
        ...


class DelayedReads(Protocol):
    def on_high_watermark(self, key: tuple[str, int], /) -> None:
        """Wake the consumers that wait for records of a partition."""
        ...


@dataclass(frozen=True, slots=True)
class FetcherPorts:
    """The parts of the broker that a fetch loop uses."""

    broker_id: BrokerId
    logs: Logs
    clock: Clock
    offload: Offload
    throttle: ReplicationThrottle
    config: FetcherConfig
    registration: Registered
    removals: Removals
    delayed: DelayedReads
    failures: FailureChannel
    safeguards: Safeguards = field(default_factory=Safeguards)
    connect: Connect = connect_peer
    statistics: FetcherStatistics = field(default_factory=FetcherStatistics)
