"""The coordinator of a key: the leader of the key's partition of the internal topic."""

import logging
from collections.abc import Callable
from typing import Final

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.coordinator.coordinator_topic import partition_of
from barnabas.server.cluster.metadata_cache import BrokerImage, MetadataCache, TopicImage
from barnabas.server.cluster.topic_admin import Topics
from barnabas.server.cluster.topic_creation import NewTopic

CREATED_WITHIN_MS: Final = 1_000


class CoordinatorFinder:
    """Finds the coordinators of the keys of one internal topic."""

    def __init__(
        self,
        topic: str,
        metadata: MetadataCache,
        topics: Topics,
        logger: logging.Logger,
    ) -> None:
        self._topic = topic
        self._metadata = metadata
        self._topics = topics
        self._log = logger
        # Clients ask again every second: a reason is logged once, until the topic exists.
        self._logged_reason = ""

    async def find(
        self, key: str, listener: str, new_topic: Callable[[], NewTopic]
    ) -> tuple[BrokerImage, tuple[str, int]]:
        """The coordinator of a key, and its address on a listener. Creates a missing topic.

        Raises  BrokerError(coordinator_not_available), as does `new_topic`
        """
        topic = self._metadata.topic(self._topic) or await self._create_topic(new_topic())
        partition = topic.partitions.get(partition_of(key, len(topic.partitions)))
        broker = self._metadata.brokers.get(partition.leader) if partition is not None else None
        if broker is None or listener not in broker.endpoints:
            raise BrokerError(ErrorCode.coordinator_not_available)
        return broker, broker.endpoint(listener)

    def partition_of(self, key: str) -> int:
        """The partition of a key.

        Raises  BrokerError(coordinator_not_available), if there is no topic
        """
        topic = self._metadata.topic(self._topic)
        if topic is None:
            raise BrokerError(ErrorCode.coordinator_not_available)
        return partition_of(key, len(topic.partitions))

    async def _create_topic(self, wanted: NewTopic) -> TopicImage:
        try:
            await self._topics.create(wanted, validate_only=False)
        except BrokerError as e:
            if e.code is not ErrorCode.topic_already_exists:
                self._log_once(str(e))
                raise BrokerError(ErrorCode.coordinator_not_available, e.message) from e
        try:
            await self._topics.led(self._topic, wanted.partitions, CREATED_WITHIN_MS)
        except BrokerError as e:
            raise BrokerError(ErrorCode.coordinator_not_available) from e
        created = self._metadata.topic(self._topic)
        assert created is not None
        self._logged_reason = ""
        return created

    def _log_once(self, reason: str) -> None:
        if reason != self._logged_reason:
            self._log.warning("%s cannot be created: %s", self._topic, reason)
            self._logged_reason = reason
