"""Which flushes of a log are under way, and what the next one has to bring onto the medium."""

from typing import Final

from barnabas.base.ids import Offset
from barnabas.disk.disk import Disk
from barnabas.log.background_work import Flush
from barnabas.log.segment.segments import Segments

EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"


class Flushes:
    """Of one log. What a flush is still at is not proven: the next one does it again."""

    def __init__(self, disk: Disk, folder: str, *, is_folder_dirty: bool) -> None:
        self._disk = disk
        self._folder = folder
        self._pending: list[Flush] = []
        # Whether names have changed, or one of the small files.
        self.is_folder_dirty = is_folder_dirty

    def start(self, segments: Segments, end: Offset, rolled_only: bool, closing: bool) -> Flush:
        """The work that proves the log up to `end`, or up to the active segment."""
        active = segments.active
        paths = [path for flush in self._pending for path in flush.paths]
        for segment in segments:
            is_active = segment is active
            if not (is_active and rolled_only):
                paths += segment.take_unsynced(with_indexes=closing or not is_active)
        if self.is_folder_dirty:
            small = (EPOCH_CHECKPOINT, PARTITION_METADATA)
            paths += (f"{self._folder}/{name}" for name in small)
            paths += (self._folder, "")
            self.is_folder_dirty = False
        upto = Offset(active.base_offset) if rolled_only else end
        flush = Flush(self._disk, list(dict.fromkeys(paths)), upto)
        self._pending.append(flush)
        return flush

    def end(self, flush: Flush) -> bool:
        """Note that one is done; tells whether it proves anything: not if the log was cut since."""
        pending = [started for started in self._pending if started is not flush]
        is_valid = len(pending) < len(self._pending)
        self._pending = pending
        return is_valid

    def void(self) -> None:
        """The log was cut: what is under way proves nothing of what comes there next."""
        self._pending.clear()
