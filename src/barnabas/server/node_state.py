"""The parts of one broker that hold its state and its time, made first: none acts by itself."""

import asyncio
from typing import Final

from barnabas.base.clock import LoopTime
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import BrokerId
from barnabas.config.broker_config import BrokerConfig
from barnabas.log.logs import Logs
from barnabas.purgatory.timer import Timer
from barnabas.replication.replicas import Replicas
from barnabas.replication.replication_throttle import ReplicationThrottle
from barnabas.security.client_quotas import ClientQuotas
from barnabas.server.cluster.acl_admin import AclAdmin
from barnabas.server.cluster.configs import Configs
from barnabas.server.cluster.encoded_passwords import EncodedPasswords
from barnabas.server.cluster.jwks_refresher import JwksRefresher
from barnabas.server.cluster.metadata_cache import MetadataCache
from barnabas.server.cluster.peer_connections import PeerConnections
from barnabas.server.cluster.quota_admin import QuotaAdmin
from barnabas.server.cluster.user_credentials import UserCredentials
from barnabas.server.delayed.partition_purgatories import Delayed
from barnabas.server.environment import Environment
from barnabas.server.fetching.fetch_sessions import FetchSessions
from barnabas.server.maintenance.delayed_removals import DelayedRemovals
from barnabas.server.metrics.loop_monitor import LoopMonitor
from barnabas.server.metrics.request_statistics import RequestStatistics
from barnabas.server.network.connection_quotas import ConnectionQuotas
from barnabas.server.network.listener_security import ListenerSecurities
from barnabas.server.network.open_connections import OpenConnections
from barnabas.server.requests.replies import Work
from barnabas.server.requests.startup_gate import StartupGate
from barnabas.server.settings import (
    BrokerSettings,
    limits,
    make_authorizer,
    quota_windows,
)
from barnabas.znodes.tree import Coordination

# Kafka evicts a fetch session only when it was not used for this long.
SESSION_STALE_MS: Final = 120_000


class NodeState:
    """The state that the other parts share, from the clock to the open connections."""

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
        self.coordination = coordination
        self.logs = logs
        self.broker_id = broker_id
        self.failures = failures
        loop = asyncio.get_running_loop()
        self.time = LoopTime(loop)
        self.timer = Timer(loop, self.failures)
        self.work = Work(self.failures)
        self.gate = StartupGate()
        self.loop_monitor = LoopMonitor()
        self.delayed = Delayed(self.timer)
        self.metadata = MetadataCache(cluster_id)
        self.replicas = Replicas(self.metadata)
        passwords = EncodedPasswords(self.config, self.environment.random)
        self.configs = Configs(self.coordination, self.broker_id, self.config, passwords)
        self.settings = BrokerSettings(self.configs)
        self.statistics = RequestStatistics(self.environment.stopwatch)
        window, controller_window = quota_windows(self.config)
        self.client_quotas = ClientQuotas(window, controller_window)
        self.quotas = ConnectionQuotas(limits(self.config), self.client_quotas)
        self.authorizer = make_authorizer(self.config)
        self.connections = OpenConnections(self.quotas, self.timer)
        self.sessions = FetchSessions(
            self.config.int("max.incremental.fetch.session.cache.slots"),
            SESSION_STALE_MS,
            self.environment.random,
            self.time,
        )
        self.acl_admin = self._make_acl_admin()
        self.quota_admin = QuotaAdmin(
            self.coordination, self.configs, self.client_quotas, self.connections
        )
        self.securities = ListenerSecurities(
            self.config, self.environment.clock, self.environment.random
        )
        self.users = UserCredentials(self.coordination, self.configs, self.securities.credentials)
        self.jwks = JwksRefresher(self.securities.jwks, self.environment.offload)
        self.peers = PeerConnections(self.configs)
        self.leader_throttle = ReplicationThrottle(self.broker_id, loop.time)
        self.follower_throttle = ReplicationThrottle(self.broker_id, loop.time)
        self.move_throttle = ReplicationThrottle(self.broker_id, loop.time)
        self.removals = DelayedRemovals(self.delayed, self.environment.offload, self.failures)

    def _make_acl_admin(self) -> AclAdmin | None:
        if self.authorizer is None:
            return None
        return AclAdmin(
            self.coordination,
            self.authorizer,
            self.connections,
            self.sessions,
            self.environment.safeguards,
        )
