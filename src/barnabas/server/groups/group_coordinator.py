"""The group coordinator of this broker: finds coordinators, and asks the shards that it leads."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.coordinator.active_shard import CoordinatorPorts
from barnabas.coordinator.coordinator_runtime import CoordinatorRuntime
from barnabas.coordinator.coordinator_topic import CoordinatorTopic, partition_of
from barnabas.coordinator.result import CoordinatorResult, Now, TransactionEnd
from barnabas.replication.replicas import Replicas
from barnabas.server.cluster.configs import Configs
from barnabas.server.cluster.metadata_cache import BrokerImage, MetadataCache, Updated
from barnabas.server.cluster.topic_admin import Topics
from barnabas.server.cluster.topic_creation import NewTopic
from barnabas.server.coordinators.coordinator_finder import CoordinatorFinder
from barnabas.server.coordinators.internal_topics import check_brokers
from barnabas.server.groups.offsets_topic import (
    OFFSETS_TOPIC,
    REPLICATION_FACTOR,
    codec_of,
    new_offsets_topic,
)
from barnabas.wire.records.compression import Codec

if TYPE_CHECKING:
    from barnabas.groups.consumer.consumer_groups import ConsumerGroups
    from barnabas.groups.shard import GroupCoordinatorShard
    from barnabas.server.groups.group_imports import GroupParts

Reply = TypeVar("Reply")


class GroupCoordinator:
    """Coordinates the groups of the partitions of `__consumer_offsets` that this broker leads."""

    def __init__(
        self,
        replicas: Replicas,
        metadata: MetadataCache,
        configs: Configs,
        topics: Topics,
        ports: CoordinatorPorts,
        new_parts: Callable[[], "GroupParts"],
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._configs = configs
        self._new_parts = new_parts
        topic = CoordinatorTopic(
            OFFSETS_TOPIC,
            "group",
            codec_of(configs.broker),
            load_buffer_size=configs.broker.int("offsets.load.buffer.size"),
            commit_timeout_ms=configs.broker.int("offsets.commit.timeout.ms"),
        )
        self._codec = topic.codec
        self._started_s = asyncio.get_running_loop().time()
        self._log = topic.logger
        self._runtime: CoordinatorRuntime[GroupCoordinatorShard] = CoordinatorRuntime(
            topic, lambda _: self._parts.new_shard(), ports
        )
        self._finder = CoordinatorFinder(OFFSETS_TOPIC, metadata, topics, topic.logger)

    @cached_property
    def _parts(self) -> "GroupParts":
        return self._new_parts()

    @property
    def consumers(self) -> "ConsumerGroups":
        return self._parts.consumers

    # -- requests ------------------------------------------------------------

    async def find(self, group_id: str, listener: str) -> tuple[BrokerImage, tuple[str, int]]:
        """The broker that coordinates a group, and its address on a listener.

        Raises  BrokerError(coordinator_not_available)
        """
        return await self._finder.find(group_id, listener, self.new_topic)

    def partition_of(self, group_id: str) -> int:
        """The partition of a group, also of a topic that does not exist yet."""
        if self._metadata.topic(OFFSETS_TOPIC) is None:
            return partition_of(group_id, self._configs.broker.int("offsets.topic.num.partitions"))
        return self._finder.partition_of(group_id)

    def new_topic(self) -> NewTopic:
        """The offsets topic to create.

        Raises  BrokerError(coordinator_not_available), while more brokers may join
        """
        config, brokers = self._configs.broker, len(self._metadata.brokers)
        up_s = asyncio.get_running_loop().time() - self._started_s
        check_brokers(OFFSETS_TOPIC, config, REPLICATION_FACTOR, brokers, up_s)
        return new_offsets_topic(config, brokers)

    async def ask(
        self,
        group_id: str,
        decide: "Callable[[GroupCoordinatorShard, Now], CoordinatorResult[Reply]]",
    ) -> Reply:
        """The reply of the group's shard, once the records that it rests on are committed.

        Raises  BrokerError(not_coordinator, coordinator_load_in_progress,
                coordinator_not_available, invalid_group_id)
        """
        return await self._runtime.ask(self._finder.partition_of(group_id), decide)

    def largest_record(self, group_id: str) -> int | None:
        """The largest record that the log of the group's shard takes; None if it is not known.

        Compressed ones may have been of any size.

        Raises  BrokerError(coordinator_not_available, invalid_group_id), as `ask`
        """
        if self._codec is not Codec.NONE:
            return None
        partition = self._finder.partition_of(group_id)
        leader = self._replicas.find(OFFSETS_TOPIC, partition)
        return None if leader is None else leader.log.config.max_message_bytes

    def end_transaction(self, partition: int, end: TransactionEnd) -> "asyncio.Future[ErrorCode]":
        """Append an end marker to a partition; its offsets count, or are dropped.

        Raises  BrokerError(not_coordinator, coordinator_load_in_progress), or as the append does
        """
        return self._runtime.end_transaction(partition, end)

    def shards(self) -> "Sequence[GroupCoordinatorShard]":
        """Every shard that is served here.

        Raises  BrokerError(coordinator_load_in_progress), while one of them is being loaded
        """
        return self._runtime.shards()

    def states(self) -> Counter[str]:
        """How many groups of the loaded shards are in each state."""
        loaded = self._runtime.loaded()
        return Counter(group.state for shard in loaded for group in shard.list_groups())

    @property
    def loading(self) -> int:
        """How many shards are being loaded."""
        return self._runtime.loading

    # -- events --------------------------------------------------------------

    async def expire(self) -> None:
        """Remove expired offsets, and empty groups that have none left."""
        failed = await self._runtime.ask_loaded(lambda shard, now: shard.offsets.expire(now))
        for partition, error in failed:
            self._log.info("offsets not expired partition=%s why=%s", partition, error)

    def on_metadata(self, updated: Updated) -> None:
        """Topics were created, grew or were deleted: assign again, remove offsets."""
        changed = {*updated.topics, *(topic.name for topic in updated.gone)}
        for shard in self._runtime.loaded():
            self.consumers.on_topics_changed(shard.groups, changed)
        deleted = [
            TopicPartition(topic.name, index)
            for topic in updated.gone
            for index in topic.partitions
        ]
        if deleted:
            self._runtime.run_all(lambda shard, _: shard.offsets.on_partitions_deleted(deleted))

    def on_role(self, partition: TopicPartition) -> None:
        """The role of this broker for a partition of the topic may have changed."""
        leader = self._replicas.find(*partition)
        self._runtime.on_leader(partition.partition, None if leader is None else leader.tenure)

    async def stop(self) -> None:
        """Drop all groups; waiting requests get NOT_COORDINATOR."""
        await self._runtime.stop()
