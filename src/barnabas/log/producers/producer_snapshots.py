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


def snapshot_path(directory: str, offset: int) -> str:
    return f"{directory}/{offset:020}{SUFFIX}"


def take_snapshot(disk: Disk, directory: str, producers: ProducerStates, offset: int) -> None:
    """Write the producers' state at `offset`. No fsync: its CRC reveals a torn snapshot."""
    disk.replace(snapshot_path(directory, offset), producers.to_snapshot(), sync=False)


def take_last_snapshot(
    disk: Disk, directory: str, producers: ProducerStates, start_offset: int, end_offset: int
) -> None:
    """Write the snapshot of a clean shutdown, at the log's end, unless nothing is new."""
    known_upto = snapshot_offsets(disk, directory)[-1:] or [start_offset]
    if end_offset > known_upto[0]:
        take_snapshot(disk, directory, producers, end_offset)


def snapshot_offsets(disk: Disk, directory: str) -> list[int]:
    """The offsets of all snapshots, rising."""
    names = (name.removesuffix(SUFFIX) for name in disk.list(directory) if name.endswith(SUFFIX))
    return [int(name) for name in names if name.isdecimal()]


def remove_snapshots(disk: Disk, directory: str) -> None:
    """Remove all snapshots: the log is empty."""
    for offset in snapshot_offsets(disk, directory):
        disk.remove(snapshot_path(directory, offset))


def restore(
    disk: Disk,
    directory: str,
    producers: ProducerStates,
    end_offset: int,
    now_ms: int,
    segments: Segments,
) -> None:
    """Rebuild `producers` from exactly the batches of the log, which ends at `end_offset`.

    Snapshots beyond the end and those that cannot be trusted are removed. Transaction indexes that
    were lost are written again: a marker's meaning depends on all batches before it.
    """
    lacking = [segment for segment in segments if segment.lacks_aborted]
    upto = min([end_offset, *(segment.base_offset for segment in lacking)])
    from_offset = _load_newest(disk, directory, producers, upto, end_offset, now_ms)
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
    disk: Disk, directory: str, producers: ProducerStates, upto: int, end_offset: int, now_ms: int
) -> int:
    """Load the newest snapshot not beyond `upto` into `producers`; return its offset."""
    for offset in reversed(snapshot_offsets(disk, directory)):
        path = snapshot_path(directory, offset)
        if offset <= upto:
            with suppress(CorruptSnapshot):
                producers.load_snapshot(disk.load(path) or b"", now_ms)
                return offset
        if offset <= upto or offset > end_offset:
            disk.remove(path)
    producers.clear()
    return 0
