"""The `.snapshot` files of one partition: its producers at an offset, to replay little."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

from barnabas.disk.disk import Disk
from barnabas.log.producers.producer_snapshot import CorruptSnapshot
from barnabas.log.producers.producer_state import CompletedTransaction, ProducerStates
from barnabas.log.segment.segments import Segments
from barnabas.wire.records.batch import BatchHeader
from barnabas.wire.records.records import ControlType, EndTransactionMarker, read_marker

SUFFIX = ".snapshot"


def snapshot_path(directory: str, offset: int) -> str:
    return f"{directory}/{offset:020}{SUFFIX}"


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """The offsets of all snapshots among the sorted names of a directory, rising."""
    stems = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
    return [int(stem) for stem in stems if stem.isdecimal()]


class ProducerSnapshots:
    """The snapshots in the directory of one log."""

    def __init__(self, disk: Disk, directory: str, producers: ProducerStates) -> None:
        self.newest: int | None = None  # the offset of the one last written or loaded
        self._disk = disk
        self._directory = directory
        self._producers = producers

    def take(self, offset: int) -> None:
        """Write the producers' state at `offset`. No fsync: its CRC reveals a torn snapshot."""
        path = snapshot_path(self._directory, offset)
        self._disk.replace(path, self._producers.to_snapshot(), sync=False)
        self.newest = offset

    def remove_all(self) -> None:
        """Remove all snapshots: the log is empty."""
        for offset in self._offsets():
            self._disk.remove(snapshot_path(self._directory, offset))

    def on_renamed(self, directory: str) -> None:
        self._directory = directory

    def restore(
        self,
        segments: Segments,
        end_offset: int,
        now_ms: int,
        offsets: Sequence[int] | None = None,
    ) -> None:
        """Rebuild the producers' state from exactly the batches of the log, up to `end_offset`.

        Of the snapshots, which are at `offsets`, those beyond the end and those that cannot be
        trusted are removed. Transaction indexes that were lost are written again: a marker's
        meaning depends on all batches before it.
        """
        lacking = [segment for segment in segments if segment.lacks_aborted]
        upto = min([end_offset, *(segment.base_offset for segment in lacking)])
        known = self._offsets() if offsets is None else offsets
        self.newest = self._load_newest(upto, end_offset, now_ms, known)
        from_offset = self.newest or 0
        if from_offset < end_offset:
            note = partial(segments.note_aborted, lacking_only=True)
            for header, load in segments.produced(from_offset):
                replay(self._producers, header, header.base_offset, load, note)
        for segment in lacking:
            segment.lacks_aborted = False

    def _offsets(self) -> list[int]:
        return snapshot_offsets(self._disk.list(self._directory))

    def _load_newest(
        self, upto: int, end_offset: int, now_ms: int, offsets: Sequence[int]
    ) -> int | None:
        """Load the newest snapshot not beyond `upto`; return its offset."""
        for offset in reversed(offsets):
            path = snapshot_path(self._directory, offset)
            if offset <= upto:
                with suppress(CorruptSnapshot):
                    self._producers.load_snapshot(self._disk.load(path) or b"", now_ms)
                    return offset
            if offset <= upto or offset > end_offset:
                self._disk.remove(path)
        self._producers.clear()
        return None


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
        replay_marker(producers, header, base_offset, marker, completed)


def replay_marker(
    producers: ProducerStates,
    header: BatchHeader,
    base_offset: int,
    marker: EndTransactionMarker,
    completed: Callable[[CompletedTransaction], None],
) -> None:
    """Apply an end marker that is in the log; one without a producer ends nothing."""
    if header.producer_id < 0:
        return
    ended = producers.apply_marker(
        header,
        base_offset,
        header.max_timestamp,
        coordinator_epoch=marker.coordinator_epoch,
        aborted=marker.control_type is ControlType.ABORT,
    )
    if ended is not None:
        completed(ended)
