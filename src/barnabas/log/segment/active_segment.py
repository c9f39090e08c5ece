"""The ends of a log and of its active segment: what every append looks at and moves.

`Log` and `Segment` are made of these; here is only what the shortest way of a batch needs.
"""

from typing import TYPE_CHECKING, Final

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import LeaderEpoch, Offset
from barnabas.base.twins import use_compiled
from barnabas.config.topic_config import TopicConfig
from barnabas.disk.disk import Buffer, DataFile
from barnabas.log.segment.file_slice import Extent
from barnabas.log.segment.index_end import IndexEnd
from barnabas.wire.records.batch import stamp
from barnabas.wire.records.batch_walk import whole_batches

if TYPE_CHECKING:
    from barnabas.log.segment.segment import Segment

MAX_RELATIVE: Final = 2**31 - 1
# How many positions to remember: as many consumers can read on without a lookup.
MAX_CURSORS: Final = 64


class SegmentEnd:
    """How far a segment goes, and what decides whether the next batch still belongs to it."""

    __slots__ = (
        "_cursors",
        "_file",
        "_first_timestamp",
        "_index_interval",
        "_since_entry",
        "base_offset",
        "created_ms",
        "end_offset",
        "is_dirty",
        "is_full",
        "is_index_dirty",
        "jitter_ms",
        "max_timestamp",
        "max_timestamp_offset",
        "offset_index",
        "size",
        "time_index",
    )

    _first_timestamp: int | None
    offset_index: IndexEnd
    time_index: IndexEnd

    def __init__(self, base_offset: int, index_interval: int, now_ms: int, jitter_ms: int) -> None:
        self.base_offset = self.end_offset = self.max_timestamp_offset = base_offset
        self.max_timestamp = -1
        self.created_ms = now_ms
        self.jitter_ms = jitter_ms
        self.size = 0
        self.is_full = self.is_dirty = self.is_index_dirty = False
        self._file: DataFile | None = None
        self._first_timestamp = None
        self._index_interval = index_interval
        self._since_entry = 0
        self._cursors: dict[int, int] = {}  # by offset, where those who read on will begin

    if TYPE_CHECKING:

        @property
        def file(self) -> DataFile: ...

        @property
        def first_timestamp(self) -> int: ...

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

    def _add_index_entries(self, last_offset: int, position: int) -> None:
        is_full = self.offset_index.add_offset(last_offset, position)
        is_full |= self.time_index.add_time(self.max_timestamp, self.max_timestamp_offset)
        self.is_full = is_full
        self.is_index_dirty = True
        self._since_entry = 0

    def read_on(self, offset: int, max_bytes: int, upto: int) -> memoryview | None:
        """The bytes that `locate` would find, if they are at hand for one who reads on.

        None if that is not known: whoever asks has to locate them.
        """
        start = self._cursors.get(offset)
        if start is None or max_bytes <= 0:
            return None
        left = self.size - start
        data = (self._file or self.file).warm(start, min(left, max_bytes)) if left > 0 else None
        if data is None:
            return None
        if left <= max_bytes and upto >= self.end_offset:
            self._remember(self.end_offset, self.size)
            return data
        found = whole_batches(data, upto)
        if not found or not found[0]:
            return None
        size, next_offset = found
        self._remember(next_offset, start + size)
        return data if size == len(data) else data[:size]

    def _remember(self, offset: int, position: int) -> None:
        self._cursors[offset] = position
        if len(self._cursors) > MAX_CURSORS:
            del self._cursors[next(iter(self._cursors))]  # the one that waits for the longest time


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
        # Whether the medium does not know of the last time that the log was cut, or a leader's
        # epoch is not written down yet: `_settle_now` comes before the next append.
        self.is_unsettled = False
        self._active = active
        self._epoch = epoch

    if TYPE_CHECKING:

        def roll(self, now_ms: int) -> bool: ...

        def _settle_now(self) -> None: ...

        def _begin_epoch(self, epoch: LeaderEpoch, start_offset: int) -> None: ...

        def locate(
            self, offset: Offset, max_bytes: int, upto: Offset, *, minimum_one: bool = False
        ) -> Extent: ...

        def _segment_of(self, offset: int) -> Segment: ...

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

    def read_warm(self, offset: Offset, max_bytes: int, upto: Offset) -> memoryview | None:
        """What `locate` finds with `minimum_one`, if there is something and no need to wait for it.

        None if it is not in the page cache. Raises as `locate` does.
        """
        if self.log_start_offset <= offset < min(upto, self.log_end_offset):
            active = self._active
            segment = active if offset >= active.base_offset else self._segment_of(offset)
            data = segment.read_on(offset, max_bytes, upto)
            if data is not None:
                return data
        return self.locate(offset, max_bytes, upto, minimum_one=True).warm()


use_compiled(globals(), "barnabas.log.segment._active_segment", "LogEnd", "SegmentEnd")
