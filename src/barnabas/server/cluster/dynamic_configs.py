"""Dynamic configuration: the parts of a broker that act on a changed property.

All other parts read properties through `Configs` when they need them.
"""

import logging

from barnabas.base.errors import ConfigError
from barnabas.config.broker_config import BrokerConfig
from barnabas.controller.controller import Controller
from barnabas.controller.events import UncleanAllowed
from barnabas.replication.follower.fetcher import ReplicaFetchers
from barnabas.replication.replication_throttle import ReplicationThrottle
from barnabas.server.cluster.configs import Configs
from barnabas.server.cluster.metadata_cache import MetadataCache
from barnabas.server.cluster.partition_roles import PartitionRoles
from barnabas.server.network.listener_security import ListenerSecurities
from barnabas.server.network.open_connections import OpenConnections
from barnabas.server.settings import limits

log = logging.getLogger("barnabas.broker")


class DynamicConfigs:
    """Applies changed properties to connections, throttles, fetchers, logs and the controller."""

    def __init__(
        self,
        configs: Configs,
        metadata: MetadataCache,
        connections: OpenConnections,
        leader_throttle: ReplicationThrottle,
        follower_throttle: ReplicationThrottle,
        move_throttle: ReplicationThrottle,
        fetchers: ReplicaFetchers,
        partitions: PartitionRoles,
        controller: Controller,
        securities: ListenerSecurities,
    ) -> None:
        self._configs = configs
        self._metadata = metadata
        self._connections = connections
        self._leader_throttle = leader_throttle
        self._follower_throttle = follower_throttle
        self._move_throttle = move_throttle
        self._fetchers = fetchers
        self._partitions = partitions
        self._controller = controller
        self._securities = securities

    def check(self, config: BrokerConfig) -> None:
        """Raises ConfigError, if a running listener cannot use these properties."""
        self._securities.check(config)

    async def on_broker_changed(self) -> None:
        """The broker's own properties changed, and with them the defaults of all topics."""
        config = self._configs.broker
        self._securities.follow(config)
        try:
            await self._connections.follow(limits(config))
        except ConfigError as e:
            log.warning("connection limits not changed: %s", e)
        self._leader_throttle.bytes_per_second = config.long("leader.replication.throttled.rate")
        self._follower_throttle.bytes_per_second = config.long(
            "follower.replication.throttled.rate"
        )
        self._move_throttle.bytes_per_second = config.long(
            "replica.alter.log.dirs.io.max.bytes.per.second"
        )
        self._fetchers.resize()
        for topic in self._metadata.topics():
            self.on_topic_changed(topic.name)

    def on_topic_changed(self, name: str) -> None:
        config = self._configs.topic(name)
        image = self._metadata.topic(name)
        self._partitions.config_changed(name, image.partitions if image is not None else ())
        self._leader_throttle.set_topic(name, config.leader_replication_throttled_replicas)
        self._follower_throttle.set_topic(name, config.follower_replication_throttled_replicas)
        if config.unclean_leader_election_enable and self._controller.is_active:
            self._controller.put(UncleanAllowed(name))
