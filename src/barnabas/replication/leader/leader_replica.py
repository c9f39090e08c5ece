"""The leader's view of one partition: ISR, high watermark, follower progress, appends.

The high watermark is the least log end among the in-sync replicas. It may move at four moments:
when this replica becomes leader, when the in-sync replicas change, when a batch is appended (if
no other replica is in sync), and when a follower fetches. Compiled as it is: `leader_replica.pxd`
has the types.
"""

from collections.abc import Callable
from typing import Final

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId, Offset
from barnabas.base.laws import law
from barnabas.base.safeguards import IN_FORCE, Safeguards
from barnabas.config.topic_config import TopicConfig
from barnabas.log.log import Appended, Log
from barnabas.log.producers.verification import VerificationGuard
from barnabas.log.validation import NO_LIMIT, must_recompress, validate
from barnabas.replication.leader.follower_progress import (
    UNKNOWN,
    Follower,
    FollowerProgress,
    IsrChange,
)
from barnabas.replication.leader.in_sync import InSyncReplicas
from barnabas.replication.leadership import Leadership
from barnabas.replication.reading import Reading, last_stable_offset
from barnabas.wire.produce.plain_batch import PlainBatch, judge_plain
from barnabas.wire.records.batch import CODEC_MASK, HEADER_SIZE, BatchHeader, read_header
from barnabas.wire.records.compression import MAX_DECOMPRESSED_SIZE, SMALL_BATCH
from barnabas.wire.records.records import EndTransactionMarker, build_marker

_CODEC_AT: Final = 22  # the low byte of a batch's attributes
MAX_LAG_MS: Final = 30_000  # what `replica.lag.time.max.ms` is by default


class LeaderReplica:
    """Leads one partition in one epoch; a new epoch is a new object.

    Times (`now_ms` of followers, not that of appends) are of a clock that never jumps.
    """

    __slots__ = (
        "_config",
        "_in_sync",
        "_is_plain",
        "_keeps_batches",
        "_max_lag_ms",
        "_now_ms",
        "_safeguards",
        "epoch",
        "epoch_start_offset",
        "high_watermark",
        "is_sole",
        "largest",
        "log",
        "tenure",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        broker_id: BrokerId,
        leadership: Leadership,
        log: Log,
        *,
        high_watermark: Offset,
        now_ms: float,
        max_lag_ms: float = MAX_LAG_MS,
        is_alive: Callable[[BrokerId], bool] = lambda _: True,
        previous: "LeaderReplica | None" = None,
        safeguards: Safeguards = IN_FORCE,
    ) -> None:
        """Begin to lead, with the high watermark that this replica knew before.

        `previous` led until now, on this broker and with this log: its uncommitted records are
        still in the log, and `tenure` stays the same. The epoch begins in the log here, before it
        has records: followers that ask where their epoch ends must find it.
        """
        self.topic_partition = leadership.topic_partition
        self.topic_id = leadership.topic_id
        self.epoch = leadership.leader_epoch
        self.log = log
        # The same for leaders that follow each other without anyone else leading in between.
        self.tenure: object = object() if previous is None else previous.tenure
        log.begin_leading(self.epoch)
        self.epoch_start_offset = log.log_end_offset
        self.high_watermark: Offset = log.log_start_offset
        self._set_high_watermark(max(log.log_start_offset, min(high_watermark, log.log_end_offset)))
        self._safeguards = safeguards
        self._max_lag_ms = max_lag_ms
        self._now_ms = now_ms
        self._config: TopicConfig | None = None  # the source of the two below
        self._is_plain = self._keeps_batches = False
        self.largest = 0
        self._in_sync = InSyncReplicas(broker_id, leadership, now_ms, is_alive)
        self.is_sole = not self._in_sync.followers
        self._move_high_watermark()

    # Replicas

    @property
    def broker_id(self) -> BrokerId:
        return self._in_sync.broker_id

    @property
    def leadership(self) -> Leadership:
        """The last LeaderAndIsr; `isr` and `partition_epoch` may be newer."""
        return self._in_sync.leadership

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        """The in-sync replicas, as far as they are known to be in the tree."""
        return self._in_sync.committed

    @property
    def partition_epoch(self) -> int:
        return self._in_sync.partition_epoch

    @property
    def followers(self) -> tuple[Follower, ...]:
        return tuple(self._in_sync.followers.values())

    def on_leadership(self, leadership: Leadership) -> bool:
        """Apply a LeaderAndIsr within this epoch; return whether the high watermark moved.

        An older one than the known state changes nothing.
        """
        if not self._in_sync.on_leadership(leadership):
            return False
        self.is_sole = not self._in_sync.followers
        return self._move_high_watermark()

    def has_follower(self, replica: int) -> bool:
        return replica in self._in_sync.followers

    def follower(self, replica: int) -> Follower | None:
        return self._in_sync.followers.get(BrokerId(replica))

    def check_follower(self, replica: int, known_epoch: int) -> None:
        """Refuse a fetch of a replica that this partition is not assigned to, as far as is known.

        Raises  BrokerError, upon which the follower tries again
        """
        if not self.has_follower(replica):
            raise BrokerError(
                ErrorCode.unknown_leader_epoch
                if known_epoch >= 0
                else ErrorCode.not_leader_or_follower
            )

    def on_follower_fetch(
        self, replica: int, fetch_offset: int, follower_log_start: int, now_ms: float
    ) -> FollowerProgress:
        """Note a fetch that was checked: the follower has all records before `fetch_offset`.

        It joins the ISR if it has all records that may have been acknowledged: those below the
        high watermark, and those that were here when this epoch began, as the leader before may
        have acknowledged more than this one knows yet. It then bounds the high watermark at once,
        before that can move past it.

        An in-sync follower that fetches committed records, twice in a row, has lost them in a
        restart that no controller saw. It leaves the ISR, since an in-sync replica could be
        elected. A single such fetch may be a delayed request of a former connection.

        So a follower that has caught up with the first response stays in sync. If it is elected
        before, the records it lacks are lost, as if it were elected before its first fetch, when
        nobody could know. Removing it at once would not help: that write to the tree lasts as long
        as sending it the records.
        """
        in_sync = self._in_sync
        follower = in_sync.followers[BrokerId(replica)]
        self._now_ms = now_ms
        log_start_moved = follower.log_start_offset != follower_log_start
        end_moved = follower.log_end_offset != fetch_offset
        lacked_some = UNKNOWN < follower.log_end_offset < self.high_watermark
        follower.on_fetch(fetch_offset, follower_log_start, self.log.log_end_offset, now_ms)
        if lacked_some and fetch_offset < self.high_watermark:
            change = in_sync.decide_expulsion(follower)
        else:
            at_least = max(self.high_watermark, self.epoch_start_offset)
            change = in_sync.decide_expansion(follower, at_least)
        if change is not None:
            in_sync.begin(change)
        moved = end_moved and self._move_high_watermark()
        return FollowerProgress(moved, log_start_moved, change)

    def decide_shrink(self, now_ms: float, max_lag_ms: float) -> IsrChange | None:
        """Return the change that removes the followers that lag for too long, if any do."""
        return self._in_sync.decide_shrink(self.log.log_end_offset, now_ms, max_lag_ms)

    def begin_isr_change(self, change: IsrChange) -> None:
        """Make a change pending; no other begins until the tree has decided on it."""
        self._in_sync.begin(change)

    def apply_isr(self, isr: tuple[BrokerId, ...], partition_epoch: int) -> bool:
        """Apply the ISR that the tree holds; return whether the high watermark moved.

        Nothing changes if that state or a newer one is known already.
        """
        if partition_epoch <= self.partition_epoch:
            return False
        self._in_sync.apply(isr, partition_epoch)
        return self._move_high_watermark()

    def on_time(self, now_ms: float, max_lag_ms: float) -> bool:
        """Stop waiting for followers that fell behind; return whether the high watermark moved."""
        self._now_ms = now_ms
        self._max_lag_ms = max_lag_ms
        return self._move_high_watermark()

    @property
    def records_appended(self) -> int:
        """The number of records that producers have appended in this epoch."""
        return self.log.log_end_offset - self.epoch_start_offset

    # High watermark

    @property
    def min_isr(self) -> int:
        """`min.insync.replicas`, but at most the number of replicas."""
        if not self._safeguards.min_insync_check:
            return 1
        return min(self.log.config.min_insync_replicas, len(self._in_sync.followers) + 1)

    @property
    def is_under_min_isr(self) -> bool:
        in_sync = len(self._in_sync.committed)
        # Called several times for each batch; nearly always one comparison decides.
        return in_sync < self.log.config.min_insync_replicas and in_sync < self.min_isr

    @property
    def is_under_replicated(self) -> bool:
        """True if fewer replicas are in sync than assigned, not counting those being added."""
        leadership = self.leadership
        return len(self.isr) < len(leadership.replicas) - len(leadership.adding)

    @property
    def low_watermark(self) -> Offset:
        """The least log start among the replicas that are alive."""
        return self._in_sync.least_start(self.log.log_start_offset)

    def _move_high_watermark(self) -> bool:
        """Raise it as far as possible; below `min.insync.replicas` nothing is committed."""
        if self.is_under_min_isr:
            return False
        least = self._in_sync.least_end(self.log.log_end_offset, self._now_ms, self._max_lag_ms)
        if least <= self.high_watermark:
            return False
        self._set_high_watermark(least)
        return True

    def _set_high_watermark(self, offset: Offset) -> None:
        """The only place where it is set. Keeps REP-2: a leader never takes back what it said."""
        if offset < self.high_watermark:
            facts = {"new": offset, "old": self.high_watermark}
            law(False, "REP-2 the high watermark of a leader never retreats", **facts)
        self.high_watermark = offset
        producers = self.log.producers
        if producers.unreplicated:
            producers.on_high_watermark(offset)

    @property
    def last_stable_offset(self) -> Offset:
        """The last stable offset: consumers read up to the first open transaction."""
        return last_stable_offset(self.log, self.high_watermark)

    @property
    def reading(self) -> Reading:
        return Reading(self.log, self.high_watermark, self.epoch)

    @property
    def is_plain(self) -> bool:
        """True if a batch needs nothing but the append once it is found plain."""
        config = self.log.config
        if config is not self._config:
            self._config, self._is_plain = config, _is_plain(config)
            self._keeps_batches = _keeps_batches(config)
            self.largest = min(config.max_message_bytes, config.segment_bytes)
        return self._is_plain

    def check_in_sync(self) -> None:
        """Refuse a batch with acks=all if the ISR is smaller than `min.insync.replicas`.

        Raises  BrokerError(not_enough_replicas)
        """
        if self.is_under_min_isr:
            raise BrokerError(
                ErrorCode.not_enough_replicas,
                f"{len(self.isr)} of {len(self.followers) + 1} replicas are in sync, "
                f"min.insync.replicas is {self.log.config.min_insync_replicas}.",
            )

    def must_block(self, records: memoryview | None) -> bool:
        """True if appending these needs work that would block the loop: see `Produce`."""
        if records is None or len(records) < HEADER_SIZE:
            return False
        if len(records) > SMALL_BATCH and records[_CODEC_AT] & CODEC_MASK:
            return True
        if self.is_plain:
            return False
        config = self.log.config
        header = read_header(records)
        unflushed = self.log.unflushed_messages + header.record_count
        return unflushed >= config.flush_messages or must_recompress(header, config)

    def append(
        self,
        records: memoryview,
        now_ms: int,
        header: BatchHeader | None = None,
        max_decompressed: int = MAX_DECOMPRESSED_SIZE,
        guard: VerificationGuard | None = None,
        from_client: bool = True,
    ) -> Appended:
        """Append one batch from a producer; validate it first, unless there is a `header`.

        A `header` is what `validate` returned with these records. The first batch of a transaction
        needs the `guard` with which it was verified. A coordinator's batch is not `from_client`:
        its sequence is not checked. Offset, epoch and, where the
        topic asks for it, the time are written into `records`. A batch that this producer sent
        before is not written again: the return value says where it is. Does not suspend.

        Keeps   REP-2
        Raises  BrokerError, log unchanged, for a batch that the topic does not accept; it is
                RecordsTooLarge beyond `max_decompressed` bytes of records
                DiskFault, nothing appended
        """
        if header is None:
            is_plain = self.is_plain
            plain = judge_plain(records, 0, len(records), self.largest, True) if is_plain else None
            if plain is not None and guard is not None:
                # The first batch of a transaction is more than an append.
                begins = read_header(records)
                return self._append_validated(records, begins, now_ms, guard, from_client)
            given = None if plain is None else self.append_plain([plain], now_ms)
            if given is not None:
                return Appended(given, self.log.log_end_offset)
            if not from_client and self._takes_as_made(records):
                made = read_header(records)
                return self._append_validated(records, made, now_ms, guard, from_client)
            if len(records) < HEADER_SIZE:
                raise BrokerError(ErrorCode.invalid_record, "The records hold no whole batch.")
            records, header = validate(
                records,
                read_header(records),
                self.log.config,
                now_ms,
                from_client=from_client,
                max_decompressed=max_decompressed,
            )
        return self._append_validated(records, header, now_ms, guard, from_client)

    def _takes_as_made(self, records: memoryview) -> bool:
        """True if `validate` would find nothing in a coordinator's batch, and change nothing."""
        is_plain = self.is_plain  # and the configuration is looked at
        keeps = (is_plain or self._keeps_batches) and len(records) <= self.largest
        return keeps and not records[_CODEC_AT] & CODEC_MASK

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        marker: EndTransactionMarker,
        now_ms: int,
        transaction_version: int = 0,
    ) -> Appended:
        """Append the end marker of a transaction. Does not suspend.

        A producer that this partition does not know, or whose transaction has no data here, gets
        its marker, too: it fences older epochs.

        Keeps   REP-2
        Raises  BrokerError, log unchanged: not_enough_replicas, invalid_producer_epoch,
                transaction_coordinator_fenced
                DiskFault, nothing appended
        """
        self.check_in_sync()
        records = memoryview(build_marker(marker, now_ms, producer_id, producer_epoch))
        header = read_header(records)
        self.log.producers.check_marker(header, marker.coordinator_epoch, transaction_version)
        appended = self.log.append_marker(records, header, marker, self.epoch, now_ms)
        self._on_appended()
        return appended

    def append_plain(self, batches: list[PlainBatch], now_ms: int) -> Offset | None:
        """Append the first batch, and those behind it that fit the same write.

        The part of `append` for batches that were found plain where `is_plain`. Return the base
        offset of the first; the log ends behind the last that was appended. None leaves the first
        to `append`: its sequence is not the expected one, or its transaction begins here. A batch
        with a sequence comes alone.
        """
        log = self.log
        state = None
        first = batches[0]
        if first.producer_id >= 0:
            state = log.producers.expecting(
                first.producer_id,
                first.producer_epoch,
                first.base_sequence,
                first.is_transactional,
            )
            if state is None:
                return None
        base_offset = log.append_batches(batches, self.epoch, now_ms)
        if state is not None:
            state.on_appended(
                first.base_sequence, base_offset, first.record_count, first.max_timestamp
            )
            if first.is_transactional:
                log.producers.verifications.end(first.producer_id)
        self._on_appended()
        return base_offset

    def _append_validated(
        self,
        records: memoryview,
        header: BatchHeader,
        now_ms: int,
        guard: VerificationGuard | None,
        from_client: bool,
    ) -> Appended:
        if header.producer_id >= 0:
            before = self.log.producers.check(header, guard, from_client=from_client)
            if before is not None:
                time_ms = before.timestamp if header.log_append_time else -1
                return Appended(Offset(before.base_offset), Offset(before.last_offset + 1), time_ms)
        appended = self.log.append(records, header, self.epoch, now_ms)
        self._on_appended()
        if header.log_append_time:
            return appended._replace(log_append_time_ms=header.max_timestamp)
        return appended

    def _on_appended(self) -> None:
        """Move the high watermark with the end of the log, if no other replica is in sync."""
        if self.is_sole:
            self._set_high_watermark(self.log.log_end_offset)
        elif len(self._in_sync.maximal) == 1:
            self._move_high_watermark()

    def check_epoch(self, known_epoch: int) -> None:
        """Refuse a client whose metadata is older or newer than this leader's; -1 asks nothing."""
        if known_epoch >= 0 and known_epoch != self.epoch:
            self.reading.check_epoch(known_epoch)

    def delete_records_before(self, offset: int) -> Offset:
        """Move the log's start up to `offset` (-1: the high watermark), and return it.

        All replicas have done so once `low_watermark` is there.
        """
        wanted = self.high_watermark if offset == -1 else offset
        if not 0 <= wanted <= self.high_watermark:
            raise BrokerError(ErrorCode.offset_out_of_range)
        self.log.delete_records_before(Offset(wanted))
        return Offset(wanted)


def _is_plain(config: TopicConfig) -> bool:
    """True if a batch needs nothing but the append: the fast path."""
    return (
        config.flush_messages == TopicConfig().flush_messages
        and config.compression_type == "producer"
        and not config.compacts
        and _keeps_batches(config)
    )


def _keeps_batches(config: TopicConfig) -> bool:
    """True if a batch that is not compressed and whose records have keys stays as it is."""
    return (
        config.compression_type in ("producer", "uncompressed")
        and config.message_timestamp_type == "CreateTime"
        and config.message_timestamp_before_max_ms == NO_LIMIT
        and config.message_timestamp_after_max_ms == NO_LIMIT
    )
