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
from functools import partial
from typing import Final

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId
from barnabas.base.randomness import Random
from barnabas.controller.decide.replica_assignment import Racks, assign_more
from barnabas.log.logs import Logs
from barnabas.purgatory.delayed_operation import DelayedOperation, Purgatory
from barnabas.server.cluster import requested_assignments as assignments
from barnabas.server.cluster.configs import Configs
from barnabas.server.cluster.metadata_cache import MetadataCache
from barnabas.server.cluster.requested_assignments import Assignment
from barnabas.server.cluster.topic_creation import Creation, Made, NewTopic, TopicCreation
from barnabas.server.cluster.tree_errors import coordinating
from barnabas.znodes import layout, paths
from barnabas.znodes.layout import TopicAssignment
from barnabas.znodes.tree import (
    BadVersion,
    ConnectionLoss,
    Coordination,
    NodeExists,
    NoNode,
    SessionExpired,
    WatchEvent,
)

log = logging.getLogger("barnabas.topics")

# The response to a DeleteTopics waits so long, beyond Kafka's, for the name to be free again.
FINISHED_WITHIN_MS: Final = 1_000
# After so many topics other requests get their turn.
AT_ONCE: Final = 1_000


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
        self._creation = TopicCreation(coordination, random, configs, logs, metadata)
        self._configs = configs
        self._metadata = metadata
        self._waiting = waiting

    # -- creating ------------------------------------------------------------

    async def create(self, wanted: NewTopic, *, validate_only: bool) -> Made:
        """Create a topic; `led` returns once it can be used.

        Raises  BrokerError, nothing created, if the topic is there or cannot be
        """
        (created,) = await self.create_all([wanted], validate_only=validate_only)
        if isinstance(created, BrokerError):
            raise created
        return created

    async def create_all(
        self, wanted: Sequence[NewTopic], *, validate_only: bool, within_ms: int | None = None
    ) -> list[Creation]:
        """Create topics of different names, many in one transaction; the result of each.

        After `within_ms` the rest is not created any more and gets REQUEST_TIMED_OUT.
        """
        return await self._creation.create(wanted, validate_only=validate_only, within_ms=within_ms)

    def check_absent(self, name: str) -> None:
        """Raises BrokerError(topic_already_exists) if there is such a topic."""
        self._creation.check_absent(name)

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
                racks = await self._creation.racks()
            if topic.adding or topic.removing:
                raise BrokerError(
                    ErrorCode.reassignment_in_progress,
                    f"A partition reassignment is in progress for the topic '{name}'.",
                )
            added = self._decide_growth(topic, count, assigned, racks)
            self._creation.check_no_log(name, added)
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
        if await self.unled({name: partitions}, timeout_ms):
            raise BrokerError(ErrorCode.request_timed_out)

    async def unled(self, wanted: Mapping[str, int], timeout_ms: int) -> frozenset[str]:
        """Return when so many partitions of each topic have leaders, or at the timeout.

        Returns the topics without leaders; they may come later.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_ms / 1000
        unled = []
        for number, (name, partitions) in enumerate(wanted.items(), 1):
            left_ms = max(0, round((end - loop.time()) * 1000))
            if not await self._until(name, partial(self._is_led, name, partitions), left_ms):
                unled.append(name)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        return frozenset(unled)

    def _is_led(self, name: str, partitions: int) -> bool:
        image = self._metadata.topic(name)
        brokers = self._metadata.brokers
        return (
            image is not None
            and len(image.partitions) >= partitions
            and all(partition.leader in brokers for partition in image.partitions.values())
        )

    async def gone(self, name: str, topic_id: uuid.UUID | None, timeout_ms: int) -> None:
        """Return when clients no longer see a topic. Raises BrokerError(request_timed_out)."""

        def is_gone() -> bool:
            image = self._metadata.topic(name)
            return image is None or image.topic_id != topic_id

        if not await self._until(name, is_gone, timeout_ms):
            raise BrokerError(ErrorCode.request_timed_out)
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

    async def _until(self, name: str, holds: Callable[[], bool], timeout_ms: int) -> bool:
        """Wait until it holds, or until the timeout; return whether it holds."""
        if holds():
            return True
        awaited = MetadataAwaited(holds)
        self._waiting.watch(awaited, [name], timeout_ms)
        return await awaited.came

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


def _unknown(name: str) -> BrokerError:
    return BrokerError(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")
