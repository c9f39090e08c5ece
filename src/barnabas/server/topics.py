"""Topics: created, grown, deleted; what a controller does, in a cluster of one broker.

Everything that is decided is written to the coordination tree first, in Kafka's layout, and
then applied here: to the logs, the replicas and the metadata. So after a crash the tree tells
what should be, and `load` makes it so.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.base.randomness import Random
from barnabas.log.log import Log
from barnabas.log.logs import Logs
from barnabas.log.work import Removal
from barnabas.replication.leader import LeaderReplica
from barnabas.replication.leadership import Leadership
from barnabas.replication.replicas import Replicas
from barnabas.server import assignments
from barnabas.server.assignments import Assignment
from barnabas.server.configs import Configs
from barnabas.server.metadata import MetadataCache, PartitionImage, TopicImage
from barnabas.server.topic_names import check_topic_name, colliding
from barnabas.znodes import layout, paths
from barnabas.znodes.tree import Coordination, Create, Delete, NodeExists, Operation, Set

log = logging.getLogger("barnabas.topics")

DEFAULT: Final = -1


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
        disk_failed: Callable[[DiskFault], None],
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
        self._disk_failed = disk_failed
        # Each change is decided on what the one before has left, in the tree and here.
        self._one_at_a_time = asyncio.Lock()

    async def load(self) -> None:
        """Lead every partition that the tree knows, each in a new epoch.

        Deletions that a crash interrupted are finished. A partition whose log is not there
        while a folder is offline lies in that folder: it is offline too, and not begun anew.
        """
        operations: list[Operation] = []
        for name in await self._coordination.children(paths.TOPICS):
            operations += await self._load_topic(name)
        if not self._logs.offline:
            doomed = await self._coordination.children(paths.DELETE_TOPICS)
            operations += [Delete(paths.delete_topic_path(name)) for name in doomed]
            self._remove_leftovers(doomed)
        if operations:
            await self._coordination.multi(operations)
        for image in self._metadata.topics():
            for index in image.partitions:
                if self._logs.offline and self._logs.get(TopicPartition(image.name, index)) is None:
                    self._take_offline(TopicPartition(image.name, index))
                else:
                    self._lead(image, index)

    async def _load_topic(self, name: str) -> list[Operation]:
        """Know a topic of the tree; returns what the tree is to be told of it."""
        data, _ = await self._coordination.get(paths.topic_path(name))
        topic = layout.decode_topic(name, data)
        operations: list[Operation] = []
        partitions = {}
        for index, replicas in sorted(topic.partitions.items()):
            path = paths.partition_state_path(TopicPartition(name, index))
            data, _ = await self._coordination.get(path)
            state = layout.decode_partition_state(TopicPartition(name, index), data)
            epoch = LeaderEpoch(state.leader_epoch + 1)
            partitions[index] = self._led_here(epoch, replicas)
            operations.append(Set(path, self._state(epoch)))
        topic_id = topic.topic_id or self._stored_id(name) or self._random.uuid()
        image = TopicImage(name, topic_id, partitions)
        if topic.topic_id is None:
            operations.append(Set(paths.topic_path(name), self._topic_data(image)))
        self._metadata.put(image)
        return operations

    def _stored_id(self, name: str) -> uuid.UUID | None:
        """The id that the logs of a topic know, for a tree of a Kafka that had no ids yet."""
        ids = (log.topic_id for log in self._logs if log.partition.topic == name)
        return next(filter(None, ids), None)

    def _remove_leftovers(self, doomed: Sequence[str]) -> None:
        for partition in [log.partition for log in self._logs]:
            image = self._metadata.topic(partition.topic)
            if image is not None and partition.partition in image.partitions:
                continue
            if partition.topic in doomed:
                self._remove_log(partition)
            else:
                log.warning("a log of no known topic is left alone log=%s", partition)

    def _led_here(self, epoch: LeaderEpoch, replicas: tuple[BrokerId, ...]) -> PartitionImage:
        return PartitionImage(self._broker_id, epoch, (self._broker_id,), replicas)

    # -- creating ------------------------------------------------------------

    async def create_automatically(self, name: str) -> TopicImage:
        """Create a topic that a client used before anyone made it."""
        return await self.create(NewTopic(name), validate_only=False)

    async def create(self, wanted: NewTopic, *, validate_only: bool) -> TopicImage:
        """Make a topic with its logs and lead it.

        Raises  BrokerError, nothing created, if the topic is there or cannot be
        """
        async with self._one_at_a_time:
            assignment = self._decide(wanted)
            image = self._image(wanted.name, assignment)
            if validate_only:
                return image
            try:
                await self._write(self._creation(image, wanted.overrides))
            except NodeExists:
                raise _exists(wanted.name) from None
            self._configs.know_topic(wanted.name, wanted.overrides)
            await self._lead_all(image, image.partitions)
            return image

    def check_absent(self, name: str) -> None:
        """Raises BrokerError(topic_already_exists) if there is such a topic."""
        if self._metadata.topic(name) is not None:
            raise _exists(name)

    def _decide(self, wanted: NewTopic) -> Assignment:
        """Which broker holds which partition, if the topic can be made at all."""
        self.check_absent(wanted.name)
        assignment = wanted.assignments or self._assign(wanted)
        check_topic_name(wanted.name)
        if collisions := colliding(wanted.name, [t.name for t in self._metadata.topics()]):
            raise BrokerError(
                ErrorCode.invalid_topic_exception,
                f"Topic '{wanted.name}' collides with existing topics: {', '.join(collisions)}",
            )
        assignments.check_creation(assignment, self._brokers)
        self._configs.check_overrides(wanted.overrides)
        self._check_no_log(wanted.name, assignment)
        return dict(sorted(assignment.items()))

    def _check_no_log(self, name: str, partitions: Iterable[int]) -> None:
        """Refuse new partitions where records lie of a topic that the tree does not know.

        The tree may be lost, or the files another cluster's: only a person can tell.
        """
        for index in partitions:
            if (found := self._logs.get(TopicPartition(name, index))) is not None:
                raise BrokerError(
                    ErrorCode.kafka_storage_error,
                    f"{found.disk.folder}/{found.folder} holds records of a topic that is not "
                    f"known here; move it away to create '{name}'.",
                )

    def _assign(self, wanted: NewTopic) -> Assignment:
        broker = self._configs.broker
        partitions, replication_factor = wanted.partitions, wanted.replication_factor
        if partitions == DEFAULT:
            partitions = broker.int("num.partitions")
        if replication_factor == DEFAULT:
            replication_factor = broker.int("default.replication.factor")
        return assignments.assign(self._brokers, partitions, replication_factor)

    @property
    def _brokers(self) -> list[BrokerId]:
        return list(self._metadata.brokers)

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

    async def _write(self, operations: Sequence[Operation]) -> None:
        """Change the tree. Raises BrokerError, nothing changed, if its disk has failed."""
        try:
            await self._coordination.multi(operations)
        except DiskFault as fault:
            self._disk_failed(fault)
            raise BrokerError(ErrorCode.kafka_storage_error, str(fault)) from fault

    async def _lead_all(self, image: TopicImage, partitions: Iterable[int]) -> None:
        """Lead new partitions, then tell clients of them; others are served in between."""
        for index in partitions:
            self._lead(image, index)
            await asyncio.sleep(0)
        self._metadata.put(image)
        log.info("topic made or grown topic=%s partitions=%d", image.name, len(image.partitions))
        # A folder may have failed meanwhile, when the metadata did not know all of them yet.
        for index in image.partitions:
            if self._replicas.find(image.name, index) is None:
                self._metadata.take_offline(TopicPartition(image.name, index))

    def _lead(self, image: TopicImage, index: int) -> None:
        """Open or make the partition's log and take producers and consumers for it."""
        topic_partition = TopicPartition(image.name, index)
        partition_log = self._logs.get(topic_partition)
        if partition_log is not None and partition_log.topic_id not in (None, image.topic_id):
            # Left by a deleted topic of the same name, whose removal a crash interrupted.
            self._remove_log(topic_partition)
            partition_log = None
        config = self._configs.topic(image.name)
        if partition_log is None:
            partition_log = self._create_log(topic_partition, image)
        if partition_log is None:
            self._take_offline(topic_partition)
            return
        partition_log.config = config
        leadership = Leadership(
            topic_partition,
            image.topic_id,
            leader=self._broker_id,
            leader_epoch=image.partitions[index].leader_epoch,
            isr=(self._broker_id,),
            partition_epoch=0,
            replicas=(self._broker_id,),
            controller_epoch=0,
        )
        try:
            leader = LeaderReplica(
                self._broker_id,
                leadership,
                partition_log,
                high_watermark=partition_log.log_end_offset,
                now_ms=0,
            )
        except DiskFault as fault:
            self._disk_failed(fault)
            self._take_offline(topic_partition)
            return
        self._replicas.put(leader)

    def _create_log(self, partition: TopicPartition, image: TopicImage) -> Log | None:
        """A new log, in another folder if one fails; None if none is left."""
        while True:
            try:
                return self._logs.create(partition, image.topic_id, self._configs.topic(image.name))
            except DiskFault as fault:
                self._disk_failed(fault)
            except BrokerError:
                return None

    def _remove_log(self, partition: TopicPartition) -> None:
        try:
            self._remove_later(self._logs.delete(partition))
        except DiskFault as fault:
            self._disk_failed(fault)

    def _take_offline(self, partition: TopicPartition) -> None:
        self._replicas.take_offline(partition)
        self._metadata.take_offline(partition)

    # -- growing -------------------------------------------------------------

    async def grow(
        self,
        name: str,
        count: int,
        assigned: Sequence[tuple[BrokerId, ...]] | None,
        *,
        validate_only: bool,
    ) -> None:
        """Give a topic more partitions. Raises BrokerError, nothing changed, if it cannot be."""
        async with self._one_at_a_time:
            image = self._metadata.topic(name)
            if image is None:
                raise BrokerError(
                    ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist."
                )
            added = self._decide_growth(image, count, assigned)
            self._check_no_log(name, added)
            if validate_only:
                return
            grown = TopicImage(
                name, image.topic_id, {**image.partitions, **self._first_epoch(added)}
            )
            operations: list[Operation] = [Set(paths.topic_path(name), self._topic_data(grown))]
            for index in added:
                operations += self._partition_creation(TopicPartition(name, index))
            await self._write(operations)
            await self._lead_all(grown, added)

    def _decide_growth(
        self, image: TopicImage, count: int, assigned: Sequence[tuple[BrokerId, ...]] | None
    ) -> Assignment:
        have, replication_factor = len(image.partitions), len(image.partitions[0].replicas)
        assignments.check_growth(have, count)
        if assigned is None:
            spread = assignments.assign(self._brokers, count - have, replication_factor)
            return {have + index: replicas for index, replicas in spread.items()}
        added = dict(enumerate(assigned, have))
        assignments.check_added(added, count - have, replication_factor, self._brokers)
        return added

    # -- deleting ------------------------------------------------------------

    async def delete(self, name: str, topic_id: uuid.UUID | None = None) -> None:
        """Delete a topic and its data; fetches that wait for it are answered.

        With `topic_id` only if it is that one, and not another that has its name by now.

        Raises  BrokerError(topic_deletion_disabled, unknown_topic_or_partition, unknown_topic_id)
        """
        self.check_deletion_enabled()
        async with self._one_at_a_time:
            image = self._metadata.topic(name)
            if topic_id is not None and (image is None or image.topic_id != topic_id):
                raise BrokerError(ErrorCode.unknown_topic_id)
            if image is None:
                raise BrokerError(ErrorCode.unknown_topic_or_partition)
            await self._write(await self._deletion(image))
            self._configs.forget_topic(name)
            self._metadata.forget(name)
            log.info("topic deleted topic=%s partitions=%d", name, len(image.partitions))
            for index in image.partitions:
                self._stop(TopicPartition(name, index))
            if not self._logs.offline:
                await self._write([Delete(paths.delete_topic_path(name))])

    def check_deletion_enabled(self) -> None:
        """Raises BrokerError(topic_deletion_disabled) unless `delete.topic.enable`."""
        if not self._configs.broker.bool("delete.topic.enable"):
            raise BrokerError(ErrorCode.topic_deletion_disabled, "Topic deletion is disabled.")

    async def _deletion(self, image: TopicImage) -> list[Operation]:
        """The topic goes, and a mark stays until no log of it is left.

        So neither a crash between the two nor a dead disk leaves its data for good.
        """
        operations: list[Operation] = []
        for index in image.partitions:
            partition = TopicPartition(image.name, index)
            operations.append(Delete(paths.partition_state_path(partition)))
            operations.append(Delete(paths.partition_path(partition)))
        operations.append(Delete(paths.partitions_path(image.name)))
        operations.append(Delete(paths.topic_path(image.name)))
        operations.append(Delete(paths.config_path(paths.topic_entity(image.name))))
        mark = paths.delete_topic_path(image.name)
        if await self._coordination.exists(mark) is None:
            operations.append(Create(mark))
        return operations

    def _stop(self, partition: TopicPartition) -> None:
        """Serve nobody from a partition any more, and let its data go."""
        self._replicas.remove(partition)
        self._partition_gone(partition)
        if self._logs.get(partition) is not None:
            self._remove_log(partition)

    def config_changed(self, name: str) -> None:
        """Let the logs of a topic follow its properties."""
        image = self._metadata.topic(name)
        config = self._configs.topic(name)
        for index in image.partitions if image is not None else ():
            if (leader := self._replicas.find(name, index)) is not None:
                leader.log.config = config


def _exists(name: str) -> BrokerError:
    return BrokerError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
