"""Topics: created, grown, deleted; what a controller does, in a cluster of one broker.

Everything that is decided is written to the coordination tree first, in Kafka's layout, and
then applied here: to the logs, the replicas and the metadata. So after a crash the tree tells
what should be, and `load` makes it so.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.base.randomness import Random
from barnabas.log.logs import Logs
from barnabas.log.work import Removal
from barnabas.replication.leader import LeaderReplica
from barnabas.replication.replicas import Replicas
from barnabas.server.configs import Configs
from barnabas.server.metadata import MetadataCache, PartitionImage, TopicImage
from barnabas.server.topic_names import check_topic_name, colliding
from barnabas.znodes import layout, paths
from barnabas.znodes.tree import Coordination, Create, Delete, NodeExists, NoNode, Set

log = logging.getLogger("barnabas.topics")

DEFAULT: Final = -1

Assignment = Mapping[int, tuple[BrokerId, ...]]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """What a client asks for; -1 leaves the number to the broker."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Assignment = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)


class Topics:
    """All topics of this broker; the tree, the logs and the metadata tell the same of them."""

    def __init__(
        self,
        coordination: Coordination,
        broker_id: BrokerId,
        random: Random,
        configs: Configs,
        logs: Logs,
        replicas: Replicas,
        metadata: MetadataCache,
        partition_gone: Callable[[TopicPartition], None],
        remove_later: Callable[[Removal], None],
    ) -> None:
        self._coordination = coordination
        self._broker_id = broker_id
        self._random = random
        self._configs = configs
        self._logs = logs
        self._replicas = replicas
        self._metadata = metadata
        self._partition_gone = partition_gone
        self._remove_later = remove_later

    async def load(self) -> None:
        """Lead every partition that the tree knows, each in a new epoch."""
        operations = []
        for name in await self._coordination.children(paths.TOPICS):
            data, _ = await self._coordination.get(paths.topic_path(name))
            topic = layout.decode_topic(name, data)
            partitions = {}
            for index, replicas in sorted(topic.partitions.items()):
                path = paths.partition_state_path(TopicPartition(name, index))
                data, _ = await self._coordination.get(path)
                state = layout.decode_partition_state(TopicPartition(name, index), data)
                epoch = LeaderEpoch(state.leader_epoch + 1)
                partitions[index] = self._led_here(epoch, replicas)
                operations.append(Set(path, self._state(epoch)))
            topic_id = topic.topic_id or self._random.uuid()
            self._metadata.put(TopicImage(name, topic_id, partitions))
        if operations:
            await self._coordination.multi(operations)
        for image in self._metadata.topics():
            for index in image.partitions:
                self._lead(image, index)

    def _led_here(self, epoch: LeaderEpoch, replicas: tuple[BrokerId, ...]) -> PartitionImage:
        return PartitionImage(self._broker_id, epoch, (self._broker_id,), replicas)

    # -- creating ------------------------------------------------------------

    async def create_automatically(self, name: str) -> TopicImage:
        """Create a topic that a client used before anyone made it."""
        image = await self.create(NewTopic(name), validate_only=False)
        log.info("topic created automatically topic=%s partitions=%d", name, len(image.partitions))
        return image

    async def create(self, wanted: NewTopic, *, validate_only: bool) -> TopicImage:
        """Make a topic with its logs and lead it.

        Raises  BrokerError, nothing created, if the topic is there or cannot be
        """
        assignment = self._decide(wanted)
        image = self._image(wanted.name, assignment)
        if validate_only:
            return image
        try:
            await self._coordination.multi(self._creation(image, wanted.overrides))
        except NodeExists:
            raise BrokerError(
                ErrorCode.topic_already_exists, f"Topic '{wanted.name}' already exists."
            ) from None
        self._configs.know_topic(wanted.name, wanted.overrides)
        self._metadata.put(image)
        for index in image.partitions:
            self._lead(image, index)
        return image

    def _decide(self, wanted: NewTopic) -> Assignment:
        """Which broker holds which partition, if the topic can be made at all."""
        check_topic_name(wanted.name)
        if self._metadata.topic(wanted.name) is not None:
            raise BrokerError(
                ErrorCode.topic_already_exists, f"Topic '{wanted.name}' already exists."
            )
        if collisions := colliding(wanted.name, [t.name for t in self._metadata.topics()]):
            raise BrokerError(
                ErrorCode.invalid_topic_exception,
                f"Topic '{wanted.name}' collides with existing topics: {', '.join(collisions)}",
            )
        self._configs.check_overrides(wanted.overrides)
        if wanted.assignments:
            _check_assignment(wanted.assignments, list(self._metadata.brokers), first=0)
            return dict(sorted(wanted.assignments.items()))
        return self._assign(wanted.partitions, wanted.replication_factor)

    def _assign(self, partitions: int, replication_factor: int) -> Assignment:
        broker = self._configs.broker
        if partitions == DEFAULT:
            partitions = broker.int("num.partitions")
        if replication_factor == DEFAULT:
            replication_factor = broker.int("default.replication.factor")
        if partitions <= 0:
            raise BrokerError(
                ErrorCode.invalid_partitions,
                "Number of partitions must be larger than 0, or -1 to use the default value.",
            )
        if replication_factor <= 0:
            raise BrokerError(
                ErrorCode.invalid_replication_factor,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        available = len(self._metadata.brokers)
        if replication_factor > available:
            raise BrokerError(
                ErrorCode.invalid_replication_factor,
                f"Replication factor: {replication_factor} larger than available brokers: "
                f"{available}.",
            )
        return dict.fromkeys(range(partitions), (self._broker_id,))

    def _image(self, name: str, assignment: Assignment) -> TopicImage:
        return TopicImage(name, self._random.uuid(), self._first_epoch(assignment))

    def _first_epoch(self, assignment: Assignment) -> dict[int, PartitionImage]:
        return {
            index: self._led_here(LeaderEpoch(0), replicas)
            for index, replicas in assignment.items()
        }

    def _creation(self, image: TopicImage, overrides: Mapping[str, str]) -> list[Create]:
        config_path = paths.config_path(paths.topic_entity(image.name))
        operations = [
            Create(config_path, layout.encode_config(overrides)),
            Create(paths.topic_path(image.name), self._topic_data(image)),
            Create(paths.partitions_path(image.name)),
        ]
        for index in image.partitions:
            operations += self._partition_creation(TopicPartition(image.name, index))
        return operations

    def _partition_creation(self, partition: TopicPartition) -> list[Create]:
        return [
            Create(paths.partition_path(partition)),
            Create(paths.partition_state_path(partition), self._state(LeaderEpoch(0))),
        ]

    def _topic_data(self, image: TopicImage) -> bytes:
        return layout.encode_topic(
            layout.TopicAssignment(
                partitions={i: partition.replicas for i, partition in image.partitions.items()},
                topic_id=image.topic_id,
            )
        )

    def _state(self, leader_epoch: LeaderEpoch) -> bytes:
        return layout.encode_partition_state(
            layout.PartitionState(
                leader=self._broker_id,
                leader_epoch=leader_epoch,
                controller_epoch=0,
                isr=(self._broker_id,),
            )
        )

    def _lead(self, image: TopicImage, index: int) -> None:
        """Open or make the partition's log and take producers and consumers for it."""
        topic_partition = TopicPartition(image.name, index)
        partition_log = self._logs.get(topic_partition)
        if partition_log is not None and partition_log.topic_id not in (None, image.topic_id):
            # Left by a deleted topic of the same name, whose removal a crash interrupted.
            self._remove_later(self._logs.delete(topic_partition))
            partition_log = None
        if partition_log is None:
            partition_log = self._logs.create(
                topic_partition, image.topic_id, self._configs.topic(image.name)
            )
        else:
            partition_log.config = self._configs.topic(image.name)
        self._replicas.put(
            LeaderReplica(
                topic_partition, image.topic_id, image.partitions[index].leader_epoch, partition_log
            )
        )

    # -- growing -------------------------------------------------------------

    async def grow(
        self,
        name: str,
        count: int,
        assignments: Sequence[tuple[BrokerId, ...]] | None,
        *,
        validate_only: bool,
    ) -> None:
        """Give a topic more partitions. Raises BrokerError, nothing changed, if it cannot be."""
        image = self._metadata.topic(name)
        if image is None:
            raise BrokerError(
                ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist."
            )
        have = len(image.partitions)
        _check_growth(have, count, assignments)
        added: Assignment = dict.fromkeys(range(have, count), (self._broker_id,))
        if assignments is not None:
            added = dict(enumerate(assignments, have))
            _check_assignment(added, list(self._metadata.brokers), first=have)
        if validate_only:
            return
        grown = TopicImage(name, image.topic_id, {**image.partitions, **self._first_epoch(added)})
        operations: list[Create | Set] = [Set(paths.topic_path(name), self._topic_data(grown))]
        for index in added:
            operations += self._partition_creation(TopicPartition(name, index))
        try:
            await self._coordination.multi(operations)
        except NodeExists:
            raise BrokerError(
                ErrorCode.invalid_partitions, "The topic has grown in the meantime."
            ) from None
        except NoNode:
            raise BrokerError(ErrorCode.unknown_topic_or_partition) from None
        self._metadata.put(grown)
        for index in added:
            self._lead(grown, index)

    # -- deleting ------------------------------------------------------------

    async def delete(self, name: str) -> None:
        """Delete a topic and its data; fetches that wait for it are answered.

        Raises  BrokerError(topic_deletion_disabled, unknown_topic_or_partition)
        """
        if not self._configs.broker.bool("delete.topic.enable"):
            raise BrokerError(ErrorCode.topic_deletion_disabled, "Topic deletion is disabled.")
        image = self._metadata.topic(name)
        if image is None:
            raise BrokerError(ErrorCode.unknown_topic_or_partition)
        operations = []
        for index in image.partitions:
            partition = TopicPartition(name, index)
            operations.append(Delete(paths.partition_state_path(partition)))
            operations.append(Delete(paths.partition_path(partition)))
        operations.append(Delete(paths.partitions_path(name)))
        operations.append(Delete(paths.topic_path(name)))
        operations.append(Delete(paths.config_path(paths.topic_entity(name))))
        try:
            await self._coordination.multi(operations)
        except NoNode:
            raise BrokerError(ErrorCode.unknown_topic_or_partition) from None
        self._configs.forget_topic(name)
        self._metadata.forget(name)
        for index in image.partitions:
            topic_partition = TopicPartition(name, index)
            self._replicas.remove(topic_partition)
            self._partition_gone(topic_partition)
            if self._logs.get(topic_partition) is not None:
                self._remove_later(self._logs.delete(topic_partition))

    def config_changed(self, name: str) -> None:
        """Let the logs of a topic follow its properties."""
        image = self._metadata.topic(name)
        config = self._configs.topic(name)
        for index in image.partitions if image is not None else ():
            if (leader := self._replicas.find(name, index)) is not None:
                leader.log.config = config


def _check_growth(
    have: int, count: int, assignments: Sequence[tuple[BrokerId, ...]] | None
) -> None:
    if count == have:
        raise BrokerError(ErrorCode.invalid_partitions, f"Topic already has {have} partitions.")
    if count < have:
        raise BrokerError(
            ErrorCode.invalid_partitions,
            f"Topic currently has {have} partitions, which is higher than the requested {count}.",
        )
    if assignments is not None and len(assignments) != count - have:
        raise BrokerError(
            ErrorCode.invalid_replica_assignment,
            f"Increasing the number of partitions by {count - have} "
            f"but {len(assignments)} assignments provided.",
        )


def _check_assignment(assignment: Assignment, brokers: Sequence[BrokerId], first: int) -> None:
    """Raises BrokerError(invalid_replica_assignment) if this is not a whole assignment."""
    wrong = None
    if sorted(assignment) != list(range(first, first + len(assignment))):
        wrong = "partitions should be a consecutive 0-based integer sequence"
    sizes = {len(replicas) for replicas in assignment.values()}
    if len(sizes) > 1 or 0 in sizes:
        wrong = "every partition should have the same, non-zero number of replicas"
    for index, replicas in assignment.items():
        if len(set(replicas)) < len(replicas):
            wrong = f"duplicate brokers not allowed in replica assignment of partition {index}"
        if unknown := [str(b) for b in replicas if b not in brokers]:
            wrong = f"unknown broker(s) in replica assignment: {', '.join(unknown)}"
    if wrong:
        raise BrokerError(ErrorCode.invalid_replica_assignment, wrong)
