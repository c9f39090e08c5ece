"""What the controller knows of the cluster: brokers, topics, leaders, states.

It is read from the coordination tree when a controller is elected, and from then on changes
only by the `apply_` methods, after the tree was written: so it tells what the tree tells.
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
from barnabas.znodes.layout import BrokerRegistration
from barnabas.znodes.layout import PartitionState as Leading

NO_LEADER: Final = BrokerId(-1)
# Told to brokers in place of a leader while a topic is being deleted.
LEADER_DURING_DELETE: Final = BrokerId(-2)


class Replica(NamedTuple):
    """One copy of a partition, on one broker."""

    topic_partition: TopicPartition
    broker_id: BrokerId


class Assignment(NamedTuple):
    """The brokers of a partition; while it is reassigned, those that come and those that go."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """The replicas when the reassignment is done, the preferred leader first."""
        return tuple(b for b in self.replicas if b not in self.removing)

    @property
    def origin(self) -> tuple[BrokerId, ...]:
        """The replicas before the reassignment, and again if it is cancelled."""
        return tuple(b for b in self.replicas if b not in self.adding)


class Led(NamedTuple):
    """A partition's `state` znode: who leads, who is in sync; and the version it was seen at.

    `zxid` is the transaction that wrote it, where it was read and not written by us.
    """

    state: Leading
    version: int
    zxid: int = 0


class LiveBroker(NamedTuple):
    """A registered broker; its epoch is the czxid of its znode."""

    broker_id: BrokerId
    epoch: int
    registration: BrokerRegistration


@dataclass(slots=True)
class Topic:
    """A topic as its znode tells of it; `version` is that znode's."""

    topic_id: uuid.UUID | None
    partitions: dict[int, Assignment]
    version: int


@dataclass(slots=True)
class Context:
    """All of it. `epoch_version` is the version of /controller_epoch that fences every write."""

    epoch: int = 0
    epoch_version: int = -1
    live: dict[BrokerId, LiveBroker] = field(default_factory=dict)
    shutting_down: dict[BrokerId, None] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    led: dict[TopicPartition, Led] = field(default_factory=dict)
    partition_states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    replica_states: dict[Replica, ReplicaState] = field(default_factory=dict)
    # Replicas whose log folder failed, on brokers that live.
    offline_replicas: dict[BrokerId, dict[TopicPartition, None]] = field(default_factory=dict)
    # Topics to delete; why each of `ineligible` cannot be deleted now.
    deleting: dict[str, None] = field(default_factory=dict)
    deletion_begun: dict[str, None] = field(default_factory=dict)
    ineligible: dict[str, str] = field(default_factory=dict)

    # -- asked by deciders ---------------------------------------------------

    def __contains__(self, partition: TopicPartition) -> bool:
        topic = self.topics.get(partition.topic)
        return topic is not None and partition.partition in topic.partitions

    def assignment(self, partition: TopicPartition) -> Assignment:
        """Raises KeyError if there is no such partition."""
        return self.topics[partition.topic].partitions[partition.partition]

    def partitions(self) -> Iterator[TopicPartition]:
        """Every partition, topic by topic."""
        for name in self.topics:
            yield from self.partitions_of(name)

    def partitions_of(self, topic: str) -> Iterator[TopicPartition]:
        known = self.topics.get(topic)
        for index in known.partitions if known is not None else ():
            yield TopicPartition(topic, index)

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> list[Replica]:
        return [Replica(each, b) for each in partitions for b in self.assignment(each).replicas]

    def replicas_on(self, brokers: Iterable[BrokerId]) -> list[Replica]:
        """What the brokers hold; those of one partition come one after the other."""
        wanted = frozenset(brokers)
        return [
            Replica(each, broker)
            for each in self.partitions()
            for broker in self.assignment(each).replicas
            if broker in wanted
        ]

    def available(self) -> dict[BrokerId, LiveBroker]:
        """Brokers that may be given something to lead: alive, and not about to stop."""
        return {b: live for b, live in self.live.items() if b not in self.shutting_down}

    def is_online(self, broker: BrokerId, partition: TopicPartition) -> bool:
        """Whether a replica there can serve: its broker is alive and its folder not failed.

        A broker that shuts down still counts, as in Kafka's isReplicaOnline with it included.
        """
        return broker in self.live and partition not in self.offline_replicas.get(broker, ())

    def is_available(self, broker: BrokerId, partition: TopicPartition) -> bool:
        """Whether a replica there may lead: online, and its broker is not about to stop."""
        return broker not in self.shutting_down and self.is_online(broker, partition)

    def state_of(self, partition: TopicPartition) -> PartitionState:
        return self.partition_states.get(partition, PartitionState.NON_EXISTENT)

    def replica_state_of(self, replica: Replica) -> ReplicaState:
        return self.replica_states.get(replica, ReplicaState.NON_EXISTENT)

    def reassigning(self) -> list[TopicPartition]:
        return [each for each in self.partitions() if self.assignment(each).is_reassigning]

    def is_deleting(self, topic: str) -> bool:
        return topic in self.deleting

    # -- changed by the one who wrote the tree -------------------------------

    def apply_brokers(self, live: Mapping[BrokerId, LiveBroker]) -> None:
        """These are alive now. Who is gone takes its failed folders and its shutdown with it."""
        for gone in [b for b in self.live if b not in live]:
            self.shutting_down.pop(gone, None)
            self.offline_replicas.pop(gone, None)
        self.live = dict(live)

    def apply_shutting_down(self, broker: BrokerId) -> None:
        self.shutting_down[broker] = None

    def apply_topic(self, name: str, topic: Topic) -> None:
        self.topics[name] = topic

    def apply_assignment(
        self, name: str, changed: Mapping[int, Assignment], version: int | None = None
    ) -> None:
        topic = self.topics[name]
        topic.partitions.update(changed)
        if version is not None:
            topic.version = version

    def apply_topic_gone(self, name: str) -> None:
        """Forget a deleted topic wholly."""
        for partition in list(self.partitions_of(name)):
            self.led.pop(partition, None)
            self.partition_states.pop(partition, None)
            for broker in self.assignment(partition).replicas:
                self.replica_states.pop(Replica(partition, broker), None)
            for offline in self.offline_replicas.values():
                offline.pop(partition, None)
        del self.topics[name]
        for kept in (self.deleting, self.deletion_begun, self.ineligible):
            kept.pop(name, None)

    def apply_led(self, partition: TopicPartition, led: Led) -> None:
        """Keeps CTL-1: along a partition's life neither leader epoch nor version goes back."""
        known = self.led.get(partition)
        law(
            known is None
            or (
                led.state.leader_epoch >= known.state.leader_epoch and led.version >= known.version
            ),
            "CTL-1 a partition's leader epoch and version never go back",
            partition=partition,
            known=known,
            new=led,
        )
        self.led[partition] = led

    def apply_partition_state(self, partition: TopicPartition, to: PartitionState) -> None:
        """Keeps CTL-2: a partition's state changes as the table allows."""
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

    def apply_replica_state(self, replica: Replica, to: ReplicaState) -> None:
        """Keeps CTL-3: a replica's state changes as the table allows."""
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
        replicas: Mapping[Replica, ReplicaState],
    ) -> None:
        """What a new controller finds; from here on states only move by their tables."""
        self.partition_states = dict(partitions)
        self.replica_states = dict(replicas)

    def apply_offline_replicas(self, broker: BrokerId, failed: Iterable[TopicPartition]) -> None:
        """A broker said which of its replicas have lost their folder."""
        self.offline_replicas.setdefault(broker, {}).update(dict.fromkeys(failed))

    def apply_online_replicas(self, replicas: Iterable[Replica]) -> None:
        """These have not lost their folder after all."""
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
