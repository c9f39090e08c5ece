"""Verification guards: who may make the first append of a transaction to a partition."""

import pytest

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.log.producers import verification
from barnabas.log.producers.producer_state import ProducerStates
from barnabas.log.producers.verification import UNGUARDED, VerificationGuard, Verifications
from barnabas.wire.records.batch import TRANSACTIONAL, BatchHeader, read_header
from barnabas.wire.records.records import Record, build_batch

PID = 7


def header(sequence: int, epoch: int = 0) -> BatchHeader:
    made = build_batch(
        [Record(0, 1, b"k", b"v")],
        producer_id=PID,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    found = read_header(made)
    assert found.attributes & TRANSACTIONAL
    return found


def refused(states: ProducerStates, asked: BatchHeader, guard: VerificationGuard | None) -> int:
    with pytest.raises(BrokerError) as e:
        states.check(asked, guard)
    return e.value.code


def begin(states: ProducerStates, sequence: int = 0, epoch: int = 0) -> VerificationGuard:
    return states.verifications.begin(PID, epoch, sequence, 0, is_epoch_bumped=False)


def test_t30_the_first_batch_needs_the_guard_and_the_next_does_not() -> None:
    states = ProducerStates(1000)
    assert refused(states, header(0), None) == ErrorCode.invalid_txn_state
    guard = begin(states)
    assert states.check(header(0), guard) is None
    states.apply(header(0), 0, 1)
    assert len(states.verifications) == 0
    assert states.check(header(1)) is None


def test_t30_a_guard_of_an_earlier_transaction_is_no_guard() -> None:
    """The answer to an old question lets no delayed batch into the next transaction (ABA)."""
    states = ProducerStates(1000)
    old = begin(states)
    states.apply_marker(header(-1), 0, 1, coordinator_epoch=0, aborted=True)
    new = begin(states)
    assert refused(states, header(0), old) == ErrorCode.invalid_txn_state
    assert states.check(header(0), new) is None


def test_t30_idle_guards_expire() -> None:
    states = ProducerStates(1000)
    begin(states)
    states.expire(999)
    assert len(states.verifications) == 1
    states.expire(1000)
    assert len(states.verifications) == 0


def test_t30_guards_that_nobody_comes_back_with_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verification, "MOST_GUARDS", 10)
    guards = Verifications()
    for number in range(100):
        guard = guards.begin(number, 0, 0, 0, is_epoch_bumped=False)
    assert len(guards) == 10
    guards.check(99, guard)


def test_t30_without_verification_nothing_is_guarded() -> None:
    assert ProducerStates(1000).check(header(0), UNGUARDED) is None


def test_t31_a_batch_that_overtook_the_first_one_is_out_of_order() -> None:
    states = ProducerStates(1000)
    guard = begin(states, sequence=5)
    assert begin(states, sequence=3) is guard
    assert refused(states, header(5), guard) == ErrorCode.out_of_order_sequence_number
    assert states.check(header(3), guard) is None


def test_t31_the_sequences_of_a_later_epoch_start_over() -> None:
    verifications = Verifications()
    verifications.begin(PID, 0, 0, 0, is_epoch_bumped=False)
    verifications.begin(PID, 1, 4, 0, is_epoch_bumped=False)
    verifications.check_sequence(PID, 4, is_new=False)
    with pytest.raises(BrokerError):
        verifications.check_sequence(PID, 5, is_new=False)


def test_t31_with_an_epoch_for_each_transaction_the_first_sequence_is_0() -> None:
    verifications = Verifications()
    verifications.begin(PID, 0, 2, 0, is_epoch_bumped=True)
    with pytest.raises(BrokerError) as e:
        verifications.check_sequence(PID, 2, is_new=True)
    assert e.value.code is ErrorCode.out_of_order_sequence_number


def test_t33_the_error_of_a_fenced_producer_names_its_epoch_and_not_its_transaction() -> None:
    """KAFKA-19690: INVALID_TXN_STATE would be fatal to a producer that timed out."""
    states = ProducerStates(1000)
    states.apply_marker(header(-1, epoch=1), 0, 1, coordinator_epoch=0, aborted=True)
    assert refused(states, header(0, epoch=0), None) == ErrorCode.invalid_producer_epoch


def test_t35_a_producer_amid_a_transaction_does_not_expire() -> None:
    states = ProducerStates(1000)
    states.apply(header(0), 0, 1)
    assert states.expire(10**9) == 0
    assert PID in states.producers
