"""An end marker uses up the guard of the transaction that it ends, and of no later one (T30)."""

import pytest

from barnabas.base.errors import BrokerError
from barnabas.log.producers.verification import Verifications

PRODUCER = 7


def test_a_marker_of_the_same_epoch_removes_the_guard_where_epochs_last() -> None:
    guards = Verifications()
    guard = guards.begin(PRODUCER, 3, 0, 0, is_epoch_bumped=False)
    guards.end_by_marker(PRODUCER, 3)
    with pytest.raises(BrokerError):
        guards.check(PRODUCER, guard)


def test_a_marker_removes_the_guard_of_the_epoch_before() -> None:
    guards = Verifications()
    guard = guards.begin(PRODUCER, 3, 0, 0, is_epoch_bumped=True)
    guards.end_by_marker(PRODUCER, 4)
    with pytest.raises(BrokerError):
        guards.check(PRODUCER, guard)


def test_the_next_transaction_may_wait_for_the_marker_of_the_last_one() -> None:
    """Version 2 of transactions: the marker has the epoch of the next transaction."""
    guards = Verifications()
    guard = guards.begin(PRODUCER, 4, 0, 0, is_epoch_bumped=True)
    guards.end_by_marker(PRODUCER, 4)
    guards.check(PRODUCER, guard)
