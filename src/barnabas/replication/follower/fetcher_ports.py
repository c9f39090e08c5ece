"""What all fetch loops of a broker share: settings, statistics, and ways to the rest of it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.base.clock import Clock
from barnabas.base.errors import DiskFault, LawBroken
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.base.offload import Offload
from barnabas.base.safeguards import Safeguards
from barnabas.client.connection import AsyncConnection
from barnabas.log.background_work import Removal
from barnabas.log.logs import Logs
from barnabas.replication.follower.follower_replica import FollowerReplica
from barnabas.replication.throttle import ReplicationThrottle

# Host, port, client id and how many seconds it may take.
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
    """What all loops have done so far."""

    bytes_in: int = 0
    fetches: int = 0
    truncations: int = 0
    connections_lost: int = 0
    # Partitions that are not followed until the controller speaks of them again, and why.
    failed: dict[TopicPartition, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FetcherPorts:
    """By what a loop reaches the rest of the broker."""

    broker_id: BrokerId
    logs: Logs
    clock: Clock
    offload: Offload
    throttle: ReplicationThrottle
    settings: Callable[[], FetcherSettings]
    broker_epoch: Callable[[], int]
    remove_later: Callable[[Removal], None]
    offsets_moved: Callable[[FollowerReplica], None]
    disk_failed: Callable[[DiskFault], None]
    fail: Callable[[LawBroken], None]
    safeguards: Safeguards = field(default_factory=Safeguards)
    connect: Connect = connect_peer
    statistics: FetcherStatistics = field(default_factory=FetcherStatistics)
