"""What this broker knows of the cluster; Metadata is answered from it."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, LeaderEpoch, TopicPartition

INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)
NO_LEADER: Final = BrokerId(-1)


def is_internal(topic: str) -> bool:
    """Whether brokers keep their own records in it, and no client should write to it."""
    return topic in INTERNAL_TOPICS


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A live broker, and where clients of each listener reach it."""

    broker_id: BrokerId
    endpoints: Mapping[str, tuple[str, int]]
    rack: str | None = None

    def endpoint(self, listener: str) -> tuple[str, int]:
        """Host and port for a client that came in by `listener`."""
        return self.endpoints[listener]


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """Who leads a partition and who follows."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    offline: tuple[BrokerId, ...] = ()

    @property
    def error_code(self) -> ErrorCode:
        """What clients that ask for the partition are told beside all this."""
        return ErrorCode.leader_not_available if self.leader == NO_LEADER else ErrorCode.none


@dataclass(frozen=True, slots=True)
class TopicImage:
    name: str
    topic_id: uuid.UUID
    partitions: Mapping[int, PartitionImage]

    @property
    def is_internal(self) -> bool:
        return is_internal(self.name)


@dataclass(slots=True)
class MetadataCache:
    """The whole image, replaced topic by topic as it changes."""

    cluster_id: str
    controller: BrokerId
    brokers: dict[BrokerId, BrokerImage] = field(default_factory=dict)
    _by_name: dict[str, TopicImage] = field(default_factory=dict)
    _by_id: dict[uuid.UUID, TopicImage] = field(default_factory=dict)

    def topic(self, name: str) -> TopicImage | None:
        return self._by_name.get(name)

    def topic_by_id(self, topic_id: uuid.UUID) -> TopicImage | None:
        return self._by_id.get(topic_id)

    def topics(self) -> Iterable[TopicImage]:
        """Every topic, by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def put(self, topic: TopicImage) -> None:
        """Know `topic`, in place of what was known of it."""
        if (known := self._by_name.get(topic.name)) is not None:
            self._by_id.pop(known.topic_id, None)
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic

    def forget(self, name: str) -> None:
        topic = self._by_name.pop(name)
        self._by_id.pop(topic.topic_id, None)

    def take_offline(self, partition: TopicPartition) -> None:
        """Tell that nobody leads a partition: the folder that holds its only log has failed."""
        topic = self._by_name.get(partition.topic)
        if topic is None or partition.partition not in topic.partitions:
            return
        known = topic.partitions[partition.partition]
        offline = replace(known, leader=NO_LEADER, offline=known.replicas)
        self.put(replace(topic, partitions={**topic.partitions, partition.partition: offline}))
