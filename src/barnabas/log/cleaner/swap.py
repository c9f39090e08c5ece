"""The crash-safe replacement of segments by the cleaned ones made from them.

    1  `.cleaned` becomes `.swap`, the lowest offset last   until then a restart undoes all of it,
                                                            from then on it completes it
    2  the old files become `.deleted`
    3  `.swap` becomes the plain name

The renames of each step must be on disk before the next step renames, or a power failure could keep
the later ones and lose the earlier.
"""

from collections.abc import Sequence
from typing import Final

from barnabas.disk.disk import Disk
from barnabas.log.segment.segment import SEGMENT_FILES, SNAPSHOT, Segment
from barnabas.log.segment.segments import mark_deleted

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"


class Swap:
    """The steps for one group of segments; `step` on the loop, then `sync` on a thread, in turns.

    After a DiskFault the next start undoes or completes it.
    """

    def __init__(
        self, disk: Disk, directory: str, old: Sequence[Segment], new: Sequence[Segment]
    ) -> None:
        """`new` are on disk under their names in `.cleaned`; offsets rise in both."""
        self._disk = disk
        self._directory = directory
        self._old = old
        self._new = new
        self._steps = [self._commit, self._delete_old, self._take_names]
        # The files to remove once no reader can use them any more.
        self.deleted: list[str] = []

    @property
    def is_done(self) -> bool:
        return not self._steps

    def step(self) -> None:
        self._steps.pop(0)()

    def sync(self) -> None:
        self._disk.sync(self._directory)

    def finish(self) -> None:
        """Do all remaining steps here and now; blocks."""
        while self._steps:
            self.sync()
            self.step()

    def _commit(self) -> None:
        for segment in reversed(self._new):
            segment.rename(SWAP)

    def _delete_old(self) -> None:
        kept = [segment.base_offset for segment in self._new]
        for segment in self._old:
            segment.close()
            # A new segment at the same base offset begins with the same producer state.
            files = SEGMENT_FILES if segment.base_offset in kept else (*SEGMENT_FILES, SNAPSHOT)
            self.deleted += mark_deleted(self._disk, segment, files)

    def _take_names(self) -> None:
        for segment in self._new:
            segment.rename("")
