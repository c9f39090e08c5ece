"""Ids of brokers, partitions and producers, epochs and offsets."""

from collections.abc import Iterable
from typing import NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
LeaderEpoch = NewType("LeaderEpoch", int)
Offset = NewType("Offset", int)
ProducerId = NewType("ProducerId", int)

NO_PRODUCER_ID = ProducerId(-1)
NO_LEADER_EPOCH = LeaderEpoch(-1)


class TopicPartition(NamedTuple):
    """One partition of one topic; prints as Kafka names its directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """The partitions of each topic, in the order given."""
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found
