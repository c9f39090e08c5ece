"""CreateTopics, CreatePartitions and DeleteTopics: checked, written to the tree, then awaited.

The broker that gets the request only writes it into the coordination tree, in Kafka's layout; the
controller sees it there and carries it out. The result comes back as metadata, and the response to
the client waits for that.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.base.randomness import Random
from barnabas.controller.decide.replica_assignment import Racks, assign, assign_more
from barnabas.log.logs import Logs
from barnabas.purgatory.delayed_operation import DelayedOperation, Purgatory
from barnabas.server.cluster import requested_assignments as assignments
from barnabas.server.cluster.configs import Configs
from barnabas.server.cluster.metadata_cache import MetadataCache, TopicImage
from barnabas.server.cluster.requested_assignments import Assignment
from barnabas.server.cluster.topic_names import check_topic_name, colliding
from barnabas.server.cluster.tree_errors import coordinating
from barnabas.znodes import layout, paths
from barnabas.znodes.layout import TopicAssignment
from barnabas.znodes.tree import (
    BadVersion,
    ConnectionLoss,
    Coordination,
    CreateNode,
    NodeExists,
    NoNode,
    SessionExpired,
    SetData,
    WatchEvent,
)

log = logging.getLogger("barnabas.topics")

DEFAULT: Final = -1
# The response to a DeleteTopics waits so long, beyond Kafka's, for the name to be free again.
FINISHED_WITHIN_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic of a CreateTopics request; -1 leaves the number to the broker."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Assignment = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Made:
    """A topic as it was, or (None for an id) would be, written to the tree."""

    name: str
    topic_id: uuid.UUID | None
    assignment: Assignment


class Topics:
    """Asks the controller, by way of the tree, to create, grow and delete topics."""

    def __init__(
        self,
        coordination: Coordination,
        random: Random,
        configs: Configs,
        logs: Logs,
        metadata: MetadataCache,
        waiting: "Purgatory[MetadataAwaited]",
    ) -> None:
        self._coordination = coordination
        self._random = random
        self._configs = configs
        self._logs = logs
        self._metadata = metadata
        self._waiting = waiting

    # -- creating ------------------------------------------------------------

    async def create(self, wanted: NewTopic, *, validate_only: bool) -> Made:
        """Create a topic; `led` returns once it can be used.

        Raises  BrokerError, nothing created, if the topic is there or cannot be
        """
        with coordinating():
            assignment = self._decide(wanted, await self._racks())
            await self._check_no_node(wanted.name)
        self._check_no_log(wanted.name, assignment)
        if validate_only:
            return Made(wanted.name, None, assignment)
        topic_id = self._random.uuid()
        with coordinating():
            await self._write_new(wanted, TopicAssignment(assignment, topic_id))
        self._configs.know_topic(wanted.name, wanted.overrides)
        log.info("topic created topic=%s partitions=%d", wanted.name, len(assignment))
        return Made(wanted.name, topic_id, assignment)

    async def _write_new(self, wanted: NewTopic, topic: TopicAssignment) -> None:
        """The properties and the topic in one transaction: a reader of one finds the other."""
        path = paths.config_path(paths.topic_entity(wanted.name))
        data = layout.encode_config(wanted.overrides)
        create = CreateNode(paths.topic_path(wanted.name), layout.encode_topic(topic))
        while True:
            # Properties may be left of a topic whose deletion was not finished.
            left_over = await self._coordination.exists(path) is not None
            try:
                await self._coordination.multi(
                    [SetData(path, data) if left_over else CreateNode(path, data), create]
                )
            except NodeExists:
                raise _exists(wanted.name) from None
            except NoNode:
                continue  # they are gone meanwhile
            return

    def check_absent(self, name: str) -> None:
        """Raises BrokerError(topic_already_exists) if there is such a topic."""
        if self._metadata.topic(name) is not None:
            raise _exists(name)

    def _decide(self, wanted: NewTopic, racks: Racks) -> Assignment:
        """Which broker holds which partition, if the topic can be made at all."""
        self.check_absent(wanted.name)
        assignment = wanted.assignments or self._assign(wanted, racks)
        check_topic_name(wanted.name)
        if collisions := colliding(wanted.name, [t.name for t in self._metadata.topics()]):
            raise BrokerError(
                ErrorCode.invalid_topic_exception,
                f"Topic '{wanted.name}' collides with existing topics: {', '.join(collisions)}",
            )
        assignments.check_creation(assignment, list(self._metadata.brokers))
        self._configs.check_overrides(wanted.overrides)
        return dict(sorted(assignment.items()))

    async def _check_no_node(self, name: str) -> None:
        """Refuse a topic that the tree has, though the metadata does not.

        The mark goes last: only without it a deletion will not take what is written now.
        """
        if await self._coordination.exists(paths.delete_topic_path(name)) is not None:
            raise BrokerError(
                ErrorCode.topic_already_exists, f"Topic '{name}' is marked for deletion."
            )
        if await self._coordination.exists(paths.topic_path(name)) is not None:
            raise _exists(name)

    def _check_no_log(self, name: str, partitions: Iterable[int]) -> None:
        """Refuse a new partition whose directory exists, with records of an unknown topic.

        The tree may be lost, or the files may be another cluster's: an operator has to decide.
        """
        for index in partitions:
            if (found := self._logs.get(TopicPartition(name, index))) is not None:
                raise BrokerError(
                    ErrorCode.kafka_storage_error,
                    f"{found.disk.log_dir}/{found.directory} holds records of a topic that the "
                    f"cluster does not know; move it away to create '{name}'.",
                )

    def _assign(self, wanted: NewTopic, racks: Racks) -> Assignment:
        broker = self._configs.broker
        partitions, replication_factor = wanted.partitions, wanted.replication_factor
        if partitions == DEFAULT:
            partitions = broker.int("num.partitions")
        if replication_factor == DEFAULT:
            replication_factor = broker.int("default.replication.factor")
        assignments.check_numbers(partitions, replication_factor, len(racks))
        return assign(racks, partitions, replication_factor, self._random)

    async def _racks(self) -> Racks:
        """Of the brokers to choose from: those we know of, but for one that has just left.

        The metadata may still have that one, and a partition there would have no leader.
        """
        registered = await self._coordination.children(paths.BROKER_IDS)
        known = self._metadata.brokers.items()
        return {broker: image.rack for broker, image in known if str(broker) in registered}

    # -- growing -------------------------------------------------------------

    async def grow(
        self,
        name: str,
        count: int,
        assigned: Sequence[tuple[BrokerId, ...]] | None,
        *,
        validate_only: bool,
    ) -> None:
        """Ask for more partitions. Raises BrokerError, nothing changed, if it cannot be."""
        while True:
            with coordinating():
                topic, version = await self._read(name)
                racks = await self._racks()
            if topic.adding or topic.removing:
                raise BrokerError(
                    ErrorCode.reassignment_in_progress,
                    f"A partition reassignment is in progress for the topic '{name}'.",
                )
            added = self._decide_growth(topic, count, assigned, racks)
            self._check_no_log(name, added)
            if validate_only:
                return
            grown = TopicAssignment({**topic.partitions, **added}, topic.topic_id)
            try:
                with coordinating():
                    await self._coordination.set(
                        paths.topic_path(name), layout.encode_topic(grown), version
                    )
            except BadVersion:
                continue  # decided on what is no longer so
            except NoNode:
                raise _unknown(name) from None
            return

    async def _read(self, name: str) -> tuple[TopicAssignment, int]:
        try:
            data, stat = await self._coordination.get(paths.topic_path(name))
        except (NoNode, ValueError):  # the latter: a name that cannot be part of a path
            raise _unknown(name) from None
        return layout.decode_topic(name, data), stat.version

    def _decide_growth(
        self,
        topic: TopicAssignment,
        count: int,
        assigned: Sequence[tuple[BrokerId, ...]] | None,
        racks: Racks,
    ) -> Assignment:
        have, replication_factor = len(topic.partitions), len(topic.partitions[0])
        assignments.check_growth(have, count)
        if assigned is None:
            assignments.check_numbers(count - have, replication_factor, len(racks))
            return assign_more(racks, topic.partitions, count - have)
        added = dict(enumerate(assigned, have))
        assignments.check_added(
            added, count - have, replication_factor, list(self._metadata.brokers)
        )
        return added

    # -- deleting ------------------------------------------------------------

    async def delete(self, name: str, topic_id: uuid.UUID | None = None) -> None:
        """Mark a topic for deletion; `gone` returns once no broker knows it any more.

        With `topic_id` only if it is that one, and not another that has its name by now.

        Raises  BrokerError(topic_deletion_disabled, unknown_topic_or_partition, unknown_topic_id)
        """
        self.check_deletion_enabled()
        image = self._metadata.topic(name)
        if topic_id is not None and (image is None or image.topic_id != topic_id):
            raise BrokerError(ErrorCode.unknown_topic_id)
        if image is None:
            raise BrokerError(ErrorCode.unknown_topic_or_partition)
        with coordinating(), suppress(NodeExists):  # asked for already
            await self._coordination.create(paths.delete_topic_path(name))
        log.info("topic marked for deletion topic=%s partitions=%d", name, len(image.partitions))

    def check_deletion_enabled(self) -> None:
        """Raises BrokerError(topic_deletion_disabled) unless `delete.topic.enable`."""
        if not self._configs.broker.bool("delete.topic.enable"):
            raise BrokerError(ErrorCode.topic_deletion_disabled, "Topic deletion is disabled.")

    # -- waiting for the controller ------------------------------------------

    async def led(self, name: str, partitions: int, timeout_ms: int) -> None:
        """Return when so many partitions of a topic have leaders.

        Raises  BrokerError(request_timed_out); the topic may come later
        """

        def is_led() -> bool:
            image = self._metadata.topic(name)
            return image is not None and self._is_led(image, partitions)

        await self._until(name, is_led, timeout_ms)

    def _is_led(self, image: TopicImage, partitions: int) -> bool:
        brokers = self._metadata.brokers
        return len(image.partitions) >= partitions and all(
            partition.leader in brokers for partition in image.partitions.values()
        )

    async def gone(self, name: str, topic_id: uuid.UUID | None, timeout_ms: int) -> None:
        """Return when clients no longer see a topic. Raises BrokerError(request_timed_out)."""

        def is_gone() -> bool:
            image = self._metadata.topic(name)
            return image is None or image.topic_id != topic_id

        await self._until(name, is_gone, timeout_ms)
        await self._finished(paths.delete_topic_path(name), min(timeout_ms, FINISHED_WITHIN_MS))

    async def _finished(self, mark: str, within_ms: int) -> None:
        """Wait a little until the topic's name can be used again: the deletion's mark goes last.

        While a broker that has replicas of it is down that takes as long as the broker does.
        """
        changed = asyncio.Event()

        def on_change(_: WatchEvent) -> None:
            changed.set()

        with suppress(TimeoutError, ConnectionLoss, SessionExpired):
            if await self._coordination.exists(mark, on_change) is not None:
                async with asyncio.timeout(within_ms / 1000):
                    await changed.wait()

    async def _until(self, name: str, holds: Callable[[], bool], timeout_ms: int) -> None:
        awaited = MetadataAwaited(holds)
        self._waiting.try_complete_else_watch(awaited, [name], timeout_ms)
        if not await awaited.came:
            raise BrokerError(ErrorCode.request_timed_out)

    def metadata_changed(self, names: Iterable[str]) -> None:
        """Look at what waits for these topics."""
        for name in names:
            self._waiting.check_and_complete(name)


class MetadataAwaited(DelayedOperation):
    """A response that waits until the metadata has a topic in some state."""

    def __init__(self, holds: Callable[[], bool]) -> None:
        super().__init__()
        self._holds = holds
        self.came: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def try_complete(self) -> bool:
        return self._holds()

    def on_complete(self) -> None:
        if not self.came.done():  # else the request was cancelled
            self.came.set_result(self._holds())


def _exists(name: str) -> BrokerError:
    return BrokerError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")


def _unknown(name: str) -> BrokerError:
    return BrokerError(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")
