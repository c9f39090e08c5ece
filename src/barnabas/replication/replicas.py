"""The partitions that this broker holds: a map, and the one answer for those it does not."""

from collections.abc import Iterator

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.replication.leader import LeaderReplica


class Replicas:
    """By topic and partition; a plain tuple is as good a key as a TopicPartition."""

    def __init__(self) -> None:
        self._leaders: dict[tuple[str, int], LeaderReplica] = {}
        self._offline: set[tuple[str, int]] = set()

    def leader(self, topic: str, partition: int) -> LeaderReplica:
        """Raises BrokerError that says why there is none here."""
        try:
            return self._leaders[topic, partition]
        except KeyError:
            raise BrokerError(self.why_not(topic, partition)) from None

    def why_not(self, topic: str, partition: int) -> ErrorCode:
        """What to answer for a partition that has no leader here."""
        if (topic, partition) in self._offline:
            return ErrorCode.kafka_storage_error
        return ErrorCode.unknown_topic_or_partition

    def find(self, topic: str, partition: int) -> LeaderReplica | None:
        return self._leaders.get((topic, partition))

    def put(self, leader: LeaderReplica) -> None:
        self._leaders[leader.topic_partition] = leader

    def take_offline(self, topic_partition: TopicPartition) -> None:
        """Its log folder failed: nobody is served from it until the next start."""
        self._leaders.pop(topic_partition, None)
        self._offline.add(topic_partition)

    def remove(self, topic_partition: TopicPartition) -> LeaderReplica | None:
        self._offline.discard(topic_partition)
        return self._leaders.pop(topic_partition, None)

    def __iter__(self) -> Iterator[LeaderReplica]:
        return iter(list(self._leaders.values()))

    def __len__(self) -> int:
        return len(self._leaders)
