"""The metadata cache: brokers, topics and leaders, as the controller sent them last."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.wire.control.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)
NO_LEADER: Final = BrokerId(-1)
NO_CONTROLLER: Final = BrokerId(-1)
# The leader in an UpdateMetadata for partitions of a topic that is being deleted.
LEADER_DURING_DELETE: Final = -2


def is_internal(topic: str) -> bool:
    """True if brokers keep their own records in it, and no client should write to it."""
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
    """The leader and followers of a partition; `partition_epoch` is the version of its znode."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    offline: tuple[BrokerId, ...] = ()
    partition_epoch: int = 0


@dataclass(frozen=True, slots=True)
class TopicImage:
    name: str
    topic_id: uuid.UUID | None
    partitions: Mapping[int, PartitionImage]

    @property
    def is_internal(self) -> bool:
        return is_internal(self.name)


class Updated(NamedTuple):
    """The changes of an UpdateMetadata: topics that it named, and topics that are gone."""

    topics: tuple[str, ...]
    gone: "tuple[TopicImage, ...]"


@dataclass(slots=True)
class MetadataCache:
    """Each UpdateMetadata replaces the brokers, and the topics that it names."""

    cluster_id: str
    controller: BrokerId = NO_CONTROLLER
    # True if it has every topic of the cluster; a starting broker gets them in several requests.
    is_complete: bool = False
    brokers: dict[BrokerId, BrokerImage] = field(default_factory=dict)
    _by_name: dict[str, TopicImage] = field(default_factory=dict)
    _by_id: dict[uuid.UUID, TopicImage] = field(default_factory=dict)
    _new_ids: dict[uuid.UUID, str] = field(default_factory=dict)

    def topic(self, name: str) -> TopicImage | None:
        return self._by_name.get(name)

    def is_alive(self, broker: BrokerId) -> bool:
        return broker in self.brokers

    def has_partition(self, topic: str, partition: int) -> bool:
        known = self._by_name.get(topic)
        return known is not None and partition in known.partitions

    def leader(self, topic: str, partition: int) -> BrokerId:
        """NO_LEADER also of a partition that is not known."""
        known = self._by_name.get(topic)
        image = None if known is None else known.partitions.get(partition)
        return NO_LEADER if image is None else image.leader

    def topic_by_id(self, topic_id: uuid.UUID) -> TopicImage | None:
        return self._by_id.get(topic_id)

    def name_of(self, topic_id: uuid.UUID) -> str | None:
        """The topic's name, also of one that the metadata does not have yet."""
        known = self._by_id.get(topic_id)
        return self._new_ids.get(topic_id) if known is None else known.name

    def know_id(self, name: str, topic_id: uuid.UUID) -> None:
        """Know a topic by its id: this broker holds partitions of it."""
        if topic_id not in self._by_id:
            self._new_ids[topic_id] = name

    def topics(self) -> Iterable[TopicImage]:
        """Every topic, by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def brokers_on(self, listener: str) -> list[BrokerImage]:
        """The live brokers that clients of a listener can reach."""
        return [broker for broker in self.brokers.values() if listener in broker.endpoints]

    def error_of(self, partition: PartitionImage, listener: str) -> ErrorCode:
        """The error code of a partition for clients of this listener."""
        leader = self.brokers.get(partition.leader)
        if leader is None:
            return ErrorCode.leader_not_available
        return ErrorCode.none if listener in leader.endpoints else ErrorCode.listener_not_found

    def replicas_gone(self, partition: PartitionImage) -> tuple[BrokerId, ...]:
        """The offline replicas: their broker is down, or their log directory failed."""
        return tuple(
            b for b in partition.replicas if b in partition.offline or b not in self.brokers
        )

    def apply(self, update: UpdateMetadataRequest) -> Updated:
        """Apply an UpdateMetadata; partitions that it does not name stay as they are."""
        self.controller = BrokerId(update.controller_id)
        self.brokers = {image.broker_id: image for image in map(_broker, update.live_brokers)}
        gone: list[TopicImage] = []
        for topic in update.topic_states:
            known = self._by_name.get(topic.topic_name)
            if known is not None and _is_another(known, topic):
                # Deleted and created again unnoticed: nothing of the old topic holds for the new.
                self.forget(known.name)
                gone.append(known)
                known = None
            partitions = dict(known.partitions) if known is not None else {}
            for state in topic.partition_states:
                if state.leader == LEADER_DURING_DELETE:
                    partitions.pop(state.partition_index, None)
                else:
                    partitions[state.partition_index] = _partition(state)
            if partitions:
                self.put(TopicImage(topic.topic_name, topic.topic_id, partitions))
            elif known is not None:
                self.forget(known.name)
                gone.append(known)
        named = (topic.topic_name for topic in update.topic_states)
        return Updated(tuple(name for name in named if name in self._by_name), tuple(gone))

    def put(self, topic: TopicImage) -> None:
        """Know `topic`, in place of what was known of it."""
        known = self._by_name.get(topic.name)
        if known is not None and known.topic_id is not None:
            self._by_id.pop(known.topic_id, None)
        self._by_name[topic.name] = topic
        if topic.topic_id is not None:
            self._by_id[topic.topic_id] = topic
            self._new_ids.pop(topic.topic_id, None)

    def take_offline(self, partition: TopicPartition, broker: BrokerId) -> None:
        """Mark a replica offline at once: its log directory failed. The controller follows."""
        topic = self._by_name.get(partition.topic)
        if topic is None or partition.partition not in topic.partitions:
            return
        known = topic.partitions[partition.partition]
        offline = replace(
            known,
            leader=NO_LEADER if known.leader == broker else known.leader,
            offline=tuple(dict.fromkeys((*known.offline, broker))),
        )
        self.put(replace(topic, partitions={**topic.partitions, partition.partition: offline}))

    def forget(self, name: str) -> None:
        topic = self._by_name.pop(name)
        if topic.topic_id is not None:
            self._by_id.pop(topic.topic_id, None)


def _is_another(known: TopicImage, named: UpdateMetadataTopicState) -> bool:
    """True if a topic has only its name in common with the known one."""
    ids = (known.topic_id, named.topic_id)
    return None not in ids and ids[0] != ids[1]


def _broker(broker: UpdateMetadataBroker) -> BrokerImage:
    return BrokerImage(
        BrokerId(broker.id),
        {each.listener: (each.host, each.port) for each in broker.endpoints},
        broker.rack,
    )


def _partition(state: UpdateMetadataPartitionState) -> PartitionImage:
    return PartitionImage(
        BrokerId(state.leader),
        LeaderEpoch(state.leader_epoch),
        tuple(map(BrokerId, state.isr)),
        tuple(map(BrokerId, state.replicas)),
        tuple(map(BrokerId, state.offline_replicas)),
        state.zk_version,
    )
