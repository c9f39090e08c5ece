"""The flushes of a log that are under way, and the files that the next one must fsync."""

from typing import Final

from barnabas.base.ids import Offset
from barnabas.disk.disk import Disk
from barnabas.log.background_work import Flush
from barnabas.log.segment.segments import Segments

EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"


class Flushes:
    """The flushes of one log. A flush under way proves nothing: the next one repeats it."""

    def __init__(self, disk: Disk, directory: str, *, is_directory_dirty: bool) -> None:
        self._disk = disk
        self._directory = directory
        self._pending: list[Flush] = []
        # True if file names have changed, or one of the small files.
        self.is_directory_dirty = is_directory_dirty

    def start(self, segments: Segments, end: Offset, rolled_only: bool, closing: bool) -> Flush:
        """Return the work that flushes the log up to `end`, or up to the active segment."""
        active = segments.active
        paths = [path for flush in self._pending for path in flush.paths]
        for segment in segments:
            is_active = segment is active
            if not (is_active and rolled_only):
                paths += segment.take_unsynced(with_indexes=closing or not is_active)
        if self.is_directory_dirty:
            small = (EPOCH_CHECKPOINT, PARTITION_METADATA)
            paths += (f"{self._directory}/{name}" for name in small)
            paths += (self._directory, "")
            self.is_directory_dirty = False
        upto = Offset(active.base_offset) if rolled_only else end
        flush = Flush(self._disk, list(dict.fromkeys(paths)), upto)
        self._pending.append(flush)
        return flush

    def end(self, flush: Flush) -> bool:
        """Note that a flush is done; returns False if the log was truncated since it started."""
        pending = [started for started in self._pending if started is not flush]
        is_valid = len(pending) < len(self._pending)
        self._pending = pending
        return is_valid

    def on_renamed(self, directory: str) -> None:
        """The directory has another name: flushes under way do not find its files any more."""
        self._directory = directory
        self._pending.clear()
        self.is_directory_dirty = True

    def void(self) -> None:
        """Void the flushes under way: the log was truncated, and they do not cover what follows."""
        self._pending.clear()
