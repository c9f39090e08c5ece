"""The progress of one follower: its log end, and the time when it last had caught up.

A follower reports this by fetching: its fetch offset is the end of its own log.
"""

import math
from typing import Final, NamedTuple

from barnabas.base.ids import BrokerId, LeaderEpoch, TopicPartition

UNKNOWN: Final = -1
NEVER_MS: Final = -math.inf


class IsrChange(NamedTuple):
    """A change of the ISR that a leader wants, and the ISR that it believes the tree to hold.

    `partition_epoch` is the version of the `state` znode to replace.
    """

    topic_partition: TopicPartition
    leader: BrokerId
    leader_epoch: LeaderEpoch
    controller_epoch: int
    partition_epoch: int
    before: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]

    @property
    def is_shrink(self) -> bool:
        return len(self.isr) < len(self.before)


class FollowerProgress(NamedTuple):
    """The effects of one fetch of a follower."""

    high_watermark_moved: bool
    log_start_moved: bool  # the follower's, so that the low watermark may have moved
    isr_change: IsrChange | None  # begun: to be written to the tree


class LastFetch:
    """The time of the last fetch in one fetch session, which all its partitions share."""

    __slots__ = ("ms",)

    def __init__(self, ms: float) -> None:
        self.ms = ms


class Follower:
    """One follower in one leader epoch; times are milliseconds of a clock that never jumps.

    While a follower that has the whole log *rests* in a fetch session, each fetch of the session
    counts as one of this partition, at no cost.
    """

    __slots__ = (
        "_caught_up_ms",
        "_last_fetch_ms",
        "_leader_end_offset",
        "_resting",
        "broker_id",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: BrokerId, caught_up_ms: float = NEVER_MS) -> None:
        """`caught_up_ms`: now for one in sync, so that it has time to come and fetch."""
        self.broker_id = broker_id
        self.log_end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self._caught_up_ms = caught_up_ms
        self._resting: LastFetch | None = None
        # The leader's log end, and the time, as of the follower's last fetch.
        self._leader_end_offset = UNKNOWN
        self._last_fetch_ms = NEVER_MS

    @property
    def last_caught_up_ms(self) -> float:
        resting = self._resting
        return self._caught_up_ms if resting is None else max(self._caught_up_ms, resting.ms)

    def rest(self, last_fetch: LastFetch) -> None:
        """Count the fetches of a session as this follower's: it has the log's end, and knows it."""
        self._resting = last_fetch

    def stir(self, last_fetch: LastFetch) -> None:
        """End resting in a session, unless the follower rests in a newer one by now."""
        if self._resting is last_fetch:
            self._resting = None
            self._caught_up_ms = max(self._caught_up_ms, last_fetch.ms)
            self._last_fetch_ms = max(self._last_fetch_ms, last_fetch.ms)

    def on_fetch(self, offset: int, log_start: int, leader_end: int, now_ms: float) -> None:
        """Note a fetch at `offset`, made when the leader's log ended at `leader_end`.

        Reaching where the leader was at the fetch before counts as having caught up then:
        a follower that keeps pace is in sync, though the log always grows before it asks again.
        """
        if self._resting is not None:
            self.stir(self._resting)
        if offset >= leader_end:
            self._caught_up_ms = max(self._caught_up_ms, now_ms)
        elif offset >= self._leader_end_offset:
            self._caught_up_ms = max(self._caught_up_ms, self._last_fetch_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start
        self._leader_end_offset = max(self._leader_end_offset, leader_end)
        self._last_fetch_ms = now_ms

    def has_fetched_since(self, now_ms: float) -> bool:
        """True if a fetch that came later was noted; one that counts while it rests is one."""
        last_ms = self._last_fetch_ms
        return now_ms < (last_ms if self._resting is None else max(last_ms, self._resting.ms))

    def is_caught_up(self, leader_end: int, now_ms: float, max_lag_ms: float) -> bool:
        """True if it has caught up, or had within the lag time that an in-sync replica may use."""
        return self.log_end_offset == leader_end or now_ms - self.last_caught_up_ms <= max_lag_ms
