"""The controller context: the controller's view of brokers, topics, leaders and states.

A new controller reads it from the coordination tree. From then on only the `apply_` methods
change it, after the write to the tree succeeded: the context agrees with the tree.
Deciders read it and change nothing.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.base.laws import law
from barnabas.controller.states import (
    PARTITION_FROM,
    REPLICA_FROM,
    PartitionState,
    ReplicaState,
    may_enter,
)
from barnabas.znodes.layout import BrokerRegistration, LeaderAndIsr

NO_LEADER: Final = BrokerId(-1)
# The leader that brokers are sent while a topic is being deleted.
LEADER_DURING_DELETE: Final = BrokerId(-2)


class PartitionReplica(NamedTuple):
    """One copy of a partition, on one broker."""

    topic_partition: TopicPartition
    broker_id: BrokerId


class Assignment(NamedTuple):
    """A partition's replicas; during a reassignment, also which are added and which removed."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """The replicas after the reassignment, the preferred leader first."""
        return tuple(b for b in self.replicas if b not in self.removing)

    @property
    def origin(self) -> tuple[BrokerId, ...]:
        """The replicas before the reassignment, to which a cancellation returns."""
        return tuple(b for b in self.replicas if b not in self.adding)


class PartitionLeadership(NamedTuple):
    """A partition's `state` znode: leader, ISR, and the znode's data version.

    `zxid` is the transaction that wrote it; 0 if this controller wrote it.
    """

    state: LeaderAndIsr
    version: int
    zxid: int = 0


class LiveBroker(NamedTuple):
    """A registered broker; its epoch is the czxid of its znode."""

    broker_id: BrokerId
    epoch: int
    registration: BrokerRegistration

    @property
    def first_epoch(self) -> int:
        """The epoch in which its process registered first: it has run since."""
        first = self.registration.first_epoch
        return self.epoch if first is None else first


@dataclass(slots=True)
class AssignedTopic:
    """A topic as its znode describes it; `version` is the znode's data version."""

    topic_id: uuid.UUID | None
    partitions: dict[int, Assignment]
    version: int


@dataclass(slots=True)
class Context:
    """The whole view. `epoch_version` is the version of /controller_epoch that fences writes."""

    epoch: int = 0
    epoch_version: int = -1
    live: dict[BrokerId, LiveBroker] = field(default_factory=dict)
    shutting_down: dict[BrokerId, None] = field(default_factory=dict)
    topics: dict[str, AssignedTopic] = field(default_factory=dict)
    leadership: dict[TopicPartition, PartitionLeadership] = field(default_factory=dict)
    partition_states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    replica_states: dict[PartitionReplica, ReplicaState] = field(default_factory=dict)
    # Replicas in a failed log directory of a live broker.
    offline_replicas: dict[BrokerId, dict[TopicPartition, None]] = field(default_factory=dict)
    # Topics to delete. `ineligible` maps a topic to the reason why its deletion must wait.
    deleting: dict[str, None] = field(default_factory=dict)
    deletion_begun: dict[str, None] = field(default_factory=dict)
    ineligible: dict[str, str] = field(default_factory=dict)

    # -- queries ---------------------------------------------------------------

    def __contains__(self, partition: TopicPartition) -> bool:
        topic = self.topics.get(partition.topic)
        return topic is not None and partition.partition in topic.partitions

    def assignment(self, partition: TopicPartition) -> Assignment:
        """Raises KeyError for an unknown partition."""
        return self.topics[partition.topic].partitions[partition.partition]

    def partitions(self) -> Iterator[TopicPartition]:
        """Every partition, topic by topic."""
        for name in self.topics:
            yield from self.partitions_of(name)

    def partitions_of(self, topic: str) -> Iterator[TopicPartition]:
        known = self.topics.get(topic)
        for index in known.partitions if known is not None else ():
            yield TopicPartition(topic, index)

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> list[PartitionReplica]:
        return [
            PartitionReplica(each, b) for each in partitions for b in self.assignment(each).replicas
        ]

    def replicas_on(self, brokers: Iterable[BrokerId]) -> list[PartitionReplica]:
        """The replicas on these brokers; those of one partition are adjacent."""
        wanted = frozenset(brokers)
        return [
            PartitionReplica(each, broker)
            for each in self.partitions()
            for broker in self.assignment(each).replicas
            if broker in wanted
        ]

    def available(self) -> dict[BrokerId, LiveBroker]:
        """The brokers that may become leaders: alive, and not shutting down."""
        return {b: live for b, live in self.live.items() if b not in self.shutting_down}

    def is_online(self, broker: BrokerId, partition: TopicPartition) -> bool:
        """True if the replica can serve: its broker is alive, its log directory has not failed.

        A broker that is shutting down counts, as in Kafka's isReplicaOnline with
        includeShuttingDownBrokers.
        """
        return broker in self.live and partition not in self.offline_replicas.get(broker, ())

    def is_available(self, broker: BrokerId, partition: TopicPartition) -> bool:
        """True if the replica may become leader: online, its broker not shutting down."""
        return broker not in self.shutting_down and self.is_online(broker, partition)

    def state_of(self, partition: TopicPartition) -> PartitionState:
        return self.partition_states.get(partition, PartitionState.NON_EXISTENT)

    def replica_state_of(self, replica: PartitionReplica) -> ReplicaState:
        return self.replica_states.get(replica, ReplicaState.NON_EXISTENT)

    def reassigning(self) -> list[TopicPartition]:
        return [each for each in self.partitions() if self.assignment(each).is_reassigning]

    def is_deleting(self, topic: str) -> bool:
        return topic in self.deleting

    # -- changes that the tree already has -------------------------------------

    def apply_brokers(self, live: Mapping[BrokerId, LiveBroker]) -> None:
        """Replace the live brokers; a dead broker's shutdown and failed replicas are dropped."""
        for gone in [b for b in self.live if b not in live]:
            self.shutting_down.pop(gone, None)
            self.offline_replicas.pop(gone, None)
        self.live = dict(live)

    def apply_shutting_down(self, broker: BrokerId) -> None:
        self.shutting_down[broker] = None

    def apply_topic(self, name: str, topic: AssignedTopic) -> None:
        self.topics[name] = topic

    def apply_assignment(
        self, name: str, changed: Mapping[int, Assignment], version: int | None = None
    ) -> None:
        topic = self.topics[name]
        topic.partitions.update(changed)
        if version is not None:
            topic.version = version

    def apply_topic_gone(self, name: str) -> None:
        """Forget a deleted topic, its partitions and its replicas."""
        for partition in list(self.partitions_of(name)):
            self.leadership.pop(partition, None)
            self.partition_states.pop(partition, None)
            for broker in self.assignment(partition).replicas:
                self.replica_states.pop(PartitionReplica(partition, broker), None)
            for offline in self.offline_replicas.values():
                offline.pop(partition, None)
        del self.topics[name]
        for kept in (self.deleting, self.deletion_begun, self.ineligible):
            kept.pop(name, None)

    def apply_leadership(self, partition: TopicPartition, leadership: PartitionLeadership) -> None:
        """Keeps CTL-1: a partition's leader epoch and version never go back."""
        known = self.leadership.get(partition)
        law(
            known is None
            or (
                leadership.state.leader_epoch >= known.state.leader_epoch
                and leadership.version >= known.version
            ),
            "CTL-1 a partition's leader epoch and version never go back",
            partition=partition,
            known=known,
            new=leadership,
        )
        self.leadership[partition] = leadership

    def apply_partition_state(self, partition: TopicPartition, to: PartitionState) -> None:
        """Keeps CTL-2: a partition changes state as its table allows."""
        now = self.state_of(partition)
        law(
            may_enter(PARTITION_FROM, now, to),
            "CTL-2 a partition changes state as its table allows",
            partition=partition,
            now=now,
            to=to,
        )
        if to is PartitionState.NON_EXISTENT:
            self.partition_states.pop(partition, None)
        else:
            self.partition_states[partition] = to

    def apply_replica_state(self, replica: PartitionReplica, to: ReplicaState) -> None:
        """Keeps CTL-3: a replica changes state as its table allows."""
        now = self.replica_state_of(replica)
        law(
            may_enter(REPLICA_FROM, now, to),
            "CTL-3 a replica changes state as its table allows",
            replica=replica,
            now=now,
            to=to,
        )
        if to is ReplicaState.NON_EXISTENT:
            self.replica_states.pop(replica, None)
        else:
            self.replica_states[replica] = to

    def apply_initial_states(
        self,
        partitions: Mapping[TopicPartition, PartitionState],
        replicas: Mapping[PartitionReplica, ReplicaState],
    ) -> None:
        """Set the states that a new controller finds; afterwards only the tables change them."""
        self.partition_states = dict(partitions)
        self.replica_states = dict(replicas)

    def apply_offline_replicas(self, broker: BrokerId, failed: Iterable[TopicPartition]) -> None:
        """Mark replicas offline that a broker reported as failed with their log directory."""
        self.offline_replicas.setdefault(broker, {}).update(dict.fromkeys(failed))

    def apply_online_replicas(self, replicas: Iterable[PartitionReplica]) -> None:
        """Mark replicas online again: their log directories have not failed."""
        for partition, broker in replicas:
            self.offline_replicas[broker].pop(partition, None)

    def apply_deleting(self, topics: Iterable[str]) -> None:
        self.deleting.update(dict.fromkeys(topics))

    def apply_deletion_begun(self, topic: str) -> None:
        self.deletion_begun[topic] = None

    def apply_ineligible(self, topics: Iterable[str], why: str) -> None:
        self.ineligible.update((topic, why) for topic in topics if topic in self.deleting)

    def apply_eligible(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self.ineligible.pop(topic, None)
