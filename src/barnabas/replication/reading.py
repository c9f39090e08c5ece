"""A replica as its readers see it: log, high watermark, leader epoch."""

from typing import Final, NamedTuple

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import LeaderEpoch, Offset
from barnabas.log.log import Log
from barnabas.log.segment.file_slice import FileSlice

NO_LIMIT: Final = (1 << 63) - 1


class Reading(NamedTuple):
    """One replica as its readers see it now; good until anything happens to the replica."""

    log: Log
    high_watermark: Offset
    leader_epoch: LeaderEpoch

    @property
    def last_stable_offset(self) -> Offset:
        return last_stable_offset(self.log, self.high_watermark)

    def check_epoch(self, known_epoch: int) -> None:
        """Refuse a reader that knows of another leader; -1 asks nothing."""
        if known_epoch >= 0 and known_epoch != self.leader_epoch:
            raise BrokerError(
                ErrorCode.fenced_leader_epoch
                if known_epoch < self.leader_epoch
                else ErrorCode.unknown_leader_epoch
            )

    def diverging_epoch(self, last_epoch: int, offset: int) -> tuple[int, int] | None:
        """Return where a log that ends at `offset` in `last_epoch` diverges from this one, if so.

        Raises  BrokerError(offset_out_of_range), if that is unknown or no longer in the log
        """
        log = self.log
        if last_epoch < 0 or (last_epoch == log.epochs.latest and offset <= log.log_end_offset):
            return None
        epoch, end = log.end_offset_for_epoch(LeaderEpoch(last_epoch))
        if epoch < 0 or end < 0 or offset < log.log_start_offset:
            raise BrokerError(ErrorCode.offset_out_of_range)
        return (epoch, end) if epoch < last_epoch or end < offset else None

    def has_more(self, offset: int, upto: Offset, extent: FileSlice) -> bool:
        """True if there is more before `upto` than the `extent` that was located."""
        whole = self.log.locate(Offset(offset), NO_LIMIT, upto, minimum_one=True)
        ends_early = extent.size > 0 and offset < self.log.segments[-1].base_offset
        return whole.size > extent.size or ends_early


def last_stable_offset(log: Log, high_watermark: Offset) -> Offset:
    """The last stable offset: a READ_COMMITTED consumer reads up to the first open transaction.

    It is not before the log start: records of the transaction may have been deleted.
    """
    unstable = log.producers.first_unstable_offset
    if unstable is None or unstable > high_watermark:
        return high_watermark
    return max(Offset(unstable), log.log_start_offset)
