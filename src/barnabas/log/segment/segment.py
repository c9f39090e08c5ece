"""One segment: a `.log` file of record batches back to back, with its two indexes.

The name of the files is the segment's base offset. Only the last segment of a log, the active
one, is appended to; the others rest with trimmed indexes until retention removes them.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from barnabas.base.errors import BrokerError
from barnabas.config.topic_config import TopicConfig
from barnabas.disk.disk import Buffer, DataFile, Disk
from barnabas.log.leader_epochs import LeaderEpochs
from barnabas.log.recovery.log_file_scan import refuse_old_format, valid_batches
from barnabas.log.segment.active_segment import MAX_RELATIVE, SegmentEnd
from barnabas.log.segment.file_slice import NOTHING, FileSlice
from barnabas.log.segment.index import OffsetIndex, Sizes, TimeIndex, file_size_of
from barnabas.log.segment.transaction_index import (
    AbortedTransaction,
    append_aborted,
    decode_aborted,
    truncate_aborted,
)
from barnabas.wire.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, read_header
from barnabas.wire.records.records import corrupt, read_records

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
SEGMENT_FILES: Final = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)

_HEAD: Final = Struct(">qi")  # base offset and length, which begin every batch
_HEAD_AND_DELTA: Final = Struct(">qi11xi")  # and the last offset delta
_MIN_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD
_HEADERS_AT_ONCE: Final = 8 * 1024  # bytes to read where headers are looked for


class TimestampOffset(NamedTuple):
    """A record's time and place, and the leader epoch that wrote it."""

    timestamp: int
    offset: int
    leader_epoch: int


class Segment(SegmentEnd):
    """Batches from `base_offset` up to `end_offset` (exclusive). Not thread-safe.

    After a DiskFault from `append` the segment holds what it held before.
    """

    offset_index: OffsetIndex
    time_index: TimeIndex

    __slots__ = (
        "_aborted",
        "_disk",
        "_reserve",
        "_suffix",
        "directory",
        "lacks_aborted",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        config: TopicConfig,
        now_ms: int,
        *,
        jitter_ms: int = 0,
        suffix: str = "",
        sizes: Sizes | None = None,
    ) -> None:
        """The segment as its files are; `end_offset` is for the log to find out or to know.

        While it is no part of the log yet, a `suffix` ends the names of its files. `sizes` are
        those of all files in the directory, if they are known.
        """
        super().__init__(base_offset, config.index_interval_bytes, now_ms, jitter_ms)
        self._disk = disk
        self._suffix = suffix
        self.directory = directory
        self._reserve = 0
        # True if its transaction index is lost; its markers may restore the entries.
        self.lacks_aborted = False
        # The entries of the transaction index; None until they are read from the file.
        self._aborted: list[AbortedTransaction] | None = None
        if not file_size_of(disk, self.path(TRANSACTION_INDEX), sizes):
            self._aborted = []
        self.size = file_size_of(disk, self.path(LOG), sizes) or 0
        index_bytes = config.segment_index_bytes
        path = self.path(OFFSET_INDEX)
        self.offset_index = OffsetIndex(disk, path, base_offset, index_bytes, sizes)
        path = self.path(TIME_INDEX)
        self.time_index = TimeIndex(disk, path, base_offset, index_bytes, sizes)
        self.is_index_dirty = False

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{self.base_offset:020}{suffix}{self._suffix}"

    @property
    def file(self) -> DataFile:
        if self._file is None:
            self._file = self._disk.open(self.path(LOG))
            if self._reserve:
                self._file.truncate(self.size)
                self._disk.resize(self.path(LOG), self._reserve)
        return self._file

    def rename(self, suffix: str) -> None:
        """Rename its files to end with `suffix`; readers that have them open read on."""
        before = [self.path(kind) for kind in SEGMENT_FILES]
        self._suffix = suffix
        for path, kind in zip(before, SEGMENT_FILES, strict=True):
            if self._disk.status(path):
                self._disk.rename(path, self.path(kind))
        self._on_names()

    def on_renamed(self, directory: str) -> None:
        """The directory has another name."""
        self.directory = directory
        self.is_dirty = self.is_index_dirty = True  # a flush under way may have missed its files
        self._on_names()

    def _on_names(self) -> None:
        self._file = None  # a truncation may have to replace the file, by the name it was opened by
        self.offset_index.path = self.path(OFFSET_INDEX)
        self.time_index.path = self.path(TIME_INDEX)

    def create(self, reserve: int = 0) -> None:
        """Make the files of a new, active segment.

        With `reserve` the file is so long until the segment rests, zeros behind what the open
        file knows as its end; they are sparse, as Kafka's.
        """
        self._file = self._disk.open(self.path(LOG), create=True)
        if reserve:
            self._reserve = reserve
            self._disk.resize(self.path(LOG), reserve)
        self.offset_index.preallocate()
        self.time_index.preallocate()
        self.is_dirty = self.is_index_dirty = True

    def check(self) -> bool:
        """True if the indexes can be trusted; reads the largest timestamp from them if so."""
        sane = self.offset_index.is_sane(self.size) and self.time_index.is_sane()
        if sane:
            self.max_timestamp, self.max_timestamp_offset = self.time_index.last
            self.is_full = self.offset_index.is_full or self.time_index.is_full
        self.offset_index.close()
        self.time_index.close()
        return sane

    # Writing

    def append(self, batches: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Write batches that have offsets at the end, in one system call."""
        self.file.append(batches)
        for header in headers:
            self.note(header.size, header.last_offset, header.max_timestamp)

    def note_aborted(self, entry: AbortedTransaction) -> None:
        """Add a transaction whose marker lies here to the transaction index."""
        append_aborted(self._disk, self.path(TRANSACTION_INDEX), entry)
        if self._aborted is not None:
            self._aborted.append(entry)
        self.is_dirty = True

    @property
    def aborted(self) -> Sequence[AbortedTransaction]:
        """The aborted transactions whose markers lie here, in the order of these.

        Raises  BrokerError(corrupt_message), DiskFault
        """
        if self._aborted is None:
            data = self._disk.load(self.path(TRANSACTION_INDEX))
            self._aborted = decode_aborted(data or b"")
        return self._aborted

    def forget_aborted(self) -> None:
        """Read the transaction index from its file when it is needed next."""
        self._aborted = None

    def take_unsynced(self, *, with_indexes: bool) -> list[str]:
        """Return the files that changed since the last call; the caller must fsync them."""
        suffixes: tuple[str, ...] = ()
        if self.is_dirty:
            suffixes += (LOG, SNAPSHOT, TRANSACTION_INDEX)
            self.is_dirty = False
        if self.is_index_dirty and with_indexes:
            suffixes += (OFFSET_INDEX, TIME_INDEX)
            self.is_index_dirty = False
        return [self.path(suffix) for suffix in suffixes]

    def rest(self) -> None:
        """Become inactive, or be closed: the indexes are completed, and all files trimmed."""
        if self._reserve:
            self.file.truncate(self.size)
            self._reserve = 0
        self.is_index_dirty |= self.time_index.complete(
            self.max_timestamp, self.max_timestamp_offset
        )
        self.offset_index.trim()

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Remove the batch that holds `offset` and all after it."""
        position = self._position_of(offset)
        if position is None:  # compaction may have removed what was there
            self.end_offset = min(offset, self.end_offset)
            self._cursors.clear()
            return
        cut = self._header_at(position).base_offset
        self.file.truncate(position)
        # Later writes go to another open file: of the old one, which extents
        # may still refer to, nothing below its size is ever overwritten.
        self._file = None
        self.size = position
        self.end_offset = min(offset, cut)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        truncate_aborted(self._disk, self.path(TRANSACTION_INDEX), offset)
        self.forget_aborted()
        self._cursors.clear()
        self.is_full = self.offset_index.is_full or self.time_index.is_full
        self.is_dirty = self.is_index_dirty = True
        self._since_entry = 0
        if not position:
            self.created_ms, self._first_timestamp = now_ms, None
        self._find_max_timestamp()

    def _find_max_timestamp(self) -> None:
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last
        for _, header in self.headers(self.offset_index.position_for(self.max_timestamp_offset)):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.max_timestamp_offset = header.last_offset

    def recover(self, epochs: LeaderEpochs, limit: int | None = None) -> int:
        """Keep the valid batches from the start on, and rebuild the indexes.

        None may reach beyond `limit`, where another segment begins. Returns how many bytes are
        left behind them, which `cut` removes. Adds the epochs of the batches to `epochs`.

        Raises  ConfigError if these are messages of a format that is not read
        """
        limit = limit or self.base_offset + MAX_RELATIVE + 1
        found = self.file.size
        self.size, self.end_offset = 0, self.base_offset
        self.max_timestamp, self.max_timestamp_offset = -1, self.base_offset
        self._since_entry, self.is_full = 0, False
        # An entry is added after so many bytes at least, and at the end one more.
        most_entries = found // max(self._index_interval, HEADER_SIZE) + 2
        self.offset_index.rebuild(most_entries)
        self.time_index.rebuild(most_entries)
        self._disk.remove(self.path(TRANSACTION_INDEX))
        self._aborted = []
        for header in valid_batches(self.file, self.base_offset, limit):
            if header.leader_epoch > epochs.latest:
                epochs.assign(header.leader_epoch, header.base_offset)
            self.lacks_aborted |= header.is_control
            self.note(header.size, header.last_offset, header.max_timestamp)
        refuse_old_format(self.file, self.size, self.path(LOG))
        self.rest()
        self.is_dirty = self.is_index_dirty = True
        return found - self.size

    def cut(self) -> None:
        """Remove the bytes behind the valid batches, as `recover` found them."""
        self.file.truncate(self.size)

    def find_end_offset(self) -> bool:
        """Read the last batches to find the segment's end; return whether they are whole."""
        self.end_offset = self.base_offset
        try:
            for _, header in self.headers(self.offset_index.position_upto(self.size)):
                self.end_offset = header.next_offset
        except BrokerError:
            return False
        return True

    @property
    def first_timestamp(self) -> int:
        """The latest time in the first batch; there must be one."""
        if self._first_timestamp is None:
            self._first_timestamp = self._header_at(0).max_timestamp
        return self._first_timestamp

    @property
    def largest_timestamp(self) -> int:
        """The latest record's time, or the file's if no record has one."""
        if self.max_timestamp >= 0:
            return self.max_timestamp
        return self.modified_ms

    @property
    def modified_ms(self) -> int:
        """The time when the file was last written to."""
        status = self._disk.status(self.path(LOG))
        return status.modified_ms if status else self.created_ms

    # Reading

    def locate(self, offset: int, max_bytes: int, upto: int, minimum_one: bool) -> FileSlice | None:
        """Whole batches from the one that holds `offset`, ending before `upto`.

        At most `max_bytes` of them, but at least the first if `minimum_one`. None if nothing at
        or beyond `offset` is left in this segment.
        """
        start = self._position_of(offset)
        if start is None or start >= self.size:
            return None
        end = self.size
        if upto < self.end_offset:
            bound = self._position_of(upto)
            end = end if bound is None else bound
        if end - start > max_bytes:
            end = self._boundary(start, start + max_bytes, minimum_one)
        elif end == self.size:
            self._remember(self.end_offset, end)
        return FileSlice(self._file or self.file, start, end - start) if end > start else NOTHING

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from `position`, where one begins, to the end.

        Raises  BrokerError(corrupt_message) where there is none: the disk has lost bytes
        """
        chunk, chunk_at = b"", position
        while position < self.size:
            if position - chunk_at + HEADER_SIZE > len(chunk):
                chunk = self.file.read(position, _HEADERS_AT_ONCE)
                chunk_at = position
            header = read_header(chunk, position - chunk_at)
            size = header.size
            if header.magic != MAGIC or not HEADER_SIZE <= size <= self.size - position:
                raise self._no_batch(position)
            yield position, header
            position += size

    def headers_for(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from the one that holds `offset` to the end."""
        for position, header in self.headers(self.offset_index.position_for(offset)):
            if header.next_offset > offset:
                yield position, header

    def is_read_from(self, extent: FileSlice) -> bool:
        return extent.file is self._file

    def offset_bound(self, position: int) -> int:
        """An offset at or beyond the end of the batches before `position`, as the index has it."""
        after = self.offset_index.offset_from(position)
        return self.end_offset if after is None else after

    def find_timestamp(self, timestamp: int, from_offset: int) -> TimestampOffset | None:
        """The first record at or after `from_offset` whose time is `timestamp` or later."""
        start = max(self.time_index.offset_for(timestamp), from_offset)
        for position, header in self.headers(self.offset_index.position_for(start)):
            if header.max_timestamp >= timestamp and header.next_offset > from_offset:
                for record in read_records(self.file.read(position, header.size)):
                    if record.timestamp >= timestamp and record.offset >= from_offset:
                        return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
        return None

    def close(self) -> None:
        """Close descriptors and mappings; the next use opens them again."""
        self.offset_index.close()
        self.time_index.close()
        self._file = None

    def _position_of(self, offset: int) -> int | None:
        """Where the first batch begins that ends beyond `offset`; None if there is none."""
        position = self._cursors.get(offset)
        if position is not None:
            return position
        for position, _ in self.headers_for(offset):
            self._remember(offset, position)
            return position
        return None

    def _boundary(self, start: int, limit: int, minimum_one: bool) -> int:
        """The last end of a batch at or before `limit`, or if `minimum_one` that of the first."""
        position = self.offset_index.position_upto(limit)
        if position <= start:
            position = self._end_at(start)
            if position >= limit:
                return position if minimum_one or position == limit else start
        chunk, chunk_at = b"", position
        while position < self.size:
            if position - chunk_at + LOG_OVERHEAD > len(chunk):
                chunk, chunk_at = self.file.read(position, _HEADERS_AT_ONCE), position
            base_offset, length = _HEAD.unpack_from(chunk, position - chunk_at)
            if length < _MIN_LENGTH:
                raise self._no_batch(position)
            if position + LOG_OVERHEAD + length > limit:
                self._remember(base_offset, position)
                return position
            position += LOG_OVERHEAD + length
        return position

    def _end_at(self, position: int) -> int:
        """Where the batch ends that begins at `position`; the next reader may begin there."""
        head = (self._file or self.file).read(position, _HEAD_AND_DELTA.size)
        base_offset, length, last_offset_delta = _HEAD_AND_DELTA.unpack(head)
        if length < _MIN_LENGTH:
            raise self._no_batch(position)
        end: int = position + LOG_OVERHEAD + length
        self._remember(base_offset + last_offset_delta + 1, end)
        return end

    def _no_batch(self, position: int) -> BrokerError:
        return corrupt(f"{self.path(LOG)} holds no whole batch at byte {position}")

    def _header_at(self, position: int) -> BatchHeader:
        return read_header(self.file.read(position, HEADER_SIZE))
