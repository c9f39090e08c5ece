"""What a follower's fetch tells the leader, what follows from it, and whether it has to wait.

A follower has all before the offset that it fetches. Every fetch of a session tells that of all
its partitions anew, whether or not the request names them.
"""

from collections.abc import Callable, Iterable

from barnabas.base.errors import BrokerError
from barnabas.replication.leader import LeaderReplica
from barnabas.replication.progress import IsrChange
from barnabas.replication.throttle import ReplicationThrottle
from barnabas.server.delayed import Delayed
from barnabas.wire.fetch import FetchPartition


class FollowerFetches:
    """Takes note of what followers have, before they are answered."""

    def __init__(
        self,
        delayed: Delayed,
        throttle: ReplicationThrottle,
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
            and self._throttle.is_throttled(*leader.topic_partition)
            and self._throttle.is_exceeded
        )

    def on_sent(self, topic: str, partition: int, size: int) -> None:
        """Count what a follower was given, in sync or not."""
        if self._throttle.is_throttled(topic, partition):
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
