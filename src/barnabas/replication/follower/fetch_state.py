"""The partitions that one fetch loop follows, and the contents of its next request.

A partition is *due* if it was added or got a response, or its wait is over: the leader's session
may have to change. All others are in the session as they are, or wait. So the cost of a fetch grows
with the changes, not with the number of partitions.

Retention may move the start of a log that is not due. The follower reports it with the next change
of the partition; the leader needs it only after its own start has moved, and its response says so.
"""

from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.replication.follower.fetcher_ports import FetcherSettings
from barnabas.replication.follower.follower_replica import FollowerReplica
from barnabas.replication.follower.follower_session import FollowerSession, Key, Topic
from barnabas.replication.replication_throttle import ReplicationThrottle
from barnabas.wire.fetch.fetch_codec import FetchPartition

# Brokers receive a new LeaderAndIsr within milliseconds of each other, in any order.
FIRST_BACKOFF_S: Final = 0.02
# A request adds no more partitions to the session: the leader has one turn of its loop for it, and
# this broker one for the response. The next one follows at once.
ADDED_AT_ONCE: Final = 250


class Following:
    """One partition, from when it is followed until it is stopped or followed again.

    After an `await` the caller compares this object with the one that is followed then.
    """

    __slots__ = (
        "_backoff_s",
        "asked",
        "follower",
        "has_unreadable",
        "key",
        "not_before",
        "trouble",
    )

    def __init__(self, follower: FollowerReplica) -> None:
        self.follower = follower
        topic, partition = follower.topic_partition
        self.key: Key = (follower.topic_id or topic, partition)
        # Its entry in the leader's session, or None.
        self.asked: FetchPartition | None = None
        # The time of its next fetch, by the loop's clock.
        self.not_before = 0.0
        # The error that was logged last, so that it is logged once.
        self.trouble: ErrorCode | None = None
        # A batch that consumers cannot read was logged; one line for a partition is enough.
        self.has_unreadable = False
        self._backoff_s = 0.0  # the last one, after an error

    def is_as_asked(self) -> bool:
        """True if it is followed as when its fetch was sent, and its log still ends there."""
        asked = self.asked
        return asked is not None and asked.fetch_offset == self.follower.log.log_end_offset

    def on_served(self) -> None:
        """Forget the last error: the leader responds without one."""
        self.trouble = None
        self._backoff_s = 0.0

    def wait(self, now: float, backoff_s: float, *, passing: bool) -> bool:
        """Do not fetch it for `backoff_s`; for less at first if that may help.

        Producers wait for a new leader's followers: a second would be long for them. Returns
        whether the error has lasted, so that it should be logged.
        """
        self._backoff_s = 2 * self._backoff_s or FIRST_BACKOFF_S if passing else backoff_s
        self._backoff_s = min(backoff_s, self._backoff_s)
        self.not_before = now + self._backoff_s
        return self._backoff_s == backoff_s

    def wanted(self, max_bytes: int, *, by_epoch: bool) -> FetchPartition:
        """Its entry for the next request; the same object as before if nothing has changed."""
        log, asked = self.follower.log, self.asked
        last_epoch = log.epochs.latest if by_epoch else -1
        if (
            asked is not None
            and asked.fetch_offset == log.log_end_offset
            and asked.log_start_offset == log.log_start_offset
            and asked.last_fetched_epoch == last_epoch
            and asked.max_bytes == max_bytes
        ):
            return asked
        return FetchPartition(
            self.follower.topic_partition.partition,
            log.log_end_offset,
            max_bytes,
            self.follower.epoch,
            last_epoch,
            log.log_start_offset,
        )


class Changes(NamedTuple):
    """The contents of the next request; all else stays as it is in the leader's session."""

    named: list[tuple[Topic, FetchPartition]]
    forgotten: list[Key]
    is_any_asked: bool  # if not, there is no request to send
    wait_s: float | None  # the time until another one is due; None if none waits
    has_more: bool = False  # partitions are left for the request after it, which must not wait


class Followings:
    """By partition, in the order in which a new session names them."""

    def __init__(
        self,
        throttle: ReplicationThrottle,
        *,
        by_epoch: bool = True,
        added_at_once: int = ADDED_AT_ONCE,
    ) -> None:
        # Those that may have to be truncated before their first fetch.
        self.uncut: dict[Following, None] = {}
        self._throttle = throttle
        self._by_epoch = by_epoch
        self._added_at_once = added_at_once
        self._all: dict[TopicPartition, Following] = {}
        self._due: dict[Following, None] = {}
        self._asked: dict[Key, Following] = {}  # those that the leader's session has
        self._forgotten: dict[Key, None] = {}  # what the next request takes out of it
        # Until when, in what order, and which; some may be followed no more.
        self._waiting: list[tuple[float, int, Following]] = []
        self._numbers = count()
        self._is_held_back = False  # whether the throttle left out some the last time

    def __len__(self) -> int:
        return len(self._all)

    def add(self, follower: FollowerReplica) -> bool:
        """True if it was not followed yet, or in another epoch."""
        known = self._all.get(follower.topic_partition)
        if known is not None and known.follower is follower:
            return False
        self.remove(follower.topic_partition)
        following = self._all[follower.topic_partition] = Following(follower)
        self.uncut[following] = self._due[following] = None
        return True

    def remove(self, partition: TopicPartition) -> None:
        following = self._all.pop(partition, None)
        if following is not None:
            self.uncut.pop(following, None)
            self._due.pop(following, None)
            self._forget(following)

    def holds(self, following: Following) -> bool:
        return self._all.get(following.follower.topic_partition) is following

    def move_to_end(self, following: Following) -> None:
        """Move it behind the others, which come first in the next session."""
        partition = following.follower.topic_partition
        self._all[partition] = self._all.pop(partition)

    def on_answered(self, topic: Topic, partition: int) -> Following | None:
        """The partition of a response, which becomes due; None if it is followed no more."""
        following = self._asked.get((topic, partition))
        if following is not None:
            self._due[following] = None
        return following

    def wait(self, following: Following, now: float, backoff_s: float, *, passing: bool) -> bool:
        """Do not fetch it until its wait is over; see `Following.wait`."""
        lasts = following.wait(now, backoff_s, passing=passing)
        heappush(self._waiting, (following.not_before, next(self._numbers), following))
        self._forget(following)
        return lasts

    @property
    def is_any_new(self) -> bool:
        """True if partitions were added since the last request."""
        return any(each.asked is None and each.key not in self._forgotten for each in self._due)

    def _forget(self, following: Following) -> None:
        if following.asked is not None:
            following.asked = None
            del self._asked[following.key]
            self._forgotten[following.key] = None

    # The next request

    def next_changes(
        self, now: float, settings: FetcherSettings, session: FollowerSession
    ) -> Changes:
        """The partitions to fetch if a session begins; else those due.

        Those beyond `added_at_once` that the session does not have yet are due the next time;
        but each request names all if the leader has no room for a session, which could grow.
        An exceeded throttle may concern any partition, so all are checked then.
        """
        is_full = session.is_full
        most = len(self._all) if session.is_refused else self._added_at_once
        wait_s = self._end_waits(now)
        is_exceeded = self._throttle.is_exceeded
        is_all = is_full or is_exceeded or self._is_held_back
        due = self._all.values() if is_all else self._due.keys()
        self._due, self._is_held_back = {}, False
        named: list[tuple[Topic, FetchPartition]] = []
        added = 0
        for following in due:
            if following.not_before > now:
                continue
            if is_exceeded and self._is_throttled(following.follower):
                self._forget(following)
                self._is_held_back = True
                continue
            wanted = following.wanted(settings.max_bytes, by_epoch=self._by_epoch)
            if is_full or wanted is not following.asked:
                is_added = is_full or following.asked is None
                added += is_added
                if is_added and added > most:
                    self._postpone(following)
                    continue
                self._ask(following, wanted)
                named.append((following.key[0], wanted))
        if self._is_held_back:
            wait_s = settings.backoff_s if wait_s is None else min(wait_s, settings.backoff_s)
        forgotten: list[Key] = []
        if self._asked:
            forgotten = [] if is_full else list(self._forgotten)
            self._forgotten.clear()
        return Changes(named, forgotten, len(self._asked) > 0, wait_s, has_more=added > most)

    def _postpone(self, following: Following) -> None:
        """Leave it to the next request; a new session does not have it yet."""
        if following.asked is not None:
            following.asked = None
            del self._asked[following.key]
        self._due[following] = None

    def _end_waits(self, now: float) -> float | None:
        """Make those due whose waits are over. Returns for how long the next one still waits."""
        waiting = self._waiting
        while waiting:
            until, _, following = waiting[0]
            is_held = self.holds(following)
            if is_held and until > now:
                return until - now
            heappop(waiting)
            if is_held:
                self._due[following] = None
        return None

    def _is_throttled(self, follower: FollowerReplica) -> bool:
        return follower.lag != 0 and self._throttle.is_throttled(*follower.topic_partition)

    def _ask(self, following: Following, wanted: FetchPartition) -> None:
        if following.asked is None:
            self._asked[following.key] = following
            self._forgotten.pop(following.key, None)
        following.asked = wanted
