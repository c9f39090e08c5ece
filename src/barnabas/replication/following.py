"""The partitions that one fetch loop follows: which of them to ask for now, and from where."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.replication.fetch_session import Key
from barnabas.replication.follower import FollowerReplica
from barnabas.replication.throttle import ReplicationThrottle
from barnabas.wire.fetch import FetchPartition

# Brokers hear of a new leader within milliseconds of each other, in no particular order.
FIRST_BACKOFF_S: Final = 0.02


class Following:
    """One partition, from when it is followed until it is stopped or followed anew.

    Whoever awaited anything compares this object with the one that is followed then.
    """

    __slots__ = ("_backoff_s", "_wanted", "follower", "is_cut", "not_before", "trouble")

    def __init__(self, follower: FollowerReplica) -> None:
        self.follower = follower
        # Whether what must go before the first fetch is gone; by epochs it goes after it.
        self.is_cut = False
        # When it may be asked for again, in the loop's time.
        self.not_before = 0.0
        # The complaint that was told last, so that it is told once.
        self.trouble: ErrorCode | None = None
        self._backoff_s = 0.0  # the last one, after a complaint
        self._wanted: FetchPartition | None = None

    @property
    def key(self) -> Key:
        topic, partition = self.follower.topic_partition
        return self.follower.topic_id or topic, partition

    @property
    def is_at_end(self) -> bool:
        """Whether the log still ends where it did when it was last asked for."""
        wanted = self._wanted
        return wanted is not None and wanted.fetch_offset == self.follower.log.log_end_offset

    def on_served(self) -> None:
        """The leader complains no more."""
        self.trouble = None
        self._backoff_s = 0.0

    def wait(self, now: float, backoff_s: float, *, passing: bool) -> bool:
        """Not to be asked for until `backoff_s` from now; sooner at first if that may help.

        Producers wait for a new leader's followers: a second would be long for them. Returns
        whether it is no longer soon, so that whoever watches should know.
        """
        self._backoff_s = 2 * self._backoff_s or FIRST_BACKOFF_S if passing else backoff_s
        self._backoff_s = min(backoff_s, self._backoff_s)
        self.not_before = now + self._backoff_s
        return self._backoff_s == backoff_s

    def wanted(self, max_bytes: int, *, by_epoch: bool) -> FetchPartition:
        """What to ask the leader; the same object as long as it is the same."""
        log, wanted = self.follower.log, self._wanted
        if (
            wanted is None
            or wanted.fetch_offset != log.log_end_offset
            or wanted.log_start_offset != log.log_start_offset
            or wanted.last_fetched_epoch != (log.epochs.latest if by_epoch else -1)
            or wanted.max_bytes != max_bytes
        ):
            wanted = self._wanted = FetchPartition(
                self.follower.topic_partition.partition,
                log.log_end_offset,
                max_bytes,
                self.follower.epoch,
                log.epochs.latest if by_epoch else -1,
                log.log_start_offset,
            )
        return wanted


class Ready(NamedTuple):
    """What may be asked for now, and how long until there may be more; None if none waits."""

    followings: dict[Key, Following]
    wait_s: float | None


class Followings:
    """By partition, in the order in which they shall get their share of an answer."""

    def __init__(self) -> None:
        self._all: dict[TopicPartition, Following] = {}

    def __iter__(self) -> Iterator[Following]:
        return iter(list(self._all.values()))

    def __len__(self) -> int:
        return len(self._all)

    def add(self, follower: FollowerReplica) -> bool:
        """Whether it was not followed yet, or in another epoch."""
        known = self._all.get(follower.topic_partition)
        if known is not None and known.follower is follower:
            return False
        self._all[follower.topic_partition] = Following(follower)
        return True

    def remove(self, partition: TopicPartition) -> Following | None:
        return self._all.pop(partition, None)

    def holds(self, following: Following) -> bool:
        return self._all.get(following.follower.topic_partition) is following

    def move_to_end(self, following: Following) -> None:
        """It had its share: others come first next time."""
        partition = following.follower.topic_partition
        self._all[partition] = self._all.pop(partition)

    def decide_ready(self, now: float, throttle: ReplicationThrottle, backoff_s: float) -> Ready:
        """Those that do not wait after an error, or because of a throttle."""
        ready: dict[Key, Following] = {}
        waits: list[float] = []
        is_exceeded = throttle.is_exceeded
        for partition, following in self._all.items():
            if following.not_before > now:
                waits.append(following.not_before - now)
            elif is_exceeded and following.follower.lag != 0 and throttle.is_throttled(*partition):
                waits.append(backoff_s)
            else:
                ready[following.key] = following
        return Ready(ready, min(waits, default=None))
