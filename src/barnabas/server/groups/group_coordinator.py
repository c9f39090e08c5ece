"""The groups whose partition of `__consumer_offsets` is led here, and the way to those elsewhere.

A shard is loaded when this broker begins to lead its partition and dropped when it stops. A
request goes to the shard of its group and is answered when that is committed.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar

from barnabas.base.clock import Clock
from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.failures import FailureChannel
from barnabas.base.ids import TopicPartition
from barnabas.base.offload import Offload
from barnabas.purgatory.timer import Timer
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.replication.replicas import Replicas
from barnabas.server.cluster.config_admin import Configs
from barnabas.server.cluster.metadata_cache import BrokerImage, MetadataCache, Updated
from barnabas.server.cluster.topic_admin import Topics
from barnabas.server.delayed.partition_purgatories import Delayed
from barnabas.server.groups.offsets_topic import (
    OFFSETS_TOPIC,
    codec_of,
    new_offsets_topic,
    partition_of,
)

if TYPE_CHECKING:
    from barnabas.coordinator.result import CoordinatorResult, Now
    from barnabas.groups.consumer.consumer_groups import ConsumerGroups
    from barnabas.groups.shard import GroupCoordinatorShard
    from barnabas.server.groups.group_imports import ActiveShard, GroupParts

log = logging.getLogger("barnabas.groups")

Reply = TypeVar("Reply")
CREATED_WITHIN_MS: Final = 1_000
# A load that failed is tried again after this.
LOAD_AGAIN_S: Final = 1.0


class GroupCoordinator:
    """Coordinates the groups of the partitions that this broker leads."""

    def __init__(
        self,
        replicas: Replicas,
        metadata: MetadataCache,
        configs: Configs,
        topics: Topics,
        delayed: Delayed,
        timer: Timer,
        clock: Clock,
        offload: Offload,
        new_parts: Callable[[], "GroupParts"],
        failures: FailureChannel,
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._configs = configs
        self._topics = topics
        self._delayed = delayed
        self._timer = timer
        self._clock = clock
        self._offload = offload
        self._new_parts = new_parts
        self._failures = failures
        self._codec = codec_of(configs.broker)
        self._active: dict[int, ActiveShard] = {}
        self._tenures: dict[int, object] = {}
        self._loads: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    @cached_property
    def _parts(self) -> "GroupParts":
        return self._new_parts()

    @property
    def consumers(self) -> "ConsumerGroups":
        return self._parts.consumers

    # -- who coordinates -----------------------------------------------------

    async def find(self, group_id: str, listener: str) -> tuple[BrokerImage, tuple[str, int]]:
        """The broker that coordinates a group, and where clients of a listener reach it.

        Raises  BrokerError(coordinator_not_available), and makes the topic if it is not there
        """
        topic = self._metadata.topic(OFFSETS_TOPIC)
        if topic is None:
            await self._create_topic()
            topic = self._metadata.topic(OFFSETS_TOPIC)
            assert topic is not None
        partition = topic.partitions.get(partition_of(group_id, len(topic.partitions)))
        broker = self._metadata.brokers.get(partition.leader) if partition is not None else None
        if broker is None or listener not in broker.endpoints:
            raise BrokerError(ErrorCode.coordinator_not_available)
        return broker, broker.endpoint(listener)

    async def _create_topic(self) -> None:
        wanted = new_offsets_topic(self._configs.broker, len(self._metadata.brokers))
        try:
            await self._topics.create(wanted, validate_only=False)
        except BrokerError as e:
            if e.code is not ErrorCode.topic_already_exists:
                log.warning("%s cannot be made: %s", OFFSETS_TOPIC, e)
                raise BrokerError(ErrorCode.coordinator_not_available, e.message) from e
        try:
            await self._topics.led(OFFSETS_TOPIC, wanted.partitions, CREATED_WITHIN_MS)
        except BrokerError as e:
            raise BrokerError(ErrorCode.coordinator_not_available) from e

    # -- requests ------------------------------------------------------------

    async def ask(
        self,
        group_id: str,
        decide: "Callable[[GroupCoordinatorShard, Now], CoordinatorResult[Reply]]",
    ) -> Reply:
        """The answer of the group's shard, when what it rests on is committed.

        Raises  BrokerError(not_coordinator, coordinator_load_in_progress,
                coordinator_not_available, invalid_group_id)
        """
        return await self._shard_of(group_id).ask(decide)

    def _shard_of(self, group_id: str) -> "ActiveShard":
        topic = self._metadata.topic(OFFSETS_TOPIC)
        if topic is None:
            raise BrokerError(ErrorCode.coordinator_not_available)
        active = self._active.get(partition_of(group_id, len(topic.partitions)))
        if active is None:
            raise BrokerError(ErrorCode.not_coordinator)
        if not active.is_loaded:
            raise BrokerError(ErrorCode.coordinator_load_in_progress)
        return active

    def shards(self) -> "Iterable[GroupCoordinatorShard]":
        """Every shard that is served here.

        Raises  BrokerError(coordinator_load_in_progress), while one of them is being loaded
        """
        if not all(active.is_loaded for active in self._active.values()):
            raise BrokerError(ErrorCode.coordinator_load_in_progress)
        return [active.shard for active in self._active.values()]

    def states(self) -> Counter[str]:
        """How many groups of the shards that are loaded are in each state."""
        loaded = [active.shard for active in self._active.values() if active.is_loaded]
        return Counter(group.state for shard in loaded for group in shard.list_groups())

    @property
    def loading(self) -> int:
        return sum(not active.is_loaded for active in self._active.values())

    async def expire(self) -> None:
        """Forget offsets that nobody needed for long, and empty groups that have none left."""
        for active in list(self._active.values()):
            if active.is_loaded:
                try:
                    await active.ask(lambda shard, now: shard.offsets.expire(now))
                except BrokerError as e:
                    log.info("offsets not expired partition=%s why=%s", active.partition, e)

    def on_metadata(self, updated: Updated) -> None:
        """Topics have come, grown or gone: groups are assigned anew, offsets are forgotten."""
        changed = {*updated.topics, *(topic.name for topic in updated.gone)}
        gone = [
            TopicPartition(topic.name, index)
            for topic in updated.gone
            for index in topic.partitions
        ]
        for index, active in list(self._active.items()):
            if self._active.get(index) is not active:
                continue  # dropped with its folder, which failed when another forgot its offsets
            if active.is_loaded:
                self.consumers.on_topics_changed(active.shard.groups, changed)
            active.on_partitions_deleted(gone)

    # -- roles ---------------------------------------------------------------

    def on_role(self, partition: TopicPartition) -> None:
        """Look whether a partition of the topic is led here now."""
        index = partition.partition
        leader = self._replicas.find(*partition)
        if leader is not None and self._tenures.get(index) is leader.tenure:
            return
        self._drop(index)
        if leader is not None and not self._is_stopping:
            self._begin(leader)

    def _drop(self, index: int) -> None:
        self._tenures.pop(index, None)
        active = self._active.pop(index, None)
        if active is not None:
            if active.shard.groups:
                log.info(
                    "groups dropped partition=%s groups=%d",
                    active.partition,
                    len(active.shard.groups),
                )
            active.end()

    def _begin(self, leader: LeaderReplica) -> None:
        index = leader.topic_partition.partition
        active = self._new_active(leader)
        self._tenures[index], self._active[index] = leader.tenure, active
        task = asyncio.ensure_future(self._load(active, leader))
        self._loads.add(task)
        task.add_done_callback(self._load_ended)

    def _new_active(self, leader: LeaderReplica) -> "ActiveShard":
        from barnabas.server.groups.group_imports import ActiveShard

        return ActiveShard(
            leader.topic_partition,
            self._parts.new_shard(),
            self._replicas,
            self._delayed,
            self._timer,
            self._clock,
            asyncio.get_running_loop(),
            lambda: self._configs.broker.int("offsets.commit.timeout.ms"),
            self._codec,
            self._failures,
            self._offload,
        )

    async def _load(self, active: "ActiveShard", leader: LeaderReplica) -> None:
        from barnabas.server.groups.group_imports import load

        index, loop = leader.topic_partition.partition, asyncio.get_running_loop()
        started = loop.time()

        def is_wanted() -> bool:
            return self._active.get(index) is active

        while is_wanted():
            size = self._configs.broker.int("offsets.load.buffer.size")
            try:
                count = await load(leader, active.shard, is_wanted, self._offload, size)
            except (BrokerError, DiskFault) as e:
                log.warning("groups not loaded partition=%s why=%s", leader.topic_partition, e)
                await asyncio.sleep(LOAD_AGAIN_S)
                active.shard = self._parts.new_shard()
                continue
            if is_wanted():
                active.begin(leader)
                log.log(
                    logging.INFO if count else logging.DEBUG,
                    "groups loaded partition=%s records=%d groups=%d took_ms=%d",
                    leader.topic_partition,
                    count,
                    len(active.shard.groups),
                    1000 * (loop.time() - started),
                )
            return

    def _load_ended(self, task: "asyncio.Task[None]") -> None:
        self._loads.discard(task)
        if not task.cancelled() and (broken := task.exception()) is not None:
            self._failures.fatal(broken)

    async def stop(self) -> None:
        """Coordinate nothing any more; whoever waits is told to look elsewhere."""
        self._is_stopping = True
        for index in list(self._active):
            self._drop(index)
        # Then what they were told is on its way.
        await asyncio.sleep(0)
        if self._loads:
            await asyncio.wait(self._loads)
