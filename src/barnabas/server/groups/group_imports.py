"""The factory of group shards; imported when this broker first leads a partition of groups.

Its imports are a sixth of what a broker would load before it is ready, and a broker that starts for
the first time coordinates no group yet.
"""

from barnabas.base.randomness import Random
from barnabas.base.safeguards import Safeguards
from barnabas.config.broker_config import BrokerConfig
from barnabas.groups.classic.classic_turn import ClassicSettings
from barnabas.groups.consumer.consumer_groups import ConsumerGroups
from barnabas.groups.consumer.consumer_messages import ConsumerSettings, MigrationPolicy, Topic
from barnabas.groups.group_bytes import GroupBytes
from barnabas.groups.offsets.offset_messages import OffsetSettings
from barnabas.groups.shard import GroupCoordinatorShard
from barnabas.server.cluster.metadata_cache import MetadataCache


class GroupParts:
    """Creates shards, and holds the parts that they share."""

    def __init__(
        self, config: BrokerConfig, random: Random, metadata: MetadataCache, safeguards: Safeguards
    ) -> None:
        self._config = config
        self._safeguards = safeguards
        self._random = random
        self._bytes = GroupBytes(config.long("barnabas.group.total.max.bytes"))
        self.consumers = ConsumerGroups(_consumer(config), random, lambda: _topics(metadata))

    def new_shard(self) -> GroupCoordinatorShard:
        config = self._config
        return GroupCoordinatorShard(
            _classic(config),
            _offsets(config, self._safeguards),
            self._random,
            self.consumers,
            self._bytes,
        )


def _topics(metadata: MetadataCache) -> dict[str, Topic]:
    """The topics that groups may be assigned partitions of."""
    return {
        topic.name: Topic(topic.topic_id, len(topic.partitions))
        for topic in metadata.topics()
        if topic.topic_id is not None
    }


def _classic(config: BrokerConfig) -> ClassicSettings:
    return ClassicSettings(
        min_session_timeout_ms=config.int("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.int("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=config.int("group.initial.rebalance.delay.ms"),
        max_size=config.int("group.max.size"),
        max_bytes=config.int("barnabas.group.max.bytes"),
        max_member_bytes=config.int("barnabas.group.max.member.bytes"),
    )


def _consumer(config: BrokerConfig) -> ConsumerSettings:
    return ConsumerSettings(
        session_timeout_ms=config.int("group.consumer.session.timeout.ms"),
        heartbeat_interval_ms=config.int("group.consumer.heartbeat.interval.ms"),
        max_size=config.int("group.consumer.max.size"),
        migration_policy=MigrationPolicy(config.str("group.consumer.migration.policy").lower()),
        classic_max_size=config.int("group.max.size"),
        max_bytes=config.int("barnabas.group.max.bytes"),
        max_member_bytes=config.int("barnabas.group.max.member.bytes"),
    )


def _offsets(config: BrokerConfig, safeguards: Safeguards) -> OffsetSettings:
    return OffsetSettings(
        metadata_max_bytes=config.int("offset.metadata.max.bytes"),
        retention_ms=config.int("offsets.retention.minutes") * 60_000,
        awaits_transactions=safeguards.pending_offsets,
    )
