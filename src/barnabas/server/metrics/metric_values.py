"""The values of all metrics, read from the parts of a broker whenever somebody asks."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.base.clock import Clock
from barnabas.base.errors import ErrorCode
from barnabas.controller.controller import Controller
from barnabas.log.logs import Logs
from barnabas.purgatory.delayed_operation import Purgatory
from barnabas.replication.follower.fetcher import ReplicaFetchers
from barnabas.replication.leader.isr_writer import IsrTracker
from barnabas.replication.replicas import Replicas
from barnabas.server.cluster.configs import Configs
from barnabas.server.cluster.metadata_cache import MetadataCache
from barnabas.server.fetching.fetch_sessions import FetchSessions
from barnabas.server.groups.group_coordinator import GroupCoordinator
from barnabas.server.metrics.loop_monitor import LoopMonitor
from barnabas.server.metrics.request_statistics import RequestStatistics, Times
from barnabas.server.network.open_connections import OpenConnections
from barnabas.server.transactions.transaction_coordinator import TransactionCoordinator
from barnabas.wire.apis import ApiKey

# By the values of the metric's labels.
Samples = Mapping[tuple[str, ...], float | Times]


@dataclass(frozen=True, slots=True)
class Observed:
    """The parts of a broker that have metrics."""

    replicas: Replicas
    isr: IsrTracker
    fetchers: ReplicaFetchers
    controller: Controller
    purgatories: Mapping[str, Purgatory[Any]]
    requests: RequestStatistics
    connections: OpenConnections
    sessions: FetchSessions
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    logs: Logs
    metadata: MetadataCache
    loop: LoopMonitor
    clock: Clock
    configs: Configs


def samples(of: Observed) -> Iterator[tuple[str, Samples]]:
    """Return the current values, by the names in the table of metrics."""
    plain = _replication(of) | _controller(of.controller) | _broker(of)
    for name, value in plain.items():
        yield name, {(): value}
    yield "purgatory_size", {(kind,): each.delayed for kind, each in of.purgatories.items()}
    yield "purgatory_watched", {(kind,): each.watched for kind, each in of.purgatories.items()}
    yield "groups", {(state,): count for state, count in of.groups.states().items()}
    yield "loop_held_seconds", {(): of.loop.held}
    by_api = {_api_name(key): api for key, api in sorted(of.requests.by_api.items())}
    yield "requests_total", {(name,): api.requests for name, api in by_api.items()}
    yield (
        "request_errors_total",
        {
            (name, ErrorCode(code).name.upper()): count
            for name, api in by_api.items()
            for code, count in sorted(api.errors.items())
        },
    )
    yield (
        "request_seconds",
        {
            (name, phase): times
            for name, api in by_api.items()
            for phase, times in api.phases()
            if times.count
        },
    )


def _api_name(key: int) -> str:
    """As Kafka writes it: LeaderAndIsr."""
    return ApiKey(key).name.title().replace("_", "")


def _replication(of: Observed) -> dict[str, float]:
    leaders, lags, fetching = list(of.replicas), of.fetchers.lags(), of.fetchers.statistics
    return {
        "leader_count": len(leaders),
        "partition_count": len(leaders) + sum(1 for _ in of.replicas.followers()),
        "under_replicated_partitions": sum(each.is_under_replicated for each in leaders),
        "under_min_isr_partitions": sum(each.is_under_min_isr for each in leaders),
        "at_min_isr_partitions": sum(len(each.isr) == each.min_isr for each in leaders),
        "reassigning_partitions": sum(
            bool(each.leadership.adding or each.leadership.removing) for each in leaders
        ),
        "offline_replicas": of.replicas.offline_count,
        "isr_shrinks_total": of.isr.shrinks,
        "isr_expands_total": of.isr.expands,
        "isr_failed_updates_total": of.isr.failed_updates,
        "replica_max_lag": max(lags.values(), default=0),
        "replica_lagging_partitions": sum(lag > 0 for lag in lags.values()),
        "replica_failed_partitions": len(fetching.failed),
        "replica_fetches_total": fetching.fetches,
        "replica_fetched_bytes_total": fetching.bytes_in,
        "replica_truncations_total": fetching.truncations,
        "replica_connections_lost_total": fetching.connections_lost,
    }


def _controller(controller: Controller) -> dict[str, float]:
    state = controller.describe()
    counts, queue = state["counts"], state["queue"]
    return {
        "active_controller": int(controller.is_active),
        "controller_epoch": controller.epoch,
        "offline_partitions": counts["offline_partitions"],
        "preferred_replica_imbalance": counts["preferred_imbalance"],
        "controller_brokers": counts["brokers"],
        "controller_topics": counts["topics"],
        "controller_partitions": counts["partitions"],
        "controller_reassigning_partitions": counts["reassigning"],
        "controller_topics_to_delete": counts["deleting"],
        "controller_queue_length": queue["length"],
        "controller_queue_oldest_seconds": queue["oldest_ms"] / 1000,
        "unclean_leader_elections_total": controller.unclean_elections,
    }


def _broker(of: Observed) -> dict[str, float]:
    logs = list(of.logs)
    return {
        "requests_refused_total": of.requests.refused,
        "received_bytes_total": of.requests.received_bytes,
        "sent_bytes_total": of.requests.sent_bytes,
        "messages_in_total": of.replicas.records_appended,
        "loop_held_longest_seconds": of.loop.longest_ns / 1e9,
        "request_memory_bytes": of.connections.memory.taken,
        "request_memory_waiting": of.connections.memory.waiting,
        "connections": len(of.connections),
        "fetch_sessions": len(of.sessions),
        "groups_loading": of.groups.loading,
        "transactions_open": len(of.transactions.open_transactions()),
        "transactions_oldest_seconds": of.transactions.oldest_ms() / 1000,
        "transactions_markers_waiting": of.transactions.markers_waiting,
        "partitions_with_late_transactions": of.replicas.late_transactions(
            of.clock.now_ms(), of.configs.broker.int("transaction.max.timeout.ms")
        ),
        "transactions_loading": of.transactions.loading,
        "log_bytes": sum(log.size_bytes for log in logs),
        "log_segments": sum(len(log.segments) for log in logs),
        "offline_log_directories": len(of.logs.offline),
        "brokers": len(of.metadata.brokers),
        "topics": sum(1 for _ in of.metadata.topics()),
    }
