"""The state machine of a classic group, as a table.

A group is EMPTY without members (it may have offsets), PREPARING_REBALANCE while its members
join, COMPLETING_REBALANCE when all have joined and their leader assigns, STABLE when the assignment
is in the log, and DEAD when it was removed.
"""

import enum
from collections.abc import Mapping
from typing import Final


class GroupState(enum.Enum):
    """The value is what Kafka's tools show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupEvent(enum.Enum):
    REBALANCE = "members are called to join"
    JOINED = "the members of a generation are complete"
    ASSIGNED = "the leader's assignment is in the log"
    REPLACED = "a static member's new id is in the log"
    DESERTED = "nobody is left to join"
    REMOVED = "the group was deleted or converted, or its shard moved away"


_S, _E = GroupState, GroupEvent

# From a state, by an event, to a state. A missing pair is a bug of ours, never of a client:
# requests are answered before they become events.
NEXT: Final[Mapping[GroupState, Mapping[GroupEvent, GroupState]]] = {
    _S.EMPTY: {_E.REBALANCE: _S.PREPARING_REBALANCE, _E.REMOVED: _S.DEAD},
    _S.PREPARING_REBALANCE: {
        _E.JOINED: _S.COMPLETING_REBALANCE,
        _E.DESERTED: _S.EMPTY,
        _E.REMOVED: _S.DEAD,
    },
    _S.COMPLETING_REBALANCE: {
        _E.ASSIGNED: _S.STABLE,
        _E.REBALANCE: _S.PREPARING_REBALANCE,
        _E.REMOVED: _S.DEAD,
    },
    _S.STABLE: {
        _E.REPLACED: _S.STABLE,
        _E.REBALANCE: _S.PREPARING_REBALANCE,
        _E.REMOVED: _S.DEAD,
    },
    _S.DEAD: {},
}
