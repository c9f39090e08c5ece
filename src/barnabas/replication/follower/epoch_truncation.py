"""The truncation point of a follower's log, by leader epochs (KIP-101, 279, 320).

The high watermark cannot decide it. A follower receives it one fetch after its leader moved it, so
records beyond it may be committed: truncating there loses them if the leader dies next. And two
logs of the same length may differ below it: not truncating there leaves them so for ever.
"""

from barnabas.base.ids import LeaderEpoch, Offset
from barnabas.log.leader_epochs import UNDEFINED, EpochEnd
from barnabas.log.log import Log


def decide_truncation(log: Log, leader: EpochEnd) -> Offset:
    """The offset to truncate `log` to, given the leader's latest epoch not above the log's own.

    If the log does not know that epoch, it truncates to the end of its own latest epoch below, and
    the next response decides further: the log's latest epoch gets smaller each time.
    """
    own = log.end_offset_for_epoch(LeaderEpoch(leader.epoch))
    end = log.log_end_offset
    if own == UNDEFINED:
        return min(Offset(leader.end_offset), end)
    if own.epoch != leader.epoch:
        return min(Offset(own.end_offset), end)
    return min(Offset(own.end_offset), Offset(leader.end_offset), end)
