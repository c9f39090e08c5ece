"""Checks of one segment: its batches, and its indexes against them."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Final

from barnabas.cli.log.dump_result import Damage
from barnabas.cli.log.segment_dump import SegmentBatch, read_batches
from barnabas.cli.log.verify_report import VerifyReport
from barnabas.log.segment.index import OffsetIndex, TimeIndex
from barnabas.wire.records.batch import BatchHeader, check_crc
from barnabas.wire.records.unreadable_batches import judge_stored

REBUILT: Final = "to rebuild it, remove it while the broker is stopped"
_CUT: Final = "recovery truncates the log here"
_LOST: Final = "consumers cannot read this batch"
_UNORDERED: Final = "lookups by offset or time may miss records"


@dataclass(slots=True)
class Scanned:
    """The batches of a segment; each list has one item per batch."""

    base_offset: int
    next_offset: int
    epoch: int  # of the last batch, or of the one before this segment
    positions: list[int] = field(default_factory=list)
    base_offsets: list[int] = field(default_factory=list)
    last_offsets: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    epochs: list[tuple[int, int, int]] = field(default_factory=list)  # with first and last offset
    is_whole: bool = True

    def note(self, position: int, header: BatchHeader) -> None:
        self.positions.append(position)
        self.base_offsets.append(header.base_offset)
        self.last_offsets.append(header.last_offset)
        self.timestamps.append(header.max_timestamp)
        first_offset = header.base_offset
        if self.epochs and self.epochs[-1][0] == header.leader_epoch:
            first_offset = self.epochs.pop()[1]
        self.epochs.append((header.leader_epoch, first_offset, header.last_offset))
        self.epoch = max(self.epoch, header.leader_epoch)
        self.next_offset = max(self.next_offset, header.next_offset)


def scan_segment(
    path: Path, base_offset: int, epoch: int, *, is_last: bool, verified: VerifyReport
) -> Scanned:
    """Read every batch and report its problems.

    A batch that a broker is appending to the last segment is skipped.
    """
    scanned = Scanned(base_offset, base_offset, epoch)
    size = path.stat().st_size
    with path.open("rb") as file:
        for found in read_batches(file, size):
            if isinstance(found, SegmentBatch):
                _check_batch(path, found, scanned, verified)
                scanned.note(found.position, found.header)
                verified.batches += 1
                verified.records += found.header.record_count
                verified.advance(found.header.size)
            elif isinstance(found, Damage):
                scanned.is_whole = False
                if not (is_last and path.stat().st_size > size):
                    verified.report(path, found.position, found.message, _CUT)
            elif not is_last:
                position = found.fields["position"]
                assert isinstance(position, int)
                what = "zeros after the last batch"
                verified.report(path, position, what, "the segment was not trimmed on roll")
    verified.segments += 1
    verified.size += size
    return scanned


def _check_batch(path: Path, batch: SegmentBatch, scanned: Scanned, verified: VerifyReport) -> None:
    position, header, data = batch
    if not check_crc(data):
        what = f"wrong CRC of the batch at offset {header.base_offset}"
        verified.report(path, position, what, _LOST)
    elif verified.deep:
        for what, meaning in _wrong_inside(header, data):
            verified.report(path, position, what, meaning)
    if header.base_offset < scanned.next_offset or header.last_offset_delta < 0:
        what = f"base offset {header.base_offset}, expected {scanned.next_offset} or more"
        verified.report(path, position, what, _CUT)
    if header.leader_epoch < scanned.epoch:
        what = f"leader epoch {header.leader_epoch} after {scanned.epoch}"
        verified.report(path, position, what, "followers may truncate to the wrong offset")


def _wrong_inside(header: BatchHeader, data: bytes) -> Iterator[tuple[str, str]]:
    """The fault of the records, and its meaning."""
    why, latest = judge_stored(memoryview(data), header)
    if why is not None:
        yield f"{why}, of the batch at offset {header.base_offset}", _LOST
    elif header.record_count and not header.log_append_time and latest != header.max_timestamp:
        what = f"greatest record timestamp is {latest}, not {header.max_timestamp}"
        yield what, "retention and lookups by time are misled"


# Indexes


def read_entries(path: Path, format: Struct, verified: VerifyReport) -> list[tuple[int, ...]]:
    """The entries before the preallocated zeros of an active index."""
    data = path.read_bytes()
    if extra := len(data) % format.size:
        what = f"truncated entry of {format.size} bytes"
        verified.report(path, len(data) - extra, what, REBUILT)
    used = -(-len(data.rstrip(b"\0")) // format.size) * format.size
    return list(format.iter_unpack(data[: min(used, len(data) - extra)]))


def check_offset_index(
    path: Path, entries: list[tuple[int, ...]], scanned: Scanned, verified: VerifyReport
) -> None:
    """Entries must increase, and each point to a batch that contains its offset."""
    previous = (-1, -1)
    for number, (relative, log_position) in enumerate(entries):
        at, offset = number * OffsetIndex.FORMAT.size, scanned.base_offset + relative
        if relative <= previous[0] or log_position <= previous[1]:
            verified.report(path, at, "offset and position do not increase", REBUILT)
        elif not _leads_to_batch(scanned, offset, log_position):
            what = f"no batch with offset {offset} at byte {log_position} of the segment"
            verified.report(path, at, what, REBUILT)
        previous = relative, log_position


def _leads_to_batch(scanned: Scanned, offset: int, position: int) -> bool:
    number = bisect_left(scanned.positions, position)
    if number == len(scanned.positions):
        return not scanned.is_whole and offset >= scanned.next_offset
    begins_here = scanned.positions[number] == position
    return begins_here and scanned.base_offsets[number] <= offset < scanned.next_offset


def check_time_index(
    path: Path,
    entries: list[tuple[int, ...]],
    scanned: Scanned,
    *,
    is_complete: bool,
    verified: VerifyReport,
) -> None:
    """Timestamps must increase, and each be the maximum up to its offset."""
    previous, latest, number = (-1, 0), -1, 0
    for entry, (timestamp, relative) in enumerate(entries):
        at, offset = entry * TimeIndex.FORMAT.size, scanned.base_offset + relative
        while number < len(scanned.positions) and scanned.base_offsets[number] <= offset:
            latest = max(latest, scanned.timestamps[number])
            number += 1
        if timestamp <= previous[0] or relative < previous[1]:
            verified.report(path, at, "timestamp and offset do not increase", _UNORDERED)
        elif offset >= scanned.next_offset and scanned.is_whole:
            what = f"offset {offset} is after the segment's end at {scanned.next_offset}"
            verified.report(path, at, what, REBUILT)
        elif timestamp != latest and scanned.is_whole:
            what = f"maximum timestamp up to offset {offset} is {latest}, not {timestamp}"
            verified.report(path, at, what, _UNORDERED)
        previous = timestamp, relative
    largest = max(scanned.timestamps, default=-1)
    if is_complete and scanned.is_whole and largest > previous[0]:
        what = f"ends at timestamp {previous[0]}, but the segment at {largest}"
        verified.report(path, None, what, "retention and lookups by time consider it older")
