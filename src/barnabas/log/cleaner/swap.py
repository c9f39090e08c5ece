"""Cleaned segments take the place of those they were made from, whenever a crash may come.

    1  `.cleaned` becomes `.swap`, the lowest offset last   until then a restart undoes all of it,
                                                            from then on it completes it
    2  the old files become `.deleted`
    3  `.swap` becomes the plain name

The names of each step must be on the medium before those of the next are changed, or a power
failure could keep the later and lose the earlier.
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
        self, disk: Disk, folder: str, old: Sequence[Segment], new: Sequence[Segment]
    ) -> None:
        """`new` are on the medium under their names in `.cleaned`; offsets rise in both."""
        self._disk = disk
        self._folder = folder
        self._old = old
        self._new = new
        self._steps = [self._commit, self._delete_old, self._take_names]
        # What is to be removed once no reader can be at it any more.
        self.deleted: list[str] = []

    @property
    def is_done(self) -> bool:
        return not self._steps

    def step(self) -> None:
        self._steps.pop(0)()

    def sync(self) -> None:
        self._disk.sync(self._folder)

    def finish(self) -> None:
        """All that is left, here and now; blocks."""
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
            # Where a segment begins anew at the same offset, the producers then are the same too.
            files = SEGMENT_FILES if segment.base_offset in kept else (*SEGMENT_FILES, SNAPSHOT)
            self.deleted += mark_deleted(self._disk, segment, files)

    def _take_names(self) -> None:
        for segment in self._new:
            segment.rename("")
