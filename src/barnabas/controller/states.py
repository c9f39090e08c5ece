"""The states of partitions and of replicas, and from which each may be reached: two tables.

A partition is NON_EXISTENT (never made, or deleted), NEW (it has replicas, but no leader yet),
ONLINE (it has a leader) or OFFLINE (its leader is gone and nobody could be elected).

A replica is NEW while it is being made, ONLINE, OFFLINE when its broker or disk is down; a
topic that is deleted takes its replicas through DELETION_STARTED to DELETION_SUCCESSFUL, or to
DELETION_INELIGIBLE until what stands in the way is gone; then it is NON_EXISTENT.
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


_P, _R = PartitionState, ReplicaState

# To enter a state, one must be in one of these. A pair that is absent is a bug of ours.
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
    """Whether one in `state` may become `to`."""
    return state in table[to]
