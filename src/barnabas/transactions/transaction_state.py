"""The states of a transaction, as a table.

EMPTY has no transaction yet, ONGOING has partitions. PREPARE_COMMIT and PREPARE_ABORT decide the
outcome: the markers follow, then COMPLETE_COMMIT or COMPLETE_ABORT. DEAD is an id that expires.
PREPARE_EPOCH_FENCE is Kafka's name for a fence that is not written yet; it is in no record.
"""

import enum
from collections.abc import Mapping
from typing import Final


class TransactionState(enum.Enum):
    """The value is what Kafka's tools show."""

    # Each member is itself alone. That of Enum, in Python, was called twenty times a transaction.
    __hash__ = object.__hash__

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


_S = TransactionState

# The state in a record.
STATUS: Final[Mapping[TransactionState, int]] = {state: n for n, state in enumerate(_S)}
STATE_OF: Final[Mapping[int, TransactionState]] = {n: state for state, n in STATUS.items()}

ENDED: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
PREPARED: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
OPEN: Final = PREPARED | {_S.ONGOING}

# From which states each may be entered. Version 2 aborts a transaction that has no partition yet.
# A missing pair is a bug of ours, never of a client: requests are answered before.
ENTERED_FROM: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    _S.EMPTY: ENDED,
    _S.ONGOING: ENDED | {_S.ONGOING},
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    _S.PREPARE_ABORT: ENDED | {_S.ONGOING, _S.PREPARE_EPOCH_FENCE},
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
    _S.DEAD: ENDED,
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.ONGOING}),
}
