"""The connections and metadata of one simulated client."""

import asyncio
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.base.ids import TopicPartition, by_topic
from barnabas.base.randomness import Random
from barnabas.client.async_client import AsyncClient
from barnabas.client.connection import AsyncConnection
from barnabas.client.frames import MalformedResponse
from barnabas.client.metadata import Metadata, PartitionInfo, fields
from barnabas.client.requests import read_as_sent, write_request
from barnabas.client.retries import Address, RetriableError
from barnabas.sim.checkers.history import TRANSACTIONAL
from barnabas.wire.apis import ApiKey

CONNECT_S: Final = 2.0
REQUEST_S: Final = 5.0
BACKOFF_MS: Final = 100


class TopicLeader(NamedTuple):
    """A partition's leader in its epoch, and the id of the partition's topic."""

    broker: int
    epoch: int
    topic_id: uuid.UUID


class RandomBroker(Metadata):
    """Metadata from one broker at random: a client of it learns what any broker believes."""

    def __init__(self, bootstrap: Iterable[Address], random: Random) -> None:
        super().__init__(bootstrap)
        self._random = random

    def candidates(self) -> Iterable[Address]:
        known = [*self.brokers.values(), *self.bootstrap]
        return (known[self._random.below(len(known))],)


class Connections:
    """A simulated client's view of the cluster, and a connection to each broker that it asks.

    The view may be old: a client that gets such an error, or no response, calls `refresh`.
    """

    def __init__(self, name: str, bootstrap: Sequence[Address], random: Random) -> None:
        self.name = name
        self.metadata = RandomBroker(bootstrap, random)
        self._random = random
        self._client = AsyncClient(name, connect_s=CONNECT_S, request_s=REQUEST_S)

    def close(self) -> None:
        self._client.close()

    # -- the view ------------------------------------------------------------

    @property
    def topics(self) -> dict[str, dict[int, PartitionInfo]]:
        """The partitions of each topic that a broker described without an error."""
        return {
            name: dict(topic.partitions)
            for name, topic in self.metadata.topics.items()
            if topic.error is ErrorCode.none
        }

    @property
    def names(self) -> dict[uuid.UUID, str]:
        return {topic.topic_id: name for name, topic in self.metadata.topics.items()}

    @property
    def brokers(self) -> dict[int, Address]:
        return self.metadata.brokers

    @property
    def controller(self) -> int:
        return self.metadata.controller

    def leader(self, at: TopicPartition) -> TopicLeader | None:
        """The partition's leader at the last `refresh`; None if it had none or is unknown."""
        topic = self.metadata.topics.get(at.topic)
        leader = None if topic is None else topic.leader(at.partition)
        if topic is None or leader is None:
            return None
        return TopicLeader(leader.broker, leader.epoch, topic.topic_id)

    def is_gone(self, at: TopicPartition) -> bool:
        return at.partition not in self.topics.get(at.topic, {})

    async def refresh(self) -> bool:
        """Ask a broker for all topics; False, if it knows none and nothing changes."""
        try:
            await self._client.run(self.metadata.refresh())
        except (PeerGone, RetriableError):
            return False
        return True

    async def back_off(self) -> None:
        """Wait for a random while, so clients do not act in step."""
        await asyncio.sleep((BACKOFF_MS + self._random.below(BACKOFF_MS)) / 1000)

    # -- requests ------------------------------------------------------------

    async def ask_any(self, key: ApiKey, **given: object) -> Any:
        """The response of a broker at random. Raises PeerGone."""
        return await self._client.run(self.metadata.ask_any(key, fields(**given)))

    async def ask(self, broker: int, key: ApiKey, /, **given: object) -> Any:
        """The response of this broker. Raises PeerGone, also if it is not known."""
        return await self._client.run(self.metadata.ask(broker, key, fields(**given)))

    async def ask_at(
        self, address: Address, key: ApiKey, message: Any, within_s: float = REQUEST_S
    ) -> Any:
        return await self._client.ask_at(address, key, message, within_s)

    async def ask_version(
        self,
        address: Address,
        key: ApiKey,
        version: int,
        message: Any,
        within_s: float = REQUEST_S,
    ) -> Any:
        """The response to a request in this version, as it was sent. Raises PeerGone."""
        connection = await self._client.connection(address)
        response = await connection.exchange(
            lambda number: write_request(key, version, number, self.name, message), within_s
        )
        try:
            return read_as_sent(key, version, response)
        except MalformedResponse as bad:
            raise PeerGone(str(bad)) from bad

    async def to(self, broker: int) -> AsyncConnection:
        """The connection to this broker. Raises PeerGone."""
        return await self._client.connection(self.metadata.address(broker))


def topics(connections: Connections) -> list[str]:
    """The topics that the client knows, without Kafka's own and those of transactions."""
    return [
        topic
        for topic in sorted(connections.topics)
        if not topic.startswith("__") and topic not in TRANSACTIONAL
    ]


def partitions(connections: Connections) -> list[TopicPartition]:
    """The partitions of all `topics`."""
    known = connections.topics
    return [
        TopicPartition(topic, partition)
        for topic in topics(connections)
        for partition in sorted(known[topic])
    ]


def topics_to_commit(offsets: Mapping[TopicPartition, int]) -> tuple[Any, ...]:
    """The topics of a request that commits offsets."""
    return tuple(
        fields(
            name=topic,
            partitions=tuple(
                fields(partition_index=n, committed_offset=offsets[TopicPartition(topic, n)])
                for n in numbers
            ),
        )
        for topic, numbers in by_topic(offsets).items()
    )
