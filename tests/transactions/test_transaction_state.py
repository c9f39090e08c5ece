"""The table of transaction states is whole, and what it does not allow does not happen (T4)."""

from collections.abc import Callable

import pytest

from barnabas.base.errors import LawBroken
from barnabas.transactions.transaction_metadata import TransactionMetadata
from barnabas.transactions.transaction_state import (
    ENTERED_FROM,
    STATUS,
    TransactionState,
)

_S = TransactionState


def metadata(state: TransactionState) -> TransactionMetadata:
    return TransactionMetadata(
        transactional_id="t",
        producer_id=1,
        producer_epoch=0,
        timeout_ms=1,
        last_update_ms=0,
        state=state,
    )


def test_states_have_the_numbers_of_kafka() -> None:
    """T4"""
    assert {state.value: number for state, number in STATUS.items()} == {
        "Empty": 0,
        "Ongoing": 1,
        "PrepareCommit": 2,
        "PrepareAbort": 3,
        "CompleteCommit": 4,
        "CompleteAbort": 5,
        "Dead": 6,
        "PrepareEpochFence": 7,
    }


def test_every_state_has_a_row_and_can_be_reached_from_empty() -> None:
    """T4"""
    assert set(ENTERED_FROM) == set(_S)
    reached = {_S.EMPTY}
    for _ in _S:
        reached |= {state for state, before in ENTERED_FROM.items() if before & reached}
    assert reached == set(_S)


@pytest.mark.parametrize("state", list(_S))
def test_a_transition_that_the_table_lacks_breaks_a_law(state: TransactionState) -> None:
    """T4"""
    now = metadata(state)
    transitions: dict[TransactionState, Callable[[], TransactionMetadata]] = {
        _S.EMPTY: lambda: now.with_epoch(1, -1, 1, 1, 1),
        _S.ONGOING: lambda: now.with_partitions(frozenset(), 1, 0),
        _S.PREPARE_COMMIT: lambda: now.prepared(_S.PREPARE_COMMIT, 1, 0, -1),
        _S.PREPARE_ABORT: lambda: now.fenced(1, 0),
    }
    for to, transition in transitions.items():
        if state in ENTERED_FROM[to]:
            assert transition().state is to
        else:
            with pytest.raises(LawBroken, match="TXN-1"):
                transition()
