"""The progress of followers, as their fetches report it, and the throttle that delays them.

A follower has all records before the offset that it fetches. Every fetch of a session reports that
for all its partitions, named or not: for those that rest, `Follower.rest` does.
"""

from collections.abc import Iterable

from barnabas.base.clock import MonotonicTime
from barnabas.base.errors import BrokerError
from barnabas.replication.leader.isr_writer import IsrTracker
from barnabas.replication.leader.leader_replica import LeaderReplica
from barnabas.replication.replication_throttle import ReplicationThrottle
from barnabas.server.delayed.partition_purgatories import Delayed
from barnabas.wire.fetch.fetch_codec import FetchPartition


class FollowerFetches:
    """Records what followers have, before they get a response."""

    def __init__(
        self,
        delayed: Delayed,
        throttle: ReplicationThrottle,
        isr: IsrTracker,
        time: MonotonicTime,
    ) -> None:
        self._delayed = delayed
        self._throttle = throttle
        self._isr = isr
        self._time = time

    def now_ms(self) -> float:
        """When a fetch arrives."""
        return self._time.now_ms()

    def on_fetch(
        self,
        replica: int,
        wanted: Iterable[tuple[LeaderReplica, FetchPartition]],
        arrived_ms: float | None = None,
    ) -> None:
        """Advance high and low watermarks, and wake the requests that wait for them.

        A partition for which the fetch will be refused changes nothing. Nor does one that the
        follower has fetched again since this fetch `arrived_ms`, which is now if it is not said:
        the follower may have been restarted, and have less of the log than this fetch reports.
        """
        now_ms = self._time.now_ms() if arrived_ms is None else arrived_ms
        committed, started = [], []
        for leader, partition in wanted:
            if not _is_sound(leader, replica, partition):
                continue
            if arrived_ms is not None and _has_fetched_since(leader, replica, arrived_ms):
                continue
            moved, log_start_moved, change = leader.on_follower_fetch(
                replica, partition.fetch_offset, partition.log_start_offset, now_ms
            )
            if change is not None:
                self._isr.submit(leader, change)
            if moved:
                committed.append(leader.topic_partition)
            if log_start_moved:
                started.append(leader.topic_partition)
        for key in committed:
            self._delayed.on_high_watermark(key)
        for key in started:
            self._delayed.on_low_watermark(key)

    def must_wait(self, leader: LeaderReplica, replica: int) -> bool:
        """True if a follower gets nothing for now, since the throttle is exceeded.

        Followers in sync never wait: producers would wait for them.
        """
        return (
            replica not in leader.isr
            and self._throttle.is_throttled(*leader.topic_partition)
            and self._throttle.is_exceeded
        )

    def on_sent(self, topic: str, partition: int, size: int) -> None:
        """Count what a follower was sent, in sync or not."""
        if self._throttle.is_throttled(topic, partition):
            self._throttle.record(size)


def _has_fetched_since(leader: LeaderReplica, replica: int, arrived_ms: float) -> bool:
    follower = leader.follower(replica)
    return follower is not None and follower.has_fetched_since(arrived_ms)


def _is_sound(leader: LeaderReplica, replica: int, partition: FetchPartition) -> bool:
    """True if the fetch will not be refused: only then is what it reports true."""
    log, offset, last_epoch = leader.log, partition.fetch_offset, partition.last_fetched_epoch
    if not (leader.has_follower(replica) and log.log_start_offset <= offset <= log.log_end_offset):
        return False
    try:
        leader.check_epoch(partition.current_leader_epoch)
        return last_epoch < 0 or leader.reading.diverging_epoch(last_epoch, offset) is None
    except BrokerError:
        return False
