"""What a leader knows of one follower: how far its log reaches, and when it last had everything.

A follower tells all of this by fetching: it asks for the offset at which its own log ends.
"""

import math
from typing import Final, NamedTuple

from barnabas.base.ids import BrokerId, LeaderEpoch, TopicPartition

UNKNOWN: Final = -1
NEVER_MS: Final = -math.inf


class IsrChange(NamedTuple):
    """What a leader wants the in-sync replicas to be, and what it takes them to be in the tree.

    `partition_epoch` is the version of the `state` node that it is to replace.
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
    """What one fetch of a follower has moved."""

    high_watermark_moved: bool
    log_start_moved: bool  # the follower's, so that the low watermark may have moved
    isr_change: IsrChange | None  # begun: to be written to the tree


class Follower:
    """One follower in one leader epoch; times are milliseconds of a clock that never jumps."""

    __slots__ = (
        "_last_fetch_ms",
        "_leader_end_offset",
        "broker_id",
        "last_caught_up_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: BrokerId, caught_up_ms: float = NEVER_MS) -> None:
        """`caught_up_ms`: now for one in sync, so that it has time to come and fetch."""
        self.broker_id = broker_id
        self.log_end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.last_caught_up_ms = caught_up_ms
        # The leader's log end, and the time, as of the follower's last fetch.
        self._leader_end_offset = UNKNOWN
        self._last_fetch_ms = NEVER_MS

    def on_fetch(self, offset: int, log_start: int, leader_end: int, now_ms: float) -> None:
        """Take in a fetch at `offset`, made when the leader's log ended at `leader_end`.

        Reaching where the leader was at the fetch before counts as having caught up then:
        a follower that keeps pace is in sync, though the log always grows before it asks again.
        """
        if offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self._leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self._last_fetch_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start
        self._leader_end_offset = max(self._leader_end_offset, leader_end)
        self._last_fetch_ms = now_ms

    def is_caught_up(self, leader_end: int, now_ms: float, max_lag_ms: float) -> bool:
        """Whether it has everything, or had it no longer ago than a replica in sync may lag."""
        return self.log_end_offset == leader_end or now_ms - self.last_caught_up_ms <= max_lag_ms
