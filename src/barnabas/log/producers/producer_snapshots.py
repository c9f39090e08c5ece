"""The `.snapshot` files of one partition: its producers at an offset, to replay little."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from barnabas.disk.disk import Disk
from barnabas.log.producers.producer_snapshot import CorruptSnapshot
from barnabas.log.producers.producer_state import CompletedTransaction, ProducerStates
from barnabas.log.segment.segments import Segments
from barnabas.wire.records.batch import BatchHeader
from barnabas.wire.records.records import ControlType, read_marker

SUFFIX = ".snapshot"


def snapshot_path(folder: str, offset: int) -> str:
    return f"{folder}/{offset:020}{SUFFIX}"


def take_snapshot(disk: Disk, folder: str, producers: ProducerStates, offset: int) -> None:
    """Write what `producers` know up to `offset`. Not yet on the medium: its CRC tells if torn."""
    disk.replace(snapshot_path(folder, offset), producers.to_snapshot(), sync=False)


def take_last_snapshot(
    disk: Disk, folder: str, producers: ProducerStates, start_offset: int, end_offset: int
) -> None:
    """For a clean stop: that of the log's end, unless there is nothing new to tell."""
    known_upto = snapshot_offsets(disk, folder)[-1:] or [start_offset]
    if end_offset > known_upto[0]:
        take_snapshot(disk, folder, producers, end_offset)


def snapshot_offsets(disk: Disk, folder: str) -> list[int]:
    """The offsets that there are snapshots for, rising."""
    names = (name.removesuffix(SUFFIX) for name in disk.list(folder) if name.endswith(SUFFIX))
    return [int(name) for name in names if name.isdecimal()]


def remove_snapshots(disk: Disk, folder: str) -> None:
    """Nothing of the log is left that they could go with."""
    for offset in snapshot_offsets(disk, folder):
        disk.remove(snapshot_path(folder, offset))


def restore(
    disk: Disk,
    folder: str,
    producers: ProducerStates,
    end_offset: int,
    now_ms: int,
    segments: Segments,
) -> None:
    """Make `producers` know exactly the batches of the log, which ends at `end_offset`.

    Snapshots beyond the end and those that cannot be trusted are removed. Transaction indexes that
    were lost are written again: to know what a marker decides takes all that came before it.
    """
    lacking = [segment for segment in segments if segment.lacks_aborted]
    upto = min([end_offset, *(segment.base_offset for segment in lacking)])
    from_offset = _load_newest(disk, folder, producers, upto, end_offset, now_ms)
    if from_offset < end_offset:
        note = partial(segments.note_aborted, lacking_only=True)
        for header, load in segments.produced(from_offset):
            replay(producers, header, header.base_offset, load, note)
    for segment in lacking:
        segment.lacks_aborted = False


def replay(
    producers: ProducerStates,
    header: BatchHeader,
    base_offset: int,
    load: Callable[[], bytes],
    completed: Callable[[CompletedTransaction], None],
) -> None:
    """Apply a batch that is in the log; only a control batch is loaded, for what it decides."""
    if header.producer_id < 0:
        return
    if not header.is_control:
        producers.apply(header, base_offset, header.max_timestamp)
    elif marker := read_marker(load()):
        ended = producers.apply_marker(
            header,
            base_offset,
            header.max_timestamp,
            coordinator_epoch=marker.coordinator_epoch,
            aborted=marker.control_type is ControlType.ABORT,
        )
        if ended is not None:
            completed(ended)


def _load_newest(
    disk: Disk, folder: str, producers: ProducerStates, upto: int, end_offset: int, now_ms: int
) -> int:
    """Let `producers` be as at the newest snapshot not beyond `upto`; returns its offset."""
    for offset in reversed(snapshot_offsets(disk, folder)):
        path = snapshot_path(folder, offset)
        if offset <= upto:
            with suppress(CorruptSnapshot):
                producers.load_snapshot(disk.load(path) or b"", now_ms)
                return offset
        if offset <= upto or offset > end_offset:
            disk.remove(path)
    producers.clear()
    return 0
