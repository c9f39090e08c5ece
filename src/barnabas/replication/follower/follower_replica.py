"""The follower's view of one partition: appends, truncations, high watermark."""

import logging
import uuid
from typing import NamedTuple

from barnabas.base.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from barnabas.base.laws import law
from barnabas.log.background_work import Removal
from barnabas.log.follower_batches import UnexpectedOffset
from barnabas.log.leader_epochs import EpochEnd
from barnabas.log.log import Log
from barnabas.replication.follower.epoch_truncation import decide_truncation
from barnabas.replication.leadership import Leadership
from barnabas.replication.reading import last_stable_offset
from barnabas.wire.records.batch import BatchHeader

log = logging.getLogger("barnabas.follower")


class AppendedAsFollower(NamedTuple):
    """The outcome of an append."""

    offsets_moved: bool  # the high watermark, or the log's start
    removal: Removal | None = None  # of the files of a log that had to begin elsewhere


class FollowerReplica:
    """Follows one leader in one epoch; a new epoch is a new object. Nothing here suspends.

    After a DiskFault the log's `failure` is set, and nothing more can be followed.
    """

    __slots__ = ("broker_id", "high_watermark", "lag", "leadership", "log")

    def __init__(
        self, broker_id: BrokerId, leadership: Leadership, log: Log, high_watermark: int
    ) -> None:
        """`high_watermark` as it was in the role before, or as the checkpoint has it."""
        self.broker_id = broker_id
        self.leadership = leadership
        self.log = log
        # How far the leader's high watermark is ahead; None before its first response.
        self.lag: int | None = None
        self.high_watermark = log.log_start_offset
        within = max(log.log_start_offset, min(high_watermark, log.log_end_offset))
        self._set_high_watermark(Offset(within))

    @property
    def topic_partition(self) -> TopicPartition:
        return self.leadership.topic_partition

    @property
    def topic_id(self) -> uuid.UUID | None:
        return self.leadership.topic_id

    @property
    def epoch(self) -> LeaderEpoch:
        return self.leadership.leader_epoch

    @property
    def last_stable_offset(self) -> Offset:
        """The last stable offset: consumers read up to the first open transaction."""
        return last_stable_offset(self.log, self.high_watermark)

    def on_leadership(self, leadership: Leadership) -> None:
        """Apply a LeaderAndIsr within this epoch."""
        if leadership.partition_epoch >= self.leadership.partition_epoch:
            self.leadership = leadership

    # Following

    def append(
        self, records: memoryview, leader_high_watermark: int, leader_log_start: int, now_ms: int
    ) -> AppendedAsFollower:
        """Append whole batches that the leader sent for this log's end, none of them damaged.

        The high watermark goes as far as the leader's, at most to the log's end; the log's start
        goes with the leader's.

        Keeps   REP-4
        Raises  BrokerError(corrupt_message), nothing changed, if they do not fit the log's end
                DiskFault
        """
        removal = None
        try:
            self.log.append_as_follower(records, now_ms)
        except UnexpectedOffset as unexpected:
            if not self._may_begin_at(unexpected.first, leader_log_start):
                raise
            removal = self._start_at(Offset(unexpected.first.base_offset), now_ms)
            self.log.append_as_follower(records, now_ms)
        end = self.log.log_end_offset
        self.lag = max(0, leader_high_watermark - end)
        committed = min(Offset(leader_high_watermark), end)
        moved = committed > self.high_watermark and self._set_high_watermark(committed)
        start = self.log.log_start_offset
        if leader_log_start > start:
            self.log.delete_records_before(min(Offset(leader_log_start), self.high_watermark))
        return AppendedAsFollower(moved or self.log.log_start_offset != start, removal)

    def _may_begin_at(self, first: BatchHeader, leader_log_start: int) -> bool:
        """Return whether the log ends inside a batch, with no record that the leader still has.

        DeleteRecords has moved the leader's log start into that batch. This log is empty, or all
        of its records are below that start; they may be of an epoch that the leader has cut off,
        and no longer knows. So it begins where the batch does, and its start moves up afterwards.
        """
        start, end = self.log.log_start_offset, self.log.log_end_offset
        has_nothing = start == end or end <= leader_log_start
        return has_nothing and first.base_offset < end < first.next_offset

    def _set_high_watermark(self, offset: Offset) -> bool:
        """The only place where it is set; return whether it moved.

        Keeps REP-4. REP-2 is a leader's law. A follower's high watermark goes back with the end
        of its log: after an unclean election, or where a disk has lost records.
        """
        end = self.log.log_end_offset
        facts = {"new": offset, "end": end, "partition": self.topic_partition}
        law(offset <= end, "REP-4 the high watermark of a follower is within its log", **facts)
        moved = offset != self.high_watermark
        self.high_watermark = offset
        self.log.producers.on_high_watermark(offset)
        return moved

    # Truncating

    def truncate_to_epoch(self, leader: EpochEnd, now_ms: int) -> Removal | None:
        """Truncate what the leader does not have, as its response says. Raises DiskFault."""
        offset = decide_truncation(self.log, leader)
        log.debug(
            "truncating partition=%s to=%d end=%d own_epoch=%d leader_epoch=%d leader_end=%d",
            self.topic_partition,
            offset,
            self.log.log_end_offset,
            self.log.epochs.latest,
            leader.epoch,
            leader.end_offset,
        )
        return self.truncate_to(offset, now_ms)

    def truncate_to(self, offset: Offset, now_ms: int) -> Removal | None:
        """Remove the batch that holds `offset` and all after it. Raises DiskFault."""
        removal = self.log.truncate_to(offset, now_ms)
        end = self.log.log_end_offset
        if end < self.high_watermark:
            # Only where a replica that was not in sync was elected, or a disk has lost something.
            log.warning(
                "truncated below the high watermark partition=%s end=%d high_watermark=%d",
                self.topic_partition,
                end,
                self.high_watermark,
            )
        self._set_high_watermark(min(self.high_watermark, end))
        return removal

    def start_anew_at(self, offset: Offset, now_ms: int) -> Removal:
        """Truncate fully: the leader no longer has the records that follow. Raises DiskFault."""
        log.warning(
            "log truncated fully partition=%s at=%d end=%d: the leader deleted the records between",
            self.topic_partition,
            offset,
            self.log.log_end_offset,
        )
        return self._start_at(offset, now_ms)

    def _start_at(self, offset: Offset, now_ms: int) -> Removal:
        removal = self.log.truncate_fully_and_start_at(offset, now_ms)
        self._set_high_watermark(offset)
        return removal
