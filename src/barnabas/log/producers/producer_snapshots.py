"""The `.snapshot` files of one partition: its producers at an offset, to replay little."""

from collections.abc import Callable, Iterable, Sequence
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


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """The offsets of all snapshots among the sorted names of a directory, rising."""
    stems = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
    return [int(stem) for stem in stems if stem.isdecimal()]


def remove_snapshots(disk: Disk, directory: str) -> None:
    """Remove all snapshots: the log is empty."""
    for offset in snapshot_offsets(disk.list(directory)):
        disk.remove(snapshot_path(directory, offset))


def restore(
    disk: Disk,
    directory: str,
    producers: ProducerStates,
    end_offset: int,
    now_ms: int,
    segments: Segments,
    offsets: Sequence[int],
) -> int | None:
    """Rebuild `producers` from exactly the batches of the log, which ends at `end_offset`.

    Of the snapshots, which are at `offsets`, those beyond the end and those that cannot be trusted
    are removed. Returns the offset of the one that it loaded. Transaction
    indexes that were lost are written again: a marker's meaning depends on all batches before it.
    """
    lacking = [segment for segment in segments if segment.lacks_aborted]
    upto = min([end_offset, *(segment.base_offset for segment in lacking)])
    loaded = _load_newest(disk, directory, producers, upto, end_offset, now_ms, offsets)
    from_offset = loaded or 0
    if from_offset < end_offset:
        note = partial(segments.note_aborted, lacking_only=True)
        for header, load in segments.produced(from_offset):
            replay(producers, header, header.base_offset, load, note)
    for segment in lacking:
        segment.lacks_aborted = False
    return loaded


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
    disk: Disk,
    directory: str,
    producers: ProducerStates,
    upto: int,
    end_offset: int,
    now_ms: int,
    offsets: Sequence[int],
) -> int | None:
    """Load the newest snapshot not beyond `upto` into `producers`; return its offset."""
    for offset in reversed(offsets):
        path = snapshot_path(directory, offset)
        if offset <= upto:
            with suppress(CorruptSnapshot):
                producers.load_snapshot(disk.load(path) or b"", now_ms)
                return offset
        if offset <= upto or offset > end_offset:
            disk.remove(path)
    producers.clear()
    return None
