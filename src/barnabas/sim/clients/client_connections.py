"""A client's connections: which brokers there are, who leads what, and asking one of them."""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.client.peer import Peer
from barnabas.wire.apis import APIS, ApiKey
from barnabas.wire.schema import Message

Address = tuple[str, int]

CONNECT_S: Final = 2.0
REQUEST_S: Final = 5.0
BACKOFF_MS: Final = 100


def parts(**fields: object) -> Any:
    """A message, or a part of one; what is not given takes Kafka's default."""
    return SimpleNamespace(**fields)


class Leader(NamedTuple):
    """Who leads a partition, as some broker said."""

    broker: int
    epoch: int
    topic_id: uuid.UUID


class ClientPeer(Peer):
    """A connection on which something may also be said that nobody answers."""

    def tell(self, frame: Callable[[int], bytes]) -> None:
        """Send a frame that has no answer, as a Produce with acks=0.

        Raises  PeerGone, if the connection has ended
        """
        if self._transport is None or self.closed:
            raise self._gone()
        self._transport.write(frame(0))


@dataclass(frozen=True, slots=True)
class Replicated:
    """One partition, as some broker said: where it is, and who is in sync."""

    leader: Leader | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Connections:
    """What one client knows of the cluster, and one connection to each broker that it asks.

    What is known may be old: whoever is told so by a broker, or hears nothing, calls `refresh`.
    """

    def __init__(self, name: str, bootstrap: Sequence[Address], random: Random) -> None:
        self.name = name
        self.topics: dict[str, dict[int, Replicated]] = {}
        self.names: dict[uuid.UUID, str] = {}
        self.brokers: dict[int, Address] = {}
        self.controller = -1
        self._bootstrap = list(bootstrap)
        self._random = random
        self._peers: dict[Address, ClientPeer] = {}
        # The latest leader of each partition that any broker ever told of.
        self._latest: dict[tuple[uuid.UUID, int], Replicated] = {}

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()

    def leader(self, at: TopicPartition) -> Leader | None:
        """Who led the partition when `refresh` was last called; None if nobody or unknown."""
        partition = self.topics.get(at.topic, {}).get(at.partition)
        return partition.leader if partition else None

    def is_gone(self, at: TopicPartition) -> bool:
        return at.partition not in self.topics.get(at.topic, {})

    async def refresh(self) -> bool:
        """Ask any broker for all topics; whether one answered. If none did, nothing changes."""
        try:
            answer = await self.ask_any(ApiKey.METADATA, topics=None)
        except PeerGone:
            return False
        self.brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self.controller = answer.controller_id
        self.topics = {
            topic.name: {p.partition_index: self._newer(topic, p) for p in topic.partitions}
            for topic in answer.topics
            if topic.error_code == ErrorCode.none
        }
        self.names = {topic.topic_id: topic.name for topic in answer.topics}
        return True

    def _newer(self, topic: Any, partition: Any) -> Replicated:
        """What a broker says, unless more is known: one that is cut off tells of past leaders."""
        said = _partition(topic, partition)
        if said.leader is None:
            return said
        key = (topic.topic_id, partition.partition_index)
        known = self._latest.setdefault(key, said)
        if known.leader is None or known.leader.epoch <= said.leader.epoch:
            self._latest[key] = known = said
        return known

    async def back_off(self) -> None:
        """Wait a little, each time for another time, so that clients do not go in step."""
        await asyncio.sleep((BACKOFF_MS + self._random.below(BACKOFF_MS)) / 1000)

    async def ask_any(self, key: ApiKey, **fields: object) -> Any:
        """The answer of some broker. Raises PeerGone, if the one that was tried gave none."""
        known = [*self.brokers.values(), *self._bootstrap]
        return await self.ask_at(known[self._random.below(len(known))], key, parts(**fields))

    async def ask(self, broker: int, key: ApiKey, /, **fields: object) -> Any:
        """The answer of this broker.

        Raises  PeerGone, if it is not known, or gave none
        """
        return await self.ask_at(self.address(broker), key, parts(**fields))

    async def ask_at(
        self, address: Address, key: ApiKey, message: Message, within_s: float = REQUEST_S
    ) -> Any:
        peer = await self.peer(address)
        return await peer.request(key, APIS[key].highest, message, within_s)

    def address(self, broker: int) -> Address:
        if broker not in self.brokers:
            raise PeerGone(f"no broker {broker} is known")
        return self.brokers[broker]

    async def peer(self, address: Address) -> ClientPeer:
        """The connection to this address, made if there is none."""
        peer = self._peers.get(address)
        if peer is None or peer.closed:
            peer = await ClientPeer.connect(*address, client_id=self.name, timeout_s=CONNECT_S)
            self._peers[address] = peer
        return peer


def _partition(topic: Any, partition: Any) -> Replicated:
    leader = None
    if partition.leader_id >= 0:
        leader = Leader(partition.leader_id, partition.leader_epoch, topic.topic_id)
    return Replicated(leader, tuple(partition.replica_nodes), tuple(partition.isr_nodes))


def topics(connections: Connections) -> list[str]:
    """All that the client knows of, but Kafka's own."""
    return [topic for topic in sorted(connections.topics) if not topic.startswith("__")]


def partitions(connections: Connections) -> list[TopicPartition]:
    """Those of all `topics`."""
    return [
        TopicPartition(topic, partition)
        for topic in topics(connections)
        for partition in sorted(connections.topics[topic])
    ]
