"""The reads of one partition's log: slices of its segments, by offset, time or leader epoch.

`Log` extends this class with all that writes.
"""

from collections.abc import Sequence

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import LeaderEpoch
from barnabas.config.topic_config import TopicConfig
from barnabas.disk.disk import Disk
from barnabas.log.leader_epochs import EpochEnd, LeaderEpochs
from barnabas.log.segment.active_segment import LogEnd
from barnabas.log.segment.file_slice import NOTHING, FileSlice
from barnabas.log.segment.segment import Segment, TimestampOffset
from barnabas.log.segment.segments import Segments
from barnabas.log.segment.transaction_index import AbortedTransaction


class LogReader(LogEnd):
    """The records from `log_start_offset` up to `log_end_offset` (exclusive), to read."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: TopicConfig,
        segments: Sequence[Segment],
        epochs: LeaderEpochs,
        log_start_offset: int,
    ) -> None:
        """`segments` are in order, at least one; the last one knows its end."""
        super().__init__(directory, config, segments[-1], epochs.latest, log_start_offset)
        self.disk = disk
        self.epochs = epochs
        self._segments = Segments(disk, segments)

    def check_range(self, offset: int) -> None:
        """Raises BrokerError(offset_out_of_range) unless log start <= offset <= log end."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise BrokerError(
                ErrorCode.offset_out_of_range,
                f"{self.directory} holds {self.log_start_offset}..{self.log_end_offset}, "
                f"not {offset}",
            )

    def locate(
        self, offset: int, max_bytes: int, upto: int, *, minimum_one: bool = False
    ) -> FileSlice:
        """Return the slice of whole batches from the one that holds `offset`, ending before `upto`.

        It has at most `max_bytes`, unless `minimum_one` is set and the first batch is larger. It
        ends with its segment, so more may follow. Does not suspend, but may wait for the disk if
        the region was not read or written lately.

        Raises  BrokerError(offset_out_of_range) unless log start <= offset <= log end
        """
        self.check_range(offset)
        if offset >= upto or (max_bytes <= 0 and not minimum_one):
            return NOTHING
        active = self._active
        if offset >= active.base_offset:
            return active.locate(offset, max_bytes, upto, minimum_one) or NOTHING
        return self._segments.locate(offset, max_bytes, upto, minimum_one)

    def _segment_of(self, offset: int) -> Segment:
        return self._segments.holding(offset)

    def aborted_transactions(
        self, offset: int, upto: int, extent: FileSlice
    ) -> list[AbortedTransaction]:
        """The aborted transactions among what `locate` gave for `offset`, by first offset.

        Raises  BrokerError(corrupt_message), DiskFault
        """
        if offset > self.aborted_upto:
            return []
        return self._segments.aborted(offset, upto, extent)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record whose time is `timestamp` or later."""
        return self._segments.find_timestamp(timestamp, self.log_start_offset)

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The first record of the latest time in the log."""
        latest = max(segment.max_timestamp for segment in self._segments)
        return self.offset_for_timestamp(latest) if latest >= 0 else None

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> EpochEnd:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self._segments)
