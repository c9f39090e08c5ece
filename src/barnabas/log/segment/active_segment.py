"""The ends of a log and of its active segment: the state that every append reads and moves.

`Log` and `Segment` extend these two classes. Compiled as it is: `active_segment.pxd` has the types.
"""

from typing import TYPE_CHECKING, Any, Final

from barnabas.base import buffers
from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import LeaderEpoch, Offset
from barnabas.base.laws import law
from barnabas.config.topic_config import TopicConfig
from barnabas.disk import open_file
from barnabas.disk.disk import DataFile
from barnabas.log.segment.file_slice import FileSlice
from barnabas.log.segment.index_end import IndexEnd
from barnabas.wire.produce.plain_batch import PlainBatch
from barnabas.wire.records import batch_walk

if TYPE_CHECKING:
    from barnabas.log.producers.producer_state import ProducerStates
    from barnabas.log.segment.segment import Segment

MAX_RELATIVE: Final = 2**31 - 1
MOST_TOGETHER: Final = 32  # batches in one write
# The number of positions to remember: so many consumers can read on without a lookup.
MAX_CURSORS: Final = 64

_MAX_RELATIVE = MAX_RELATIVE
_MOST_TOGETHER = MOST_TOGETHER
_MAX_CURSORS = MAX_CURSORS
_LAST_OFFSET_DELTA = 23


class SegmentEnd:
    """The end of a segment, and the limits that decide whether the next batch fits."""

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
        """Return whether a batch of these properties belongs into a new segment."""
        return self.exceeds(
            size, last_offset, max_timestamp, now_ms, config.segment_bytes, config.segment_ms
        )

    def exceeds(
        self,
        size: int,
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
        segment_bytes: int,
        segment_ms: int,
    ) -> bool:
        """`should_roll`, with the two limits of the configuration."""
        if not self.size:
            return last_offset - self.base_offset > _MAX_RELATIVE
        if (
            self.is_full
            or last_offset - self.base_offset > _MAX_RELATIVE
            or self.size + size > segment_bytes
        ):
            return True
        first = self.first_timestamp if self._first_timestamp is None else self._first_timestamp
        if first < 0:
            waited_ms = now_ms - self.created_ms
        elif max_timestamp > first:
            waited_ms = max_timestamp - first
        else:
            waited_ms = -1  # an earlier time waits for nothing; the difference might be too large
        return waited_ms > segment_ms - self.jitter_ms

    def fitting(
        self,
        batches: list[PlainBatch],
        offset: int,
        now_ms: int,
        segment_bytes: int,
        segment_ms: int,
    ) -> int:
        """Return how many of the batches fit here with one write; the first does.

        None follows a batch that gets the last index entry there is room for.
        """
        if not self.size:
            return 1  # its time decides about those behind it
        size = 0
        room = -1
        since_entry = self._since_entry
        count = min(len(batches), _MOST_TOGETHER)
        for number in range(count):
            batch = batches[number]
            size += batch.size
            offset += batch.record_count
            if number and self.exceeds(
                size, offset - 1, batch.max_timestamp, now_ms, segment_bytes, segment_ms
            ):
                return number
            if since_entry > self._index_interval:
                room = (self._room() if room < 0 else room) - 1
                if room <= 0:
                    return number + 1
                since_entry = 0
            since_entry += batch.size
        return count

    def _room(self) -> int:
        """The number of batches that can get index entries until the segment is full."""
        offsets = self.offset_index.max_entries - self.offset_index.entries
        times = self.time_index.max_entries - 1 - self.time_index.entries
        return offsets if offsets < times else times

    def append_batches(self, batches: list[PlainBatch], offset: int) -> None:
        """Write batches at the end, in one system call; the first record gets `offset`."""
        file = self.file if self._file is None else self._file
        size = 0
        for batch in batches:
            size += batch.size
        if isinstance(file, open_file.OpenFile):
            opened = file
            opened.append_slices(batches, size)
        else:
            file.append(_joined(batches))
        for batch in batches:
            offset += batch.record_count
            self.note(batch.size, offset - 1, batch.max_timestamp)

    def note(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """Move the end over the next `size` bytes of the file, one batch, and index it if due."""
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
        """The bytes that `locate` would find, if a reader was here before and they are cached.

        None otherwise: the caller has to locate them.
        """
        remembered = self._cursors.get(offset)
        if remembered is None or max_bytes <= 0:
            return None
        start = remembered
        left = self.size - start
        if left <= 0:
            return None
        file = self.file if self._file is None else self._file
        data = _warm(file, start, left if left < max_bytes else max_bytes)
        if data is None:
            return None
        if left <= max_bytes and upto >= self.end_offset:
            self._remember(self.end_offset, self.size)
            return data
        size, next_offset = batch_walk.whole_batches(data, upto)
        if size <= 0:
            return None
        self._remember(next_offset, start + size)
        return data if size == len(data) else data[:size]

    def _remember(self, offset: int, position: int) -> None:
        self._cursors[offset] = position
        if len(self._cursors) > _MAX_CURSORS:
            del self._cursors[next(iter(self._cursors))]  # the oldest


def _warm(file: DataFile, position: int, size: int) -> memoryview | None:
    if isinstance(file, open_file.OpenFile):
        opened = file
        return opened.warm_in_look(position, size)
    return file.warm(position, size)


def _joined(batches: list[PlainBatch]) -> bytes:
    return b"".join([each.view[each.at : each.at + each.size] for each in batches])


class LogEnd:
    """The start and the end of a log, its leader epoch, and whether it can be written to."""

    producers: "ProducerStates"

    def __init__(
        self,
        directory: str,
        config: TopicConfig,
        active: "Segment",
        epoch: int,
        log_start_offset: int,
    ) -> None:
        self.directory = directory
        self.config = config
        self.failure: DiskFault | None = None
        self.log_start_offset = Offset(log_start_offset)
        self.log_end_offset = Offset(active.end_offset)
        # The last marker of an aborted transaction: reads from beyond it need no list of them.
        self.aborted_upto = Offset(-1)
        # True if a truncation is not on disk yet, or a leader's epoch is not written yet:
        # `_settle_now` comes before the next append.
        self.is_unsettled = False
        self._active = active
        self._epoch = epoch

    if TYPE_CHECKING:

        def roll(self, now_ms: int) -> bool: ...

        def _settle_now(self) -> None: ...

        def _begin_epoch(self, epoch: LeaderEpoch, start_offset: int) -> None: ...

        def locate(
            self, offset: int, max_bytes: int, upto: int, *, minimum_one: bool = False
        ) -> FileSlice: ...

        def _segment_of(self, offset: int) -> Segment: ...

    def append_batches(self, batches: list[PlainBatch], epoch: LeaderEpoch, now_ms: int) -> Offset:
        """Append the first of these batches, and those behind it that fit the same write.

        Base offset and leader epoch are written into the batches. Return the base offset of the
        first; the log ends behind the last that was appended. Does not suspend.

        Keeps   LOG-1, LOG-2
        Raises  BrokerError(fenced_leader_epoch), log and batches unchanged, for a past leader
                DiskFault, nothing appended, and `failure` is set
        """
        base_offset = self.log_end_offset
        if epoch < self._epoch:
            raise BrokerError(
                ErrorCode.fenced_leader_epoch, f"{self.directory} is in leader epoch {self._epoch}"
            )
        if self.failure is not None:
            raise self.failure
        if self.is_unsettled:
            self._settle_now()
        try:
            fitting = self._fitting(batches, now_ms)
            end: Offset = self._stamp(fitting, epoch)
            self._active.append_batches(fitting, base_offset)
            if epoch != self._epoch:
                self._begin_epoch(epoch, base_offset)
        except DiskFault as fault:
            self.failure = fault
            for batch in batches:
                buffers.put_long(batch.view, batch.at, 0)
            raise
        self.log_end_offset = end
        return base_offset

    def _fitting(self, batches: list[PlainBatch], now_ms: int) -> list[PlainBatch]:
        """The batches that go into the active segment, which is a new one if the first needs it."""
        first = batches[0]
        end = self.log_end_offset
        last_offset = end + first.record_count - 1
        active = self._active
        config = self.config
        segment_bytes = config.segment_bytes
        segment_ms = config.segment_ms
        if active.exceeds(
            first.size, last_offset, first.max_timestamp, now_ms, segment_bytes, segment_ms
        ):
            self.roll(now_ms)
            active = self._active
        if len(batches) == 1:
            return batches
        count = active.fitting(batches, end, now_ms, segment_bytes, segment_ms)
        return batches if count == len(batches) else batches[:count]

    def _stamp(self, batches: list[PlainBatch], epoch: int) -> Any:
        """Write offsets and epoch into the batches; return the offset behind them. Keeps LOG-1."""
        offset: int = self.log_end_offset
        for batch in batches:
            view = batch.view
            at = batch.at
            if buffers.int_at(view, at + _LAST_OFFSET_DELTA) != batch.record_count - 1:
                facts = {"log": self.directory, "offset": offset, "records": batch.record_count}
                law(False, "LOG-1 offsets given are dense", **facts)
            buffers.put_long(view, at, offset)
            buffers.put_int(view, at + 8, batch.length)
            buffers.put_int(view, at + 12, epoch)
            offset += batch.record_count
        return offset

    def read_warm(self, offset: int, max_bytes: int, upto: int) -> memoryview | None:
        """The bytes that `locate` finds with `minimum_one`, if they are in the page cache.

        None if they are not. Raises as `locate` does.
        """
        if self.log_start_offset <= offset < upto and offset < self.log_end_offset:
            active = self._active
            if offset >= active.base_offset:
                data = active.read_on(offset, max_bytes, upto)
            else:
                data = self._segment_of(offset).read_on(offset, max_bytes, upto)
            if data is not None:
                return data
        return self.locate(offset, max_bytes, upto, minimum_one=True).warm()
