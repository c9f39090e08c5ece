"""The history of operations, and the encoding of values in records."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.ids import TopicPartition
from barnabas.sim.checkers.history import (
    NOT_OURS,
    Delete,
    OperationHistory,
    OperationOutcome,
    Send,
    Sent,
    payload,
    value_of,
)

AT = TopicPartition("orders", 0)
SEND = Send(AT, (1, 2), -1, 7, 0, 0)


def test_an_operation_that_has_not_ended_is_unknown() -> None:
    operation = OperationHistory(lambda: 1.0).begin("producer-1", SEND)
    assert operation.outcome is OperationOutcome.UNKNOWN
    assert "never" in str(operation)


def test_an_ended_operation_has_outcome_result_and_time() -> None:
    times = iter([1.0, 2.5])
    history = OperationHistory(lambda: next(times))
    operation = history.begin("producer-1", SEND)
    history.end(operation, OperationOutcome.OK, Sent(17))
    assert (operation.began, operation.ended, operation.got) == (1.0, 2.5, Sent(17))


def test_operations_are_found_by_request_type() -> None:
    history = OperationHistory(lambda: 0.0)
    history.begin("admin", Delete("orders"))
    sent = history.begin("producer-1", SEND)
    assert list(history.of(Send)) == [(sent, SEND)]
    assert [line.split()[2] for line in history.lines()] == ["admin", "producer-1"]


def test_new_values_are_unique() -> None:
    history = OperationHistory(lambda: 0.0)
    assert len({history.new_value() for _ in range(100)}) == 100


@given(st.integers(1, 10**9))
def test_a_record_carries_its_value(value: int) -> None:
    assert value_of(payload(value)) == value


@given(st.integers(1, 10**6), st.integers(0, 200), st.integers(1, 255))
def test_a_record_with_a_changed_byte_does_not_carry_its_value(
    value: int, at: int, by: int
) -> None:
    damaged = bytearray(payload(value))
    damaged[at % len(damaged)] ^= by
    assert value_of(bytes(damaged)) != value


@given(st.binary(max_size=20))
def test_foreign_bytes_are_not_ours(data: bytes) -> None:
    value = value_of(data)
    assert value == NOT_OURS or payload(value) == data


def test_a_record_without_a_value_is_not_ours() -> None:
    assert value_of(None) == NOT_OURS
