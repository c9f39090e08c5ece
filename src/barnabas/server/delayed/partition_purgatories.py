"""The purgatories of requests that wait for an event in a partition.

Consumers wait for the high watermark, followers for the end of the log; producers with acks=all
wait for the high watermark, too, and DeleteRecords for the low watermark. Each kind has its own
purgatory: an append to a partition with followers checks none of the requests it cannot complete.
Compiled as it is: `partition_purgatories.pxd` has the types.
"""

from collections.abc import Iterator, Sequence

from barnabas.purgatory.delayed_operation import DelayedOperation, Purgatory
from barnabas.purgatory.timer import Timer
from barnabas.replication.leader.leader_replica import LeaderReplica

Key = tuple[str, int]


class Delayed:
    """By partition; a plain tuple is as good a key as a TopicPartition."""

    __slots__ = ("consumers", "deletions", "followers", "produces")

    def __init__(self, timer: Timer) -> None:
        self.consumers: Purgatory[DelayedOperation] = Purgatory(timer)
        self.followers: Purgatory[DelayedOperation] = Purgatory(timer)
        self.produces: Purgatory[DelayedOperation] = Purgatory(timer)
        self.deletions: Purgatory[DelayedOperation] = Purgatory(timer)

    def __iter__(self) -> Iterator[Purgatory[DelayedOperation]]:
        return iter((self.produces, self.deletions, self.followers, self.consumers))

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return sum(purgatory.delayed for purgatory in self)

    @property
    def watched(self) -> int:
        """How many partitions they wait for, in all."""
        return sum(purgatory.watched for purgatory in self)

    def on_append(self, leader: LeaderReplica) -> None:
        """Complete the requests that wait for what was appended, or for its commit.

        Every append as leader ends here.
        """
        key = leader.topic_partition
        if leader.is_sole:
            if self.consumers.is_watched(key):
                self.consumers.check_and_complete(key)
        elif leader.high_watermark == leader.log.log_end_offset:
            self.on_high_watermark(key)
        else:
            self.followers.check_and_complete(key)

    def on_high_watermark(self, key: Key) -> None:
        """More is committed; in a partition without followers, whenever its log grew."""
        self.consumers.check_and_complete(key)
        self.produces.check_and_complete(key)
        self.followers.check_and_complete(key)  # it is sent with their next answer

    def on_log_start(self, key: Key) -> None:
        """The log start offset moved: the next response to each reader has it."""
        self.consumers.check_and_complete(key)
        self.followers.check_and_complete(key)

    def on_low_watermark(self, key: Key) -> None:
        """The log start offset of a follower moved."""
        self.deletions.check_and_complete(key)

    def on_partition(self, key: Key) -> None:
        """Anything else changed: the leader, the ISR, or whether the replica is here at all."""
        self.on_partitions((key,))

    def on_partitions(self, keys: Sequence[Key]) -> None:
        """The same for several; a request that waits for many of them is checked once."""
        for purgatory in self:
            purgatory.check_all(keys)
