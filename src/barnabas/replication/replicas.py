"""The replicas on this broker by partition, and the error code for those it does not lead."""

from collections.abc import Iterator
from typing import Final, Protocol

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import Offset, TopicPartition
from barnabas.replication.follower.follower_replica import FollowerReplica
from barnabas.replication.leader.leader_replica import LeaderReplica

Replica = LeaderReplica | FollowerReplica
# A transaction is late if its end is not here so long after the longest timeout that it may have.
LATE_AFTER_MS: Final = 5 * 60 * 1000


class KnownPartitions(Protocol):
    def has_partition(self, topic: str, partition: int, /) -> bool:
        """True if the cluster has such a partition."""
        ...


class Replicas:
    """A map by topic and partition; a plain tuple is as good a key as a TopicPartition.

    Iterating goes over the leaders.
    """

    def __init__(self, metadata: KnownPartitions | None = None) -> None:
        """`metadata` knows the partitions that other brokers hold."""
        self._metadata = metadata
        self._leaders: dict[tuple[str, int], LeaderReplica] = {}
        self.leader_of = self._leaders.get  # `find`, by a key that is there already
        self._followers: dict[tuple[str, int], FollowerReplica] = {}
        self._offline: set[tuple[str, int]] = set()
        self._appended_before = 0  # by those that lead no more

    def leader(self, topic: str, partition: int) -> LeaderReplica:
        """Return the leader; raises BrokerError with the reason if it is not here."""
        try:
            return self._leaders[topic, partition]
        except KeyError:
            raise BrokerError(self.why_not(topic, partition)) from None

    def why_not(self, topic: str, partition: int) -> ErrorCode:
        """The error code for a partition that has no leader here."""
        if (topic, partition) in self._offline:
            return ErrorCode.kafka_storage_error
        if (topic, partition) in self._followers:
            return ErrorCode.not_leader_or_follower
        if self._metadata is not None and self._metadata.has_partition(topic, partition):
            return ErrorCode.not_leader_or_follower
        return ErrorCode.unknown_topic_or_partition

    def find(self, topic: str, partition: int) -> LeaderReplica | None:
        return self._leaders.get((topic, partition))

    def follower(self, topic: str, partition: int) -> FollowerReplica | None:
        return self._followers.get((topic, partition))

    def get(self, topic_partition: TopicPartition) -> Replica | None:
        """The replica in either role."""
        return self._leaders.get(topic_partition) or self._followers.get(topic_partition)

    def down_converts(self, topic: str, partition: int) -> bool:
        """True if clients with old record formats may read the partition, if it is led here."""
        leader = self._leaders.get((topic, partition))
        return leader is None or leader.log.config.message_downconversion_enable

    def put(self, replica: Replica) -> None:
        """Give the partition this role in place of the one it had."""
        self.remove(replica.topic_partition)
        if isinstance(replica, LeaderReplica):
            self._leaders[replica.topic_partition] = replica
        else:
            self._followers[replica.topic_partition] = replica

    def take_offline(self, topic_partition: TopicPartition) -> None:
        """Serve the partition no more until the next start: its log directory failed."""
        self.remove(topic_partition)
        self._offline.add(topic_partition)

    def is_offline(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._offline

    @property
    def offline_count(self) -> int:
        return len(self._offline)

    @property
    def records_appended(self) -> int:
        """The number of records that producers have appended to this broker's leaders."""
        now = sum(leader.records_appended for leader in self._leaders.values())
        return self._appended_before + now

    def late_transactions(self, now_ms: int, max_timeout_ms: int) -> int:
        """The number of partitions led here with a transaction that should have ended long ago."""
        since_ms = now_ms - max_timeout_ms - LATE_AFTER_MS
        opened = (leader.log.producers.oldest_transaction_ms for leader in self._leaders.values())
        return sum(each is not None and each < since_ms for each in opened)

    def remove(self, topic_partition: TopicPartition) -> Replica | None:
        self._offline.discard(topic_partition)
        leader = self._leaders.pop(topic_partition, None)
        if leader is not None:
            self._appended_before += leader.records_appended
        return leader or self._followers.pop(topic_partition, None)

    def followers(self) -> Iterator[FollowerReplica]:
        return iter(list(self._followers.values()))

    def all(self) -> list[Replica]:
        """In either role."""
        return [*self._leaders.values(), *self._followers.values()]

    def high_watermarks(self) -> dict[TopicPartition, Offset]:
        """The high watermark of each partition."""
        return {replica.topic_partition: replica.high_watermark for replica in self.all()}

    def __iter__(self) -> Iterator[LeaderReplica]:
        return iter(list(self._leaders.values()))

    def __len__(self) -> int:
        return len(self._leaders)
