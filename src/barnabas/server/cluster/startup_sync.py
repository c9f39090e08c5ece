"""The first requests of the controller to a broker that starts: its roles and the metadata."""

import asyncio
from collections.abc import Iterator
from typing import Final

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.replication.replicas import Replicas
from barnabas.server.cluster.metadata_cache import MetadataCache
from barnabas.znodes import paths
from barnabas.znodes.tree import ConnectionLoss, Coordination

RETRY_S: Final = 0.2


class StartupSync:
    """Waits until a starting broker knows its cluster; each control request sets `received`."""

    def __init__(
        self,
        broker_id: BrokerId,
        coordination: Coordination,
        metadata: MetadataCache,
        replicas: Replicas,
    ) -> None:
        self._broker_id = broker_id
        self._coordination = coordination
        self._metadata = metadata
        self._replicas = replicas
        self.received = asyncio.Event()
        self._syncing: asyncio.Task[None] | None = None
        # Replicas that had no role at the last look; each look continues where the last one ended.
        self._without_role: list[TopicPartition] = []

    def begin(self) -> "asyncio.Task[None]":
        """Begin to wait; the task is done when the broker knows its cluster."""
        self._syncing = asyncio.create_task(self._complete(), name="startup sync")
        return self._syncing

    async def stop(self) -> None:
        if self._syncing is not None:
            self._syncing.cancel()
            await asyncio.gather(self._syncing, return_exceptions=True)

    async def _complete(self) -> None:
        """Return when the metadata holds every topic, and each replica here has a role."""
        while not (await self._knows_all_topics() and self._knows_its_roles()):
            await self.received.wait()
            self.received.clear()
        self._metadata.is_complete = True

    async def _children(self, path: str) -> list[str]:
        """The names below a znode; repeated until the tree answers."""
        while True:
            try:
                return await self._coordination.children(path)
            except ConnectionLoss:
                await asyncio.sleep(RETRY_S)

    async def _knows_all_topics(self) -> bool:
        """True if the metadata holds every topic but those that are being deleted."""
        if self._broker_id not in self._metadata.brokers:
            return False
        names = await self._children(paths.TOPICS)
        if all(self._metadata.topic(name) is not None for name in names):
            return True
        doomed = frozenset(await self._children(paths.DELETE_TOPICS))
        return all(self._metadata.topic(name) is not None or name in doomed for name in names)

    def _knows_its_roles(self) -> bool:
        while self._without_role and self._has_role(self._without_role[-1]):
            self._without_role.pop()
        if not self._without_role:
            self._without_role = [each for each in self._own() if not self._has_role(each)]
        return not self._without_role

    def _own(self) -> Iterator[TopicPartition]:
        """The partitions with a replica here."""
        for topic in self._metadata.topics():
            for index, partition in topic.partitions.items():
                if self._broker_id in partition.replicas:
                    yield TopicPartition(topic.name, index)

    def _has_role(self, partition: TopicPartition) -> bool:
        return self._replicas.get(partition) is not None or self._replicas.is_offline(partition)
