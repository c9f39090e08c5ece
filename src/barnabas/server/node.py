"""The parts of one broker, made bottom up: each is given only parts that are made before it."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.base.clock import LoopTime
from barnabas.base.errors import PeerGone
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import BrokerId
from barnabas.client.connection import AsyncConnection
from barnabas.config.broker_config import BrokerConfig
from barnabas.controller.context import LiveBroker
from barnabas.controller.controller import Controller
from barnabas.coordinator.active_shard import CoordinatorPorts
from barnabas.log.logs import Logs
from barnabas.purgatory.delayed_operation import Purgatory
from barnabas.purgatory.timer import Timer
from barnabas.replication.follower.fetcher import FetcherPorts, ReplicaFetchers
from barnabas.replication.leader.isr_writer import IsrTracker
from barnabas.replication.replicas import Replicas
from barnabas.replication.throttle import ReplicationThrottle
from barnabas.security.client_quotas import ClientQuotas
from barnabas.server.broker import Broker, ControlledParts
from barnabas.server.cluster.acl_admin import AclAdmin
from barnabas.server.cluster.config_admin import ConfigAdmin
from barnabas.server.cluster.config_changes import ConfigChanges
from barnabas.server.cluster.configs import Configs
from barnabas.server.cluster.delegation_tokens import DelegationTokens, TokenTimes
from barnabas.server.cluster.dynamic_configs import DynamicConfigs
from barnabas.server.cluster.encoded_passwords import EncodedPasswords
from barnabas.server.cluster.features import Features
from barnabas.server.cluster.jwks_refresher import JwksRefresher
from barnabas.server.cluster.log_dir_failures import LogDirFailures
from barnabas.server.cluster.log_dir_moves import LogDirMoves
from barnabas.server.cluster.membership import Registration
from barnabas.server.cluster.metadata_cache import MetadataCache
from barnabas.server.cluster.partition_roles import PartitionRoles
from barnabas.server.cluster.peer_connections import PeerConnections
from barnabas.server.cluster.producer_ids import ProducerIds
from barnabas.server.cluster.quota_admin import QuotaAdmin
from barnabas.server.cluster.role_changes import RoleChanges
from barnabas.server.cluster.session_renewal import SessionRenewal
from barnabas.server.cluster.startup_sync import StartupSync
from barnabas.server.cluster.topic_admin import MetadataAwaited, Topics
from barnabas.server.cluster.user_credentials import UserCredentials
from barnabas.server.coordinators.leader_writer import LeaderWriter
from barnabas.server.delayed.partition_purgatories import Delayed
from barnabas.server.environment import Environment
from barnabas.server.fetching.fetch_collector import FetchCollector
from barnabas.server.fetching.fetch_responder import FetchResponder
from barnabas.server.fetching.fetch_sessions import FetchSessions
from barnabas.server.fetching.follower_fetches import FollowerFetches
from barnabas.server.fetching.replica_selector import read_replica_selector
from barnabas.server.groups.group_coordinator import GroupCoordinator
from barnabas.server.groups.tree_offsets import TreeOffsets
from barnabas.server.handlers import api_versions
from barnabas.server.handlers.fetch import Fetch
from barnabas.server.handlers.produce import Produce
from barnabas.server.maintenance.delayed_removals import DelayedRemovals
from barnabas.server.maintenance.housekeeping import Housekeeping
from barnabas.server.maintenance.log_cleaner import LogCleaner
from barnabas.server.metrics.loop_monitor import LoopMonitor
from barnabas.server.metrics.metric_values import Observed
from barnabas.server.metrics.request_statistics import RequestStatistics
from barnabas.server.network.connection_quotas import ConnectionQuotas
from barnabas.server.network.listener_security import ListenerSecurities
from barnabas.server.network.open_connections import OpenConnections
from barnabas.server.network.socket_server import SocketServer
from barnabas.server.requests import api_handlers
from barnabas.server.requests.control_requests import ControlRequests
from barnabas.server.requests.dispatch import Dispatch
from barnabas.server.requests.replies import Work
from barnabas.server.requests.startup_gate import StartupGate
from barnabas.server.requests.throttle import Throttle
from barnabas.server.settings import (
    BrokerSettings,
    intervals,
    limits,
    make_authorizer,
    quota_windows,
)
from barnabas.server.transactions.marker_channels import MarkerChannels
from barnabas.server.transactions.partition_verification import PartitionVerification
from barnabas.server.transactions.transaction_coordinator import TransactionCoordinator
from barnabas.wire.apis import ApiKey
from barnabas.znodes.tree import Coordination

if TYPE_CHECKING:
    from barnabas.server.groups.group_imports import GroupParts

# Kafka evicts a fetch session only when it was not used for this long.
SESSION_STALE_MS: Final = 120_000


class Node:
    """All parts of one broker. Making a part does not start it; compose.py does."""

    def __init__(
        self,
        config: BrokerConfig,
        environment: Environment,
        coordination: Coordination,
        logs: Logs,
        broker_id: BrokerId,
        cluster_id: str,
        failures: FailureChannel,
    ) -> None:
        self.config = config
        self.environment = environment
        self.logs = logs
        self.broker_id = broker_id
        self._coordination = coordination
        self._failures = failures
        self._make_state(cluster_id)
        self._make_cluster()
        self._make_replication()
        self._make_maintenance()
        self._make_control()
        self._make_requests()

    def _make_state(self, cluster_id: str) -> None:
        """The parts that only hold state, or time."""
        loop = asyncio.get_running_loop()
        self._time = LoopTime(loop)
        self.timer = Timer(loop, self._failures)
        self.work = Work(self._failures)
        self.gate = StartupGate()
        self.loop_monitor = LoopMonitor()
        self._delayed = Delayed(self.timer)
        self.metadata = MetadataCache(cluster_id)
        self.replicas = Replicas(self.metadata)
        passwords = EncodedPasswords(self.config, self.environment.random)
        self.configs = Configs(self._coordination, self.broker_id, self.config, passwords)
        self._settings = BrokerSettings(self.configs)
        self._statistics = RequestStatistics(self.environment.stopwatch)
        window, controller_window = quota_windows(self.config)
        self._client_quotas = ClientQuotas(window, controller_window)
        self.quotas = ConnectionQuotas(limits(self.config), self._client_quotas)
        self.authorizer = make_authorizer(self.config)
        self.connections = OpenConnections(self.quotas, self.timer)
        self._sessions = FetchSessions(
            self.config.int("max.incremental.fetch.session.cache.slots"),
            SESSION_STALE_MS,
            self.environment.random,
            self._time,
        )
        self.acls = self._acl_admin()
        self.client_quotas = QuotaAdmin(
            self._coordination, self.configs, self._client_quotas, self.connections
        )
        self.securities = ListenerSecurities(
            self.config, self.environment.clock, self.environment.random
        )
        self.users = UserCredentials(self._coordination, self.configs, self.securities.credentials)
        self.jwks = JwksRefresher(self.securities.jwks, self.environment.offload)
        self.peers = PeerConnections(self.configs)
        self._leader_throttle = ReplicationThrottle(self.broker_id, loop.time)
        self._follower_throttle = ReplicationThrottle(self.broker_id, loop.time)
        self._move_throttle = ReplicationThrottle(self.broker_id, loop.time)
        self.removals = DelayedRemovals(self._delayed, self.environment.offload, self._failures)

    def _acl_admin(self) -> AclAdmin | None:
        if self.authorizer is None:
            return None
        return AclAdmin(
            self._coordination,
            self.authorizer,
            self.connections,
            self._sessions,
            self.environment.safeguards,
        )

    def _make_cluster(self) -> None:
        """This broker's place in the cluster, its topics and groups."""
        self.registration = Registration(
            self.broker_id,
            self._coordination,
            self.environment.clock,
            self.config.int("zookeeper.session.timeout.ms"),
            {each.name: each.protocol for each in self.config.listeners()},
        )
        self.startup_sync = StartupSync(
            self.broker_id, self._coordination, self.metadata, self.replicas
        )
        self._awaited: Purgatory[MetadataAwaited] = Purgatory(self.timer)
        self._topics = Topics(
            self._coordination,
            self.environment.random,
            self.configs,
            self.logs,
            self.metadata,
            self._awaited,
        )
        self._coordinator_ports = CoordinatorPorts(
            LeaderWriter(self.replicas, self._delayed),
            self.timer,
            self.environment.clock,
            self.environment.offload,
            self._failures,
        )
        self.groups = self._group_coordinator()
        self.features = Features(self._coordination, self.metadata, self.broker_id)
        self._producer_ids = ProducerIds(self._coordination, self.broker_id)
        self.transactions = self._transaction_coordinator()
        self.verification = PartitionVerification(
            self.broker_id,
            self.configs,
            self.metadata,
            self.peers,
            self._failures,
            self.environment.safeguards,
        )
        self.moves = LogDirMoves(
            self.broker_id,
            self.logs,
            self.replicas,
            self._move_throttle,
            self.removals,
            self.environment.clock,
            self.environment.offload,
            self._failures,
        )
        self._role_changes = RoleChanges(self._delayed, self.groups, self.transactions, self.moves)

    def _group_coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            self.replicas,
            self.metadata,
            self.configs,
            self._topics,
            self._coordinator_ports,
            self._group_parts,
        )

    def _transaction_coordinator(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            self.replicas,
            self.metadata,
            self.configs,
            self._topics,
            self._coordinator_ports,
            self._producer_ids,
            self.features,
            MarkerChannels(self.broker_id, self.config, self.metadata, self.peers, self._failures),
            self.environment.safeguards,
        )

    def _group_parts(self) -> "GroupParts":
        from barnabas.server.groups.group_imports import GroupParts  # not before: see there

        return GroupParts(
            self.config, self.environment.random, self.metadata, self.environment.safeguards
        )

    def _make_replication(self) -> None:
        """The roles of replicas, the ISR of those that lead, the fetchers of those that follow."""
        self.isr = IsrTracker(
            self._coordination,
            self.replicas,
            self.replicas.find,
            self._settings.max_lag_ms,
            self._delayed.on_partition,
            self._failures,
            self.environment.safeguards,
        )
        self.fetchers = ReplicaFetchers(
            FetcherPorts(
                self.broker_id,
                self.logs,
                self.environment.clock,
                self.environment.offload,
                self._follower_throttle,
                self._settings,
                self.registration,
                self.removals,
                self._delayed,
                self._failures,
                self.environment.safeguards,
                self.peers.connect,
            )
        )
        self.partitions = PartitionRoles(
            self.broker_id,
            self.logs,
            self.replicas,
            self.metadata,
            self.configs,
            self.fetchers,
            self._role_changes,
            self.removals,
            self.environment,
            self._failures,
        )
        self.log_dir_failures = LogDirFailures(
            self.broker_id,
            self._coordination,
            self.logs,
            self.replicas,
            self.metadata,
            self.fetchers,
            self._role_changes,
            self._failures,
        )
        self._failures.deliver_to(self.log_dir_failures.on_faults)

    def _make_maintenance(self) -> None:
        clock, offload = self.environment.clock, self.environment.offload
        self.housekeeping = Housekeeping(
            self.logs,
            self.replicas,
            self.removals,
            self.groups,
            self.configs,
            intervals(self.config),
            clock,
            offload,
            self._failures,
        )
        self.cleaner = LogCleaner(
            self.logs, self.replicas, clock, offload, self._settings, self.removals, self._failures
        )

    def _make_control(self) -> None:
        """The controller, and what follows its requests, the session and the properties."""
        parts = ControlledParts(
            registration=self.registration,
            metadata=self.metadata,
            partitions=self.partitions,
            topics=self._topics,
            configs=self.configs,
            groups=self.groups,
            features=self.features,
        )
        self._control_requests = ControlRequests(parts, self.startup_sync)
        self.controller = Controller(
            self.broker_id,
            self._coordination,
            clock=self.environment.clock,
            random=self.environment.random,
            settings=self._settings.controller,
            connect=partial(_connect, self.config, self.peers, self.broker_id),
            local=self._control_requests.handle_own,
            failures=self._failures,
            inter_broker_listener=self.config.inter_broker_listener_name(),
        )
        self.tokens = DelegationTokens(
            self._coordination,
            self.securities.tokens,
            self.controller,
            TokenTimes.of(self.config),
            self.environment.clock,
            self.environment.random,
        )
        dynamic = DynamicConfigs(
            self.configs,
            self.metadata,
            self.quotas,
            self._leader_throttle,
            self._follower_throttle,
            self._move_throttle,
            self.fetchers,
            self.partitions,
            self.controller,
            self.securities,
        )
        self._config_admin = ConfigAdmin(
            self._coordination,
            self.broker_id,
            self.configs,
            self.metadata,
            dynamic,
            self.users,
            self.client_quotas,
        )
        self.config_changes = ConfigChanges(self._coordination, self._config_admin)
        self.session = SessionRenewal(
            self._coordination,
            self.registration,
            self.partitions,
            self.controller,
            self._config_admin,
            self.config_changes,
            self.features,
            self.tokens,
            self.acls,
        )

    def _make_requests(self) -> None:
        """From the sockets to the handlers."""
        self.broker = Broker(
            broker_id=self.broker_id,
            clock=self.environment.clock,
            registration=self.registration,
            metadata=self.metadata,
            replicas=self.replicas,
            partitions=self.partitions,
            logs=self.logs,
            topics=self._topics,
            configs=self.configs,
            config_admin=self._config_admin,
            producer_ids=self._producer_ids,
            users=self.users,
            tokens=self.tokens,
            tree_offsets=TreeOffsets(self._coordination),
            controller=self.controller,
            groups=self.groups,
            features=self.features,
            transactions=self.transactions,
            verification=self.verification,
            moves=self.moves,
            failures=self._failures,
            acls=self.acls,
            client_quotas=self.client_quotas,
        )
        dispatch, intercept = self._dispatch(), self.environment.intercept
        self.listeners = SocketServer(
            dispatch if intercept is None else intercept(dispatch),
            self.quotas,
            self.connections,
            self._failures,
            self._statistics,
            self.environment.is_process,
            self.securities,
        )

    def _dispatch(self) -> Dispatch:
        return Dispatch(
            {ApiKey.PRODUCE: self._produce(), ApiKey.FETCH: self._fetch()},
            api_handlers.message_handlers(self.broker, self._delayed)
            | self._control_requests.handlers(),
            api_versions.unsupported,
            self.work,
            self._statistics,
            self.environment.offload,
            self.gate,
            self.authorizer,
            Throttle(self._client_quotas, self.environment.stopwatch),
            self.replicas,
        )

    def _produce(self) -> Produce:
        return Produce(
            self.replicas,
            self.environment.clock,
            self.environment.offload,
            self._delayed,
            self._failures,
            self.work,
            self._statistics.by_api[ApiKey.PRODUCE].errors,
            self.config.int("barnabas.message.max.decompressed.bytes"),
            self.verification,
            self.authorizer,
        )

    def _fetch(self) -> Fetch:
        collector = FetchCollector(
            self.replicas,
            self.metadata,
            self._delayed,
            FollowerFetches(self._delayed, self._leader_throttle, self.isr, self._time),
            self.config.int("fetch.max.bytes"),
            self._failures,
            read_replica_selector(
                self.config.optional_str("replica.selector.class"), self.metadata
            ),
            self.authorizer,
        )
        errors = self._statistics.by_api[ApiKey.FETCH].errors
        responder = FetchResponder(
            collector,
            self._sessions,
            self.environment.offload,
            self._failures,
            self.work,
            errors,
        )
        return Fetch(
            self.replicas,
            self.metadata,
            self._sessions,
            self._delayed,
            collector,
            responder,
            errors,
        )

    def observed(self) -> Observed:
        """The parts that have metrics."""
        delayed = self._delayed
        return Observed(
            self.replicas,
            self.isr,
            self.fetchers,
            self.controller,
            {
                "produce": delayed.produces,
                "consumer_fetch": delayed.consumers,
                "follower_fetch": delayed.followers,
                "delete_records": delayed.deletions,
                "create_topics": self._awaited,
            },
            self._statistics,
            self.listeners.connections,
            self._sessions,
            self.groups,
            self.transactions,
            self.logs,
            self.metadata,
            self.loop_monitor,
            self.environment.clock,
            self.configs,
        )


async def _connect(
    config: BrokerConfig, peers: PeerConnections, broker_id: BrokerId, broker: LiveBroker
) -> AsyncConnection:
    """The controller's connection to another broker. Raises PeerGone."""
    listener = config.inter_broker_listener_name()
    endpoints = {each.listener: each for each in broker.registration.endpoints}
    if listener not in endpoints:
        raise PeerGone(f"broker {broker.broker_id} has no listener {listener}")
    return await peers.connect(
        endpoints[listener].host,
        endpoints[listener].port,
        str(broker_id),
        config.int("controller.socket.timeout.ms") / 1000,
    )
