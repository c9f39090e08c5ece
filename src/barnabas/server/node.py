"""The parts of one broker, made bottom up: each is given only parts that are made before it."""

from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import PeerGone
from barnabas.base.ids import BrokerId
from barnabas.client.connection import AsyncConnection
from barnabas.config.broker_config import BrokerConfig
from barnabas.controller.context import LiveBroker
from barnabas.controller.controller import Controller
from barnabas.coordinator.active_shard import CoordinatorPorts
from barnabas.purgatory.delayed_operation import Purgatory
from barnabas.replication.follower.fetcher import FetcherPorts, ReplicaFetchers
from barnabas.replication.leader.isr_writer import IsrTracker
from barnabas.server.broker import Broker, ControlledParts
from barnabas.server.cluster.config_admin import ConfigAdmin
from barnabas.server.cluster.config_changes import ConfigChanges
from barnabas.server.cluster.delegation_tokens import DelegationTokens, TokenTimes
from barnabas.server.cluster.dynamic_configs import DynamicConfigs
from barnabas.server.cluster.features import Features
from barnabas.server.cluster.log_dir_failures import LogDirFailures
from barnabas.server.cluster.log_dir_moves import LogDirMoves
from barnabas.server.cluster.membership import Registration
from barnabas.server.cluster.partition_roles import PartitionRoles
from barnabas.server.cluster.peer_connections import PeerConnections
from barnabas.server.cluster.producer_ids import ProducerIds
from barnabas.server.cluster.role_changes import RoleChanges
from barnabas.server.cluster.session_renewal import SessionRenewal
from barnabas.server.cluster.startup_sync import StartupSync
from barnabas.server.cluster.topic_admin import MetadataAwaited, Topics
from barnabas.server.coordinators.leader_writer import LeaderWriter
from barnabas.server.groups.group_coordinator import GroupCoordinator
from barnabas.server.groups.tree_offsets import TreeOffsets
from barnabas.server.maintenance.housekeeping import Housekeeping
from barnabas.server.maintenance.log_cleaner import LogCleaner
from barnabas.server.metrics.metric_values import Observed
from barnabas.server.node_state import NodeState
from barnabas.server.request_path import make_socket_server
from barnabas.server.requests.control_requests import ControlRequests
from barnabas.server.settings import intervals
from barnabas.server.transactions.marker_channels import MarkerChannels
from barnabas.server.transactions.marker_writer import MarkerWriter
from barnabas.server.transactions.partition_verification import PartitionVerification
from barnabas.server.transactions.transaction_coordinator import TransactionCoordinator

if TYPE_CHECKING:
    from barnabas.server.groups.group_imports import GroupParts


class Node:
    """All parts of one broker. Making a part does not start it; compose.py does."""

    def __init__(self, state: NodeState) -> None:
        self.state = state
        self._make_cluster()
        self._make_replication()
        self._make_maintenance()
        self._make_control()
        self._make_requests()

    def _make_cluster(self) -> None:
        """This broker's place in the cluster, its topics and groups."""
        state = self.state
        self.registration = Registration(
            state.broker_id,
            state.coordination,
            state.environment.clock,
            state.config.int("zookeeper.session.timeout.ms"),
            {each.name: each.protocol for each in state.config.listeners()},
        )
        self.startup_sync = StartupSync(
            state.broker_id, state.coordination, state.metadata, state.replicas
        )
        self._awaited: Purgatory[MetadataAwaited] = Purgatory(state.timer)
        self._topics = Topics(
            state.coordination,
            state.environment.random,
            state.configs,
            state.logs,
            state.metadata,
            self._awaited,
        )
        self._coordinator_ports = CoordinatorPorts(
            LeaderWriter(state.replicas, state.delayed, state.environment.safeguards),
            state.timer,
            state.environment.clock,
            state.environment.offload,
            state.failures,
        )
        self.groups = self._group_coordinator()
        self.features = Features(state.coordination, state.metadata, state.broker_id)
        self._producer_ids = ProducerIds(state.coordination, state.broker_id)
        self._markers = MarkerWriter(
            self._coordinator_ports,
            state.configs,
            self.groups.end_transaction,
            state.environment.safeguards,
        )
        self.transactions = self._transaction_coordinator()
        self.verification = PartitionVerification(
            state.broker_id,
            state.configs,
            state.metadata,
            state.peers,
            state.failures,
            self.transactions,
            state.environment.safeguards,
        )
        self.moves = LogDirMoves(
            state.broker_id,
            state.logs,
            state.replicas,
            state.move_throttle,
            state.removals,
            state.environment.clock,
            state.environment.offload,
            state.failures,
        )
        self._role_changes = RoleChanges(state.delayed, self.groups, self.transactions, self.moves)

    def _group_coordinator(self) -> GroupCoordinator:
        state = self.state
        return GroupCoordinator(
            state.replicas,
            state.metadata,
            state.configs,
            self._topics,
            self._coordinator_ports,
            self._group_parts,
        )

    def _transaction_coordinator(self) -> TransactionCoordinator:
        state = self.state
        return TransactionCoordinator(
            state.replicas,
            state.metadata,
            state.configs,
            self._topics,
            self._coordinator_ports,
            self._producer_ids,
            self.features,
            MarkerChannels(
                state.broker_id,
                state.config,
                state.metadata,
                state.peers,
                state.failures,
                self._markers,
                state.environment.intercept,
            ),
            state.environment.safeguards,
        )

    def _group_parts(self) -> "GroupParts":
        state = self.state
        from barnabas.server.groups.group_imports import GroupParts  # not before: see there

        return GroupParts(
            state.config, state.environment.random, state.metadata, state.environment.safeguards
        )

    def _make_replication(self) -> None:
        """The roles of replicas, the ISR of those that lead, the fetchers of those that follow."""
        state = self.state
        self.isr = IsrTracker(
            state.coordination,
            state.replicas,
            state.replicas.find,
            state.settings.max_lag_ms,
            state.delayed.on_partition,
            state.failures,
            state.environment.safeguards,
        )
        self.fetchers = ReplicaFetchers(
            FetcherPorts(
                state.broker_id,
                state.logs,
                state.environment.clock,
                state.environment.offload,
                state.follower_throttle,
                state.settings,
                self.registration,
                state.removals,
                state.delayed,
                state.failures,
                state.environment.safeguards,
                state.peers.connect,
            )
        )
        self.partitions = PartitionRoles(
            state.broker_id,
            state.logs,
            state.replicas,
            state.metadata,
            state.configs,
            self.fetchers,
            self._role_changes,
            state.removals,
            state.environment,
            state.failures,
        )
        self.log_dir_failures = LogDirFailures(
            state.broker_id,
            state.coordination,
            state.logs,
            state.replicas,
            state.metadata,
            self.fetchers,
            self._role_changes,
            state.failures,
        )
        state.failures.deliver_to(self.log_dir_failures.on_faults)

    def _make_maintenance(self) -> None:
        state = self.state
        environment = state.environment
        clock, offload = environment.clock, environment.offload
        self.housekeeping = Housekeeping(
            state.logs,
            state.replicas,
            state.removals,
            self.groups,
            state.configs,
            intervals(state.config),
            clock,
            offload,
            state.failures,
        )
        self.cleaner = LogCleaner(
            state.logs,
            state.replicas,
            clock,
            offload,
            state.settings,
            state.removals,
            state.failures,
        )

    def _make_control(self) -> None:
        """The controller, and what follows its requests, the session and the properties."""
        state = self.state
        parts = ControlledParts(
            registration=self.registration,
            metadata=state.metadata,
            partitions=self.partitions,
            topics=self._topics,
            configs=state.configs,
            groups=self.groups,
            features=self.features,
        )
        self._control_requests = ControlRequests(parts, self.startup_sync)
        self.controller = Controller(
            state.broker_id,
            state.coordination,
            clock=state.environment.clock,
            random=state.environment.random,
            settings=state.settings.controller,
            connect=partial(_connect, state.config, state.peers, state.broker_id),
            local=self._control_requests.handle_own,
            failures=state.failures,
            inter_broker_listener=state.config.inter_broker_listener_name(),
        )
        self.tokens = DelegationTokens(
            state.coordination,
            state.securities.tokens,
            self.controller,
            TokenTimes.of(state.config),
            state.environment.clock,
            state.environment.random,
        )
        dynamic = DynamicConfigs(
            state.configs,
            state.metadata,
            state.connections,
            state.leader_throttle,
            state.follower_throttle,
            state.move_throttle,
            self.fetchers,
            self.partitions,
            self.controller,
            state.securities,
        )
        self._config_admin = ConfigAdmin(
            state.broker_id,
            state.configs,
            state.metadata,
            dynamic,
            state.users,
            state.quota_admin,
        )
        self.config_changes = ConfigChanges(state.coordination, self._config_admin)
        self.session = SessionRenewal(
            state.coordination,
            self.registration,
            self.partitions,
            self.controller,
            self._config_admin,
            self.config_changes,
            self.features,
            self.tokens,
            state.acl_admin,
        )

    def _make_requests(self) -> None:
        """From the sockets to the handlers."""
        state = self.state
        self.broker = Broker(
            broker_id=state.broker_id,
            clock=state.environment.clock,
            registration=self.registration,
            metadata=state.metadata,
            replicas=state.replicas,
            partitions=self.partitions,
            logs=state.logs,
            topics=self._topics,
            configs=state.configs,
            config_admin=self._config_admin,
            producer_ids=self._producer_ids,
            users=state.users,
            tokens=self.tokens,
            tree_offsets=TreeOffsets(state.coordination),
            controller=self.controller,
            groups=self.groups,
            features=self.features,
            transactions=self.transactions,
            verification=self.verification,
            markers=self._markers,
            moves=self.moves,
            failures=state.failures,
            acls=state.acl_admin,
            client_quotas=state.quota_admin,
        )
        self.listeners = make_socket_server(state, self.broker, self._control_requests, self.isr)

    def observed(self) -> Observed:
        """The parts that have metrics."""
        state = self.state
        return Observed(
            state.replicas,
            self.isr,
            self.fetchers,
            self.controller,
            {
                "produce": state.delayed.produces,
                "consumer_fetch": state.delayed.consumers,
                "follower_fetch": state.delayed.followers,
                "delete_records": state.delayed.deletions,
                "create_topics": self._awaited,
            },
            state.statistics,
            self.listeners.connections,
            state.sessions,
            self.groups,
            self.transactions,
            state.logs,
            state.metadata,
            state.loop_monitor,
            state.environment.clock,
            state.configs,
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
