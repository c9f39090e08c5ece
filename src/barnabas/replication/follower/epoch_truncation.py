"""Where a follower's log parts from its leader's: decided by leader epochs (KIP-101, 279, 320).

Never by the high watermark. A follower hears of it one fetch later than its leader moved it, so
records beyond it may be committed: cutting there loses them if the leader dies next. And two logs
of the same length may differ below it: not cutting there leaves them so for ever.
"""

from barnabas.base.ids import LeaderEpoch, Offset
from barnabas.log.leader_epochs import UNDEFINED, EpochEnd
from barnabas.log.log import Log


def decide_truncation(log: Log, leader: EpochEnd) -> Offset:
    """How much of `log` may stay, given the leader's latest epoch not above that of its end.

    Where the log does not know that epoch, what it has beyond its own epochs below goes, and the
    next fetch is told the rest: each time the latest epoch of the log gets smaller.
    """
    own = log.end_offset_for_epoch(LeaderEpoch(leader.epoch))
    end = log.log_end_offset
    if own == UNDEFINED:
        return min(Offset(leader.end_offset), end)
    if own.epoch != leader.epoch:
        return min(Offset(own.end_offset), end)
    return min(Offset(own.end_offset), Offset(leader.end_offset), end)
