"""The state machines of partitions and replicas, as two tables, and the leader selectors.

A partition is NON_EXISTENT (never created, or deleted), NEW (it has replicas, but no leader yet),
ONLINE (it has a leader) or OFFLINE (its leader failed and no other could be elected).

A replica is NEW while it is created, ONLINE, or OFFLINE when its broker or log directory is down.
Deletion of its topic takes it through DELETION_STARTED to DELETION_SUCCESSFUL and NON_EXISTENT;
while it cannot be deleted it is DELETION_INELIGIBLE.
"""

import enum
from collections.abc import Mapping
from typing import Final, TypeVar


class PartitionState(enum.Enum):
    NON_EXISTENT = "NonExistent"
    NEW = "New"
    ONLINE = "Online"
    OFFLINE = "Offline"


class ReplicaState(enum.Enum):
    NEW = "New"
    ONLINE = "Online"
    OFFLINE = "Offline"
    DELETION_STARTED = "DeletionStarted"
    DELETION_SUCCESSFUL = "DeletionSuccessful"
    DELETION_INELIGIBLE = "DeletionIneligible"
    NON_EXISTENT = "NonExistent"


class Selector(enum.Enum):
    """The rule by which a partition's leader is elected."""

    NONE_NEEDED = "keep the current leader"
    OFFLINE = "the leader is offline"
    OFFLINE_UNCLEAN = "the leader is offline, and the operator accepts the loss of records"
    REASSIGNED = "the partition was reassigned"
    PREFERRED = "elect the preferred leader"
    CONTROLLED_SHUTDOWN = "the leader's broker is shutting down"


_P, _R = PartitionState, ReplicaState

# Each state, and the states from which it may be entered. Any other transition is a bug.
PARTITION_FROM: Final[Mapping[PartitionState, frozenset[PartitionState]]] = {
    _P.NON_EXISTENT: frozenset({_P.OFFLINE}),
    _P.NEW: frozenset({_P.NON_EXISTENT}),
    _P.ONLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.OFFLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
}

REPLICA_FROM: Final[Mapping[ReplicaState, frozenset[ReplicaState]]] = {
    _R.NEW: frozenset({_R.NON_EXISTENT}),
    _R.ONLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.OFFLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.DELETION_STARTED: frozenset({_R.OFFLINE}),
    _R.DELETION_SUCCESSFUL: frozenset({_R.DELETION_STARTED}),
    _R.DELETION_INELIGIBLE: frozenset({_R.OFFLINE, _R.DELETION_STARTED}),
    _R.NON_EXISTENT: frozenset({_R.DELETION_SUCCESSFUL}),
}

State = TypeVar("State", PartitionState, ReplicaState)


def may_enter(table: Mapping[State, frozenset[State]], state: State, to: State) -> bool:
    """True if the table allows the transition from `state` to `to`."""
    return state in table[to]
