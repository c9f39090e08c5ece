"""A shard with consumer groups in virtual time, and clients of either protocol that use it.

Clients keep in `owned` what they really work on: it grows when a reply says so, and shrinks when
they choose to obey. Whatever they do, two of them must never own the same partition.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from barnabas.base.errors import ErrorCode
from barnabas.base.randomness import Random
from barnabas.coordinator.result import CoordinatorRecord
from barnabas.groups.assignors.assignors import NOTHING, Assignment
from barnabas.groups.classic.classic_messages import LeavingMember, OfferedProtocol
from barnabas.groups.classic.classic_turn import ClassicSettings
from barnabas.groups.classic.consumer_protocol import (
    NamedPartitions,
    Subscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from barnabas.groups.consumer.consumer_group import ConsumerGroup
from barnabas.groups.consumer.consumer_groups import ConsumerGroups
from barnabas.groups.consumer.consumer_messages import (
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    ConsumerSettings,
    Topic,
)
from barnabas.groups.offsets.offset_messages import OffsetSettings
from barnabas.groups.shard import GroupCoordinatorShard
from tests.groups.driver import GROUP, Driver, Pending, joined, synced

ORDERS, BILLS, CLICKS = UUID(int=1), UUID(int=2), UUID(int=3)


class ConsumerDriver(Driver):
    def __init__(
        self,
        topics: Mapping[str, Topic] | None = None,
        *,
        log: list[CoordinatorRecord] | None = None,
        seed: int = 1,
        classic: ClassicSettings | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(seed=seed)
        self.topics = dict(topics or {"orders": Topic(ORDERS, 6)})
        self.settings = classic or ClassicSettings(initial_rebalance_delay_ms=0)
        self.consumer_settings = ConsumerSettings(**settings)
        self.consumer = ConsumerGroups(self.consumer_settings, Random(seed), lambda: self.topics)
        self.shard = GroupCoordinatorShard(
            self.settings, OffsetSettings(), Random(seed), self.consumer
        )
        self.log = log or []
        for record in self.log:
            self.shard.replay(record)
        self._perform(self.shard.on_loaded(self.now), Pending())

    @property
    def consumers(self) -> ConsumerGroup:
        group = self.shard.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def beat(
        self, request: ConsumerHeartbeatRequest, error: ErrorCode = ErrorCode.none
    ) -> ConsumerHeartbeatReply:
        found = self.shard.groups.get(GROUP)
        reply = self.ask(self.consumer.consumer_heartbeat(found, request, self.now)).reply
        assert isinstance(reply, ConsumerHeartbeatReply)
        assert reply.error is error, reply
        return reply

    def change_topic(self, name: str, topic: Topic | None) -> None:
        if topic is None:
            self.topics.pop(name, None)
        else:
            self.topics[name] = topic
        self.consumer.on_topics_changed(self.shard.groups, [name])

    def moved(self) -> "ConsumerDriver":
        """Another broker that leads the same log now."""
        settings = {
            each: getattr(self.consumer_settings, each) for each in ConsumerSettings.__slots__
        }
        return ConsumerDriver(
            self.topics, log=list(self.log), seed=self.seed + 1, classic=self.settings, **settings
        )


def request(member_id: str, epoch: int, **fields: Any) -> ConsumerHeartbeatRequest:
    return replace(ConsumerHeartbeatRequest(GROUP, member_id, epoch, "client", "/::1"), **fields)


def first_request(member_id: str, *topics: str, **fields: Any) -> ConsumerHeartbeatRequest:
    given = {
        "rebalance_timeout_ms": 30_000,
        "subscribed_topic_names": topics or ("orders",),
        "owned": {},
    }
    return request(member_id, 0, **(given | fields))


@dataclass
class Consumer:
    """A client of the consumer protocol.

    With `is_deaf` it does not hear what it is answered: then it works on nothing new until it has
    told all of itself, and heard all.
    """

    driver: ConsumerDriver
    member_id: str
    topics: tuple[str, ...] = ("orders",)
    instance_id: str | None = None
    epoch: int = 0
    told: Assignment = field(default_factory=dict)
    owned: Assignment = field(default_factory=dict)
    is_deaf: bool = False
    must_tell_all: bool = False

    def join(self) -> ConsumerHeartbeatReply:
        self.epoch, self.owned, self.told = 0, {}, {}
        asked = first_request(self.member_id, *self.topics, instance_id=self.instance_id)
        return self._ask(asked)

    def beat(self, **fields: Any) -> ConsumerHeartbeatReply:
        """Send what it owns, and take the assignment of the reply."""
        if self.epoch <= 0:
            return self.join()
        given: dict[str, Any] = {"owned": self.owned, "instance_id": self.instance_id}
        if self.must_tell_all:
            given |= {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": self.topics}
            fields.pop("owned", None)
        return self._ask(request(self.member_id, self.epoch, **(given | fields)))

    def work(self) -> None:
        """Do what a client does that is all right."""
        self.beat()
        self.obey()

    def obey(self) -> None:
        """Work on what it was told to, and on nothing else."""
        self.owned = self.told

    def subscribe(self, *topics: str) -> ConsumerHeartbeatReply:
        self.topics = topics
        return self.beat(subscribed_topic_names=topics)

    def leave(self, epoch: int = -1) -> ConsumerHeartbeatReply:
        self.owned, self.told = {}, {}
        asked = request(self.member_id, epoch, instance_id=self.instance_id)
        self.epoch = 0
        return self._send(asked)

    def _ask(self, asked: ConsumerHeartbeatRequest) -> ConsumerHeartbeatReply:
        reply = self._send(asked)
        self.must_tell_all = self.is_deaf or reply.error is ErrorCode.coordinator_not_available
        if self.must_tell_all:
            self.told = self.owned
        elif reply.error is ErrorCode.none:
            self.epoch = reply.member_epoch
            self.member_id = reply.member_id or self.member_id
            if reply.assignment is not None:
                self.told = reply.assignment
        elif reply.error in (ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id):
            self.epoch, self.owned, self.told = 0, {}, {}
        return reply

    def _send(self, asked: ConsumerHeartbeatRequest) -> ConsumerHeartbeatReply:
        found = self.driver.shard.groups.get(GROUP)
        result = self.driver.consumer.consumer_heartbeat(found, asked, self.driver.now)
        reply = self.driver.ask(result).reply
        assert isinstance(reply, ConsumerHeartbeatReply)
        return reply


@dataclass
class ClassicConsumer:
    """A client of the classic protocol; eager, it gives up everything before it joins."""

    driver: ConsumerDriver
    topics: tuple[str, ...] = ("orders",)
    is_cooperative: bool = True
    instance_id: str | None = None
    is_greedy: bool = False  # as a leader, it gives everything to everybody
    member_id: str = ""
    generation: int = -1
    owned: Assignment = field(default_factory=dict)
    joining: Pending | None = None
    syncing: Pending | None = None

    def offered(self) -> tuple[OfferedProtocol, ...]:
        names = {topic.topic_id: name for name, topic in self.driver.topics.items()}
        owned = tuple(
            NamedPartitions(names[topic], tuple(sorted(partitions)))
            for topic, partitions in self.owned.items()
            if topic in names
        )
        said = Subscription(self.topics, None, owned if self.is_cooperative else ())
        return (OfferedProtocol("range", write_subscription(said, 1)),)

    def join(self) -> None:
        """Ask to join, and go on as far as the answers are there."""
        if not self.is_cooperative:
            self.owned = {}
        self.syncing = None
        self.joining = self.driver.join(
            self.member_id, protocols=self.offered(), group_instance_id=self.instance_id
        )
        self.go_on()

    def go_on(self) -> None:
        """Hear what has been answered, and do what follows."""
        if self.joining is not None and self.joining.reply is not None:
            self._on_joined()
        if self.syncing is not None and self.syncing.reply is not None:
            self._on_synced()

    def beat(self) -> ErrorCode:
        error = self.driver.heartbeat(self.member_id, self.generation, self.instance_id)
        self._on_error(error)
        return error

    def leave(self) -> None:
        self.driver.leave(LeavingMember(self.member_id, self.instance_id))
        self.forget()

    def _on_joined(self) -> None:
        assert self.joining is not None
        reply = joined(self.joining, self.joining.reply.error)  # type: ignore[attr-defined] # a JoinReply, or that fails
        self.joining = None
        if reply.error is ErrorCode.member_id_required:
            self.member_id = reply.member_id
            self.join()
        elif reply.error is not ErrorCode.none:
            self._on_error(reply.error)
        else:
            self.member_id, self.generation = reply.member_id, reply.generation_id
            shares = self._assign({each.member_id: each.metadata for each in reply.members})
            self.syncing = self.driver.sync(
                self.member_id, self.generation, shares, group_instance_id=self.instance_id
            )
            self.go_on()

    def _assign(self, members: dict[str, bytes]) -> dict[str, bytes]:
        """As a leader: the partitions of its topics by turns.

        If it cooperates, what another one still owns is nobody's until all have joined again.
        """
        names = {topic.topic_id: name for name, topic in self.driver.topics.items()}
        owners = {
            (each.topic, partition): member_id
            for member_id, metadata in members.items()
            for each in read_subscription(metadata).owned
            for partition in each.partitions
        }
        shares: dict[str, dict[UUID, frozenset[int]]] = {each: {} for each in members}
        for name in self.topics if members else ():
            topic = self.driver.topics[name]
            for place, member_id in enumerate(members):
                mine = range(topic.partitions)[None if self.is_greedy else place :]
                shares[member_id][topic.topic_id] = frozenset(
                    partition
                    for partition in mine[:: 1 if self.is_greedy else len(members)]
                    if owners.get((name, partition), member_id) == member_id
                )
        metadata = self.offered()[0].metadata
        return {each: write_assignment(share, names, metadata) for each, share in shares.items()}

    def _on_synced(self) -> None:
        """If it cooperates and was to give up anything, it joins again."""
        assert self.syncing is not None
        reply = synced(self.syncing, self.syncing.reply.error)  # type: ignore[attr-defined] # a SyncReply, or that fails
        self.syncing = None
        if reply.error is not ErrorCode.none:
            self._on_error(reply.error)
            return
        had, self.owned = self.owned, read_assignment(reply.assignment, self.driver.topics)
        if any(has - self.owned.get(topic, NOTHING) for topic, has in had.items()):
            self.join()

    def work(self) -> None:
        """Do what a client does that is all right."""
        self.go_on()
        if self.joining is None and self.syncing is None:
            is_in = self.generation >= 0 and self.beat() is ErrorCode.none
            if not is_in:
                self.join()

    def _on_error(self, error: ErrorCode) -> None:
        if error in (ErrorCode.unknown_member_id, ErrorCode.illegal_generation):
            self.forget()

    def forget(self) -> None:
        """Be another process, that knows nothing."""
        self.member_id = ""
        self.generation, self.owned, self.joining, self.syncing = -1, {}, None, None


def owned_twice(*clients: Consumer | ClassicConsumer) -> list[tuple[UUID, int]]:
    seen: set[tuple[UUID, int]] = set()
    twice = []
    for client in clients:
        for topic, partitions in client.owned.items():
            for partition in sorted(partitions):
                if (topic, partition) in seen:
                    twice.append((topic, partition))
                seen.add((topic, partition))
    return twice
