"""The `.snapshot` files of one partition: its producers at an offset, to replay little."""

from collections.abc import Callable, Iterator
from contextlib import suppress

from barnabas.base.disk import Disk
from barnabas.log.producer_snapshot import CorruptSnapshot
from barnabas.log.producers import ProducerStates
from barnabas.wire.batch import BatchHeader
from barnabas.wire.records import ControlType, read_marker

SUFFIX = ".snapshot"

# Header of each batch with a producer id from an offset on, and a way to its bytes.
Batches = Callable[[int], Iterator[tuple[BatchHeader, Callable[[], bytes]]]]


def snapshot_path(folder: str, offset: int) -> str:
    return f"{folder}/{offset:020}{SUFFIX}"


def take_snapshot(disk: Disk, folder: str, producers: ProducerStates, offset: int) -> None:
    """Write what `producers` know up to `offset`. Not yet on the medium: its CRC tells if torn."""
    disk.replace(snapshot_path(folder, offset), producers.to_snapshot(), sync=False)


def snapshot_offsets(disk: Disk, folder: str) -> list[int]:
    """The offsets that there are snapshots for, rising."""
    names = (name.removesuffix(SUFFIX) for name in disk.list(folder) if name.endswith(SUFFIX))
    return [int(name) for name in names if name.isdecimal()]


def remove_snapshots(disk: Disk, folder: str) -> None:
    """Nothing of the log is left that they could go with."""
    for offset in snapshot_offsets(disk, folder):
        disk.remove(snapshot_path(folder, offset))


def restore(
    disk: Disk, folder: str, producers: ProducerStates, end_offset: int, now_ms: int, read: Batches
) -> None:
    """Make `producers` know exactly the batches of the log, which ends at `end_offset`.

    Snapshots beyond the end and those that cannot be trusted are removed.
    """
    from_offset = _load_newest(disk, folder, producers, end_offset, now_ms)
    if from_offset < end_offset:
        for header, load in read(from_offset):
            replay(producers, header, header.base_offset, load)


def replay(
    producers: ProducerStates, header: BatchHeader, base_offset: int, load: Callable[[], bytes]
) -> None:
    """Apply a batch that is in the log; only a control batch is loaded, for what it decides."""
    if header.producer_id < 0:
        return
    if not header.is_control:
        producers.apply(header, base_offset, header.max_timestamp)
    elif marker := read_marker(load()):
        producers.apply_marker(
            header,
            base_offset,
            header.max_timestamp,
            coordinator_epoch=marker.coordinator_epoch,
            aborted=marker.control_type is ControlType.ABORT,
        )


def _load_newest(
    disk: Disk, folder: str, producers: ProducerStates, end_offset: int, now_ms: int
) -> int:
    for offset in reversed(snapshot_offsets(disk, folder)):
        path = snapshot_path(folder, offset)
        if offset <= end_offset:
            with suppress(CorruptSnapshot):
                producers.load_snapshot(disk.load(path) or b"", now_ms)
                return offset
        disk.remove(path)
    producers.clear()
    return 0
