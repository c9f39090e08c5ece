"""The ends of a log and of its active segment: what every append looks at and moves.

`Log` and `Segment` are made of these; here is only what the shortest way of a batch needs.
"""

from typing import TYPE_CHECKING, Final

from barnabas.base.disk import Buffer, DataFile
from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import LeaderEpoch, Offset
from barnabas.base.topic_config import TopicConfig
from barnabas.base.twins import use_compiled
from barnabas.wire.batch import stamp

if TYPE_CHECKING:
    from barnabas.log.segment import Segment

MAX_RELATIVE: Final = 2**31 - 1


class SegmentEnd:
    """How far a segment goes, and what decides whether the next batch still belongs to it."""

    __slots__ = (
        "_file",
        "_first_timestamp",
        "_index_interval",
        "_since_entry",
        "base_offset",
        "created_ms",
        "end_offset",
        "is_dirty",
        "is_full",
        "jitter_ms",
        "max_timestamp",
        "max_timestamp_offset",
        "size",
    )

    _first_timestamp: int | None

    def __init__(self, base_offset: int, index_interval: int, now_ms: int, jitter_ms: int) -> None:
        self.base_offset = self.end_offset = self.max_timestamp_offset = base_offset
        self.max_timestamp = -1
        self.created_ms = now_ms
        self.jitter_ms = jitter_ms
        self.size = 0
        self.is_full = self.is_dirty = False
        self._file: DataFile | None = None
        self._first_timestamp = None
        self._index_interval = index_interval
        self._since_entry = 0

    if TYPE_CHECKING:

        @property
        def file(self) -> DataFile: ...

        @property
        def first_timestamp(self) -> int: ...

        def _add_index_entries(self, last_offset: int, position: int) -> None: ...

    def should_roll(
        self, size: int, last_offset: int, max_timestamp: int, now_ms: int, config: TopicConfig
    ) -> bool:
        """Whether a batch of these properties belongs into a new segment."""
        if not self.size:
            return last_offset - self.base_offset > MAX_RELATIVE
        if (
            self.size + size > config.segment_bytes
            or self.is_full
            or last_offset - self.base_offset > MAX_RELATIVE
        ):
            return True
        first = self._first_timestamp
        if first is None:
            first = self.first_timestamp
        waited_ms = max_timestamp - first if first >= 0 else now_ms - self.created_ms
        return waited_ms > config.segment_ms - self.jitter_ms

    def append(self, batch: Buffer, last_offset: int, max_timestamp: int) -> None:
        """Write one batch at the end, in one system call."""
        (self._file or self.file).append(batch)
        self.note(len(batch), last_offset, max_timestamp)

    def note(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """Take the next `size` bytes of the file, one batch, into account and into the indexes."""
        position = self.size
        if not position:
            self._first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self._since_entry > self._index_interval:
            self._add_index_entries(last_offset, position)
        self._since_entry += size
        self.size = position + size
        self.end_offset = last_offset + 1
        self.is_dirty = True


class LogEnd:
    """Where a log begins and ends, in which epoch, and whether it can be written to."""

    def __init__(
        self,
        folder: str,
        config: TopicConfig,
        active: "Segment",
        epoch: int,
        log_start_offset: int,
    ) -> None:
        self.folder = folder
        self.config = config
        self.failure: DiskFault | None = None
        self.log_start_offset = Offset(log_start_offset)
        self.log_end_offset = Offset(active.end_offset)
        # Whether the medium does not know of the last time that the log was cut.
        self.is_unsettled = False
        self._active = active
        self._epoch = epoch

    if TYPE_CHECKING:

        def roll(self, now_ms: int) -> bool: ...

        def _settle_now(self) -> None: ...

        def _begin_epoch(self, epoch: LeaderEpoch, start_offset: int) -> None: ...

    def append_unsequenced(
        self,
        batch: memoryview,
        batch_length: int,
        count: int,
        max_timestamp: int,
        epoch: LeaderEpoch,
        now_ms: int,
    ) -> Offset:
        """`append` for a batch of no idempotent producer, by the few fields that matter.

        Returns the base offset that the batch got; the log ends `count` after it.
        """
        base_offset = self.log_end_offset
        if epoch < self._epoch:
            raise BrokerError(
                ErrorCode.fenced_leader_epoch, f"{self.folder} is in leader epoch {self._epoch}"
            )
        if self.failure is not None:
            raise self.failure
        if self.is_unsettled:
            self._settle_now()
        last_offset, active = base_offset + count - 1, self._active
        stamp(batch, base_offset, batch_length, epoch)
        try:
            if active.should_roll(len(batch), last_offset, max_timestamp, now_ms, self.config):
                self.roll(now_ms)
                active = self._active
            active.append(batch, last_offset, max_timestamp)
            if epoch != self._epoch:
                self._begin_epoch(epoch, base_offset)
        except DiskFault as fault:
            self.failure = fault
            raise
        self.log_end_offset = Offset(last_offset + 1)
        return base_offset


use_compiled(globals(), "barnabas.log._ends", "LogEnd", "SegmentEnd")
