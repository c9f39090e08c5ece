"""The leader of one partition: takes batches from producers, says how far consumers may read."""

import uuid
from typing import Final, NamedTuple

from crc32c import crc32c

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import LeaderEpoch, Offset, TopicPartition
from barnabas.base.laws import law
from barnabas.base.topic_config import TopicConfig
from barnabas.log.extent import Extent
from barnabas.log.log import Log
from barnabas.log.validation import NO_LIMIT, SMALLEST_RECORD, looks_at_records, validate
from barnabas.wire.batch import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    read_header,
)
from barnabas.wire.compression import MAX_DECOMPRESSED_SIZE, Codec

# This one: a partition has no other replicas yet.
IN_SYNC: Final = 1
LAST_CODEC: Final = int(Codec.ZSTD)


class Produced(NamedTuple):
    """Where a batch went: what the producer is told."""

    base_offset: Offset
    log_append_time_ms: int  # -1 where the producer's own time counts
    end: Offset  # safe once the high watermark is here


class LeaderReplica:
    """Leads one partition in one epoch; a new epoch is a new object."""

    __slots__ = (
        "_config",
        "_is_plain",
        "_largest",
        "epoch",
        "high_watermark",
        "log",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self, topic_partition: TopicPartition, topic_id: uuid.UUID, epoch: LeaderEpoch, log: Log
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.epoch = epoch
        self.log = log
        # The only replica in sync is this one: all that it has is committed.
        self.high_watermark: Offset = log.log_end_offset
        self._config: TopicConfig | None = None  # what the two below were taken from
        self._is_plain = False
        self._largest = 0

    @property
    def last_stable_offset(self) -> Offset:
        """How far a READ_COMMITTED consumer may read: up to the first open transaction."""
        unstable = self.log.producers.first_unstable_offset
        if unstable is None or unstable > self.high_watermark:
            return self.high_watermark
        return Offset(unstable)

    @property
    def is_plain(self) -> bool:
        """Whether the topic asks for nothing that takes more than looking at a batch's header."""
        config = self.log.config
        if config is not self._config:
            self._config, self._is_plain = config, _is_plain(config)
            self._largest = min(config.max_message_bytes, config.segment_bytes)
        return self._is_plain

    def check_in_sync(self) -> None:
        """Refuse a batch that all replicas in sync shall have, if those are too few to promise it.

        Raises  BrokerError(not_enough_replicas)
        """
        wanted = self.log.config.min_insync_replicas
        if wanted > IN_SYNC:
            raise BrokerError(
                ErrorCode.not_enough_replicas,
                f"{IN_SYNC} replica is in sync, min.insync.replicas is {wanted}.",
            )

    def must_block(self, records: memoryview | None) -> bool:
        """Whether appending these takes work that is not for the loop: see `Produce`."""
        if self.is_plain or records is None or len(records) < HEADER_SIZE:
            return False
        config = self.log.config
        header = read_header(records)
        unflushed = self.log.unflushed_messages + header.record_count
        return unflushed >= config.flush_messages or looks_at_records(header, config)

    def append(self, records: memoryview, now_ms: int) -> Produced:
        """Validate one batch from a producer and put it at the end of the log.

        `records` is written in place: offset, epoch and, where the topic asks for it,
        the time. A batch that this producer sent before is answered with where it went
        then, and not written again. Does not suspend.

        Keeps   REP-2  the high watermark never retreats
        Raises  BrokerError, log unchanged, for a batch that the topic does not take
        """
        if len(records) < HEADER_SIZE:
            raise BrokerError(ErrorCode.invalid_record, "The records hold no whole batch.")
        records, header = validate(records, read_header(records), self.log.config, now_ms)
        return self.append_validated(records, header, now_ms)

    def append_plain(self, records: memoryview, now_ms: int) -> Offset | None:
        """`append` for a batch about which there is nothing to ask: its base offset, or None.

        None leaves the batch to `append`: it may be an idempotent producer's, or not in order.
        Only where `is_plain`. What is looked at here is what `validate` would look at.
        """
        if len(records) < HEADER_SIZE:
            return None
        offset, length, _, magic, crc, codec, last, _, max_timestamp, producer, _, _, count = (
            HEADER.unpack_from(records)
        )
        size = length + LOG_OVERHEAD
        if (
            magic != MAGIC
            or offset
            or producer >= 0
            or size != len(records)
            or size > self._largest
            or not 0 <= codec <= LAST_CODEC  # and no other attribute
            or count != last + 1
            or not 0 < count * SMALLEST_RECORD <= (MAX_DECOMPRESSED_SIZE if codec else length)
            or crc32c(records[CRC_START:]) != crc
        ):
            return None
        given = self.log.append_unsequenced(
            records, length, count, max_timestamp, self.epoch, now_ms
        )
        self.high_watermark = self.log.log_end_offset
        return given

    def append_validated(self, records: memoryview, header: BatchHeader, now_ms: int) -> Produced:
        """The second half of `append`, for a batch that was validated elsewhere."""
        log = self.log
        if header.producer_id >= 0:
            if header.is_transactional:
                raise BrokerError(
                    ErrorCode.invalid_txn_state, "Transactions are not served by this broker."
                )
            before = log.producers.check(header)
            if before is not None:
                time_ms = before.timestamp if header.log_append_time else -1
                return Produced(Offset(before.base_offset), time_ms, Offset(before.last_offset + 1))
        appended = log.append(records, header, self.epoch, now_ms)
        self._advance_high_watermark(appended.end)
        return Produced(
            appended.base_offset,
            header.max_timestamp if header.log_append_time else -1,
            appended.end,
        )

    def _advance_high_watermark(self, offset: Offset) -> None:
        if offset < self.high_watermark:
            law(
                False,
                "REP-2 the high watermark never retreats",
                new=offset,
                old=self.high_watermark,
            )
        self.high_watermark = offset
        self.log.producers.on_high_watermark(offset)

    def check_epoch(self, known_epoch: int) -> None:
        """Refuse a client whose metadata is older or newer than this leader's; -1 asks nothing."""
        if known_epoch < 0 or known_epoch == self.epoch:
            return
        if known_epoch < self.epoch:
            raise BrokerError(ErrorCode.fenced_leader_epoch)
        raise BrokerError(ErrorCode.unknown_leader_epoch)

    def locate(
        self, offset: int, max_bytes: int, *, read_committed: bool, minimum_one: bool
    ) -> Extent:
        """Where the batches are that a consumer at `offset` may read now."""
        upto = self.last_stable_offset if read_committed else self.high_watermark
        return self.log.locate(Offset(offset), max_bytes, upto, minimum_one=minimum_one)

    def has_more(self, offset: int, extent: Extent, *, read_committed: bool) -> bool:
        """Whether the consumer may read more now than the `extent` that was located for it."""
        whole = self.locate(offset, NO_LIMIT, read_committed=read_committed, minimum_one=True)
        ends_early = extent.size > 0 and offset < self.log.segments[-1].base_offset
        return whole.size > extent.size or ends_early

    def delete_records_before(self, offset: int) -> Offset:
        """Move the log's start up to `offset` (-1: the high watermark) and return where it is."""
        wanted = self.high_watermark if offset == -1 else offset
        if not 0 <= wanted <= self.high_watermark:
            raise BrokerError(ErrorCode.offset_out_of_range)
        self.log.delete_records_before(Offset(wanted))
        return self.log.log_start_offset


def _is_plain(config: TopicConfig) -> bool:
    """Whether nothing is asked of a batch but that it be appended: the case to be fast in."""
    return (
        config.flush_messages == TopicConfig().flush_messages
        and config.min_insync_replicas <= 1
        and config.compression_type == "producer"
        and config.message_timestamp_type == "CreateTime"
        and not config.compacts
        and config.message_timestamp_before_max_ms == NO_LIMIT
        and config.message_timestamp_after_max_ms == NO_LIMIT
    )
