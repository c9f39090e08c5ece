"""What a follower's fetch tells the leader, and what follows from it; and whether it has to wait.

A follower has all before the offset that it fetches. Every fetch of a session tells that of all
its partitions anew, whether or not the request names them.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from barnabas.base.errors import BrokerError
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.replication.leader import LeaderReplica
from barnabas.replication.progress import IsrChange
from barnabas.server.delayed import Delayed
from barnabas.wire.fetch import FetchPartition


class LeaderThrottle(Protocol):
    """How much a leader gives to followers that are not in sync, where a topic limits it."""

    def is_throttled(self, partition: TopicPartition, replica: BrokerId, /) -> bool:
        """Whether the topic's list names this follower."""
        ...

    def is_exceeded(self) -> bool: ...

    def record(self, size: int, /) -> None:
        """Note what was given to followers that the lists name."""
        ...


class Unthrottled:
    """A throttle of nobody."""

    def is_throttled(self, partition: TopicPartition, replica: BrokerId, /) -> bool:
        return False

    def is_exceeded(self) -> bool:
        return False

    def record(self, size: int, /) -> None:
        """There is no rate to be counted for."""


class FollowerFetches:
    """Takes note of what followers have, before they are answered."""

    def __init__(
        self,
        delayed: Delayed,
        throttle: LeaderThrottle,
        submit: Callable[[LeaderReplica, IsrChange], None],
        now_ms: Callable[[], float],
    ) -> None:
        """`submit` brings a change of the in-sync replicas to the tree; `now_ms` never jumps."""
        self._delayed = delayed
        self._throttle = throttle
        self._submit = submit
        self._now_ms = now_ms

    def on_fetch(
        self, replica: int, wanted: Iterable[tuple[LeaderReplica, FetchPartition]]
    ) -> None:
        """Move on what can be moved; who waits for it is answered before this returns.

        A partition that the fetch will be refused for tells nothing.
        """
        now_ms = self._now_ms()
        committed, started = [], []
        for leader, partition in wanted:
            if not _is_sound(leader, replica, partition):
                continue
            moved, log_start_moved, change = leader.on_follower_fetch(
                replica, partition.fetch_offset, partition.log_start_offset, now_ms
            )
            if change is not None:
                self._submit(leader, change)
            if moved:
                committed.append(leader.topic_partition)
            if log_start_moved:
                started.append(leader.topic_partition)
        for key in committed:
            self._delayed.on_high_watermark(key)
        for key in started:
            self._delayed.on_log_start(key)

    def must_wait(self, leader: LeaderReplica, replica: int) -> bool:
        """Whether a follower gets nothing for now, since those like it got enough.

        Those in sync never wait: it would be the producers that wait for them.
        """
        return (
            replica not in leader.isr
            and self._throttle.is_throttled(leader.topic_partition, BrokerId(replica))
            and self._throttle.is_exceeded()
        )

    def on_sent(self, partition: TopicPartition, replica: int, size: int) -> None:
        if self._throttle.is_throttled(partition, BrokerId(replica)):
            self._throttle.record(size)


def _is_sound(leader: LeaderReplica, replica: int, partition: FetchPartition) -> bool:
    reading, offset = leader.reading, partition.fetch_offset
    try:
        reading.check_epoch(partition.current_leader_epoch)
        leader.check_follower(replica, partition.current_leader_epoch)
        diverging = reading.diverging_epoch(partition.last_fetched_epoch, offset)
    except BrokerError:
        return False
    return diverging is None and leader.log.log_start_offset <= offset <= leader.log.log_end_offset
