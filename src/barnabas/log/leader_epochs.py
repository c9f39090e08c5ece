"""The leader epochs of one partition's log: the first offset of each, and so its end.

A follower asks its leader where the follower's latest epoch ends, and truncates
to there (KIP-101, KIP-279). An epoch ends where the next known one begins; the
latest ends at the end of the log.

Nothing here touches the disk. Every change returns whether the entries changed;
the log then writes `entries` to its `leader-epoch-checkpoint`.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from barnabas.base.ids import NO_LEADER_EPOCH
from barnabas.base.laws import law


class EpochEntry(NamedTuple):
    """The first offset that a leader epoch wrote."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The greatest known epoch not above the one asked for, and the first offset past it."""

    epoch: int
    end_offset: int


# The follower cannot compare by epoch: it asked without one, or for one never seen here.
UNDEFINED: Final = EpochEnd(NO_LEADER_EPOCH, -1)


class LeaderEpochs:
    """The leader epochs of one log, rising strictly in both epoch and start offset."""

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        """Begin with what a checkpoint held; entries that contradict a later one are dropped."""
        self._entries: list[EpochEntry] = []
        self._current_epoch: int | None = None
        self._current_start = 0
        for entry in entries:
            self.assign(*entry)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def latest(self) -> int:
        """The greatest epoch with records in this log, or NO_LEADER_EPOCH."""
        return self._entries[-1].epoch if self._entries else NO_LEADER_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` wrote at `start_offset`; costs one comparison while the epoch stays.

        Entries that would no longer lie strictly below the new one are removed: those
        offsets were truncated and written again, or the epoch wrote nothing.
        """
        if epoch == self._current_epoch and start_offset >= self._current_start:
            return False
        law(
            epoch >= 0 and start_offset >= 0,
            "EPOCH-1 an assigned epoch and its start are not negative",
            epoch=epoch,
            start_offset=start_offset,
        )
        entries = self._entries
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        return self._changed()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Where `epoch` ends, or the greatest known epoch below it; UNDEFINED if that is unknown.

        An epoch older than all known ones is answered as itself, ending where the first
        known one begins: its records are gone, and a follower starts over from there.
        """
        if epoch == NO_LEADER_EPOCH or epoch > self.latest or not self._entries:
            return UNDEFINED
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        after = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        found = self._entries[after - 1].epoch if after else epoch
        return EpochEnd(found, self._entries[after].start_offset)

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch that wrote `offset`, or NO_LEADER_EPOCH below the first entry."""
        after = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[after - 1].epoch if after else NO_LEADER_EPOCH

    def start_above(self, epoch: int) -> int | None:
        """The first offset written in a later epoch than this one; None if there is none."""
        after = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        return self._entries[after].start_offset if after < len(self._entries) else None

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget the epochs that begin at or beyond `end_offset`, the new end of the log."""
        if not self._entries or self._entries[-1].start_offset < end_offset:
            return False
        while self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()
        return self._changed()

    def truncate_from_start(self, start_offset: int) -> bool:
        """Move the log start to `start_offset`: its epoch begins there, earlier ones go."""
        after = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset)
        if not after or self._entries[0].start_offset == start_offset:
            return False
        first = EpochEntry(self._entries[after - 1].epoch, start_offset)
        self._entries[:after] = [first]
        return self._changed()

    def _changed(self) -> bool:
        # The last entry again, as plain fields for the comparison in `assign`.
        self._current_epoch, self._current_start = self._entries[-1] if self._entries else (None, 0)
        return True
