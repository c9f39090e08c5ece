"""Producer state: sequences, duplicates, fencing, transactions, expiry and the snapshot's bytes."""

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.log.producers import producer_state
from barnabas.log.producers.producer_snapshot import CorruptSnapshot, SnapshotEntry, decode_snapshot
from barnabas.log.producers.producer_state import (
    AppendedBefore,
    CompletedTransaction,
    ProducerStates,
)
from barnabas.log.producers.verification import UNGUARDED
from barnabas.wire.records.batch import CONTROL, NO_SEQUENCE, TRANSACTIONAL, BatchHeader

DAY_MS = 86_400_000
LAST_SEQUENCE = 2**31 - 1

GOLDEN = bytes.fromhex(
    "0001 81953e18 00000003"
    "00000000000003e8 0003 00000009 0000000000000031 00000004 0000018bcfe56800 ffffffff"
    "ffffffffffffffff"
    "00000000000003e9 0000 ffffffff ffffffffffffffff 00000000 0000018bcfe56801 00000007"
    "ffffffffffffffff"
    "00000000000003ea 0001 00000002 0000000000000034 00000002 0000018bcfe56802 ffffffff"
    "0000000000000032"
)


def batch(
    sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0, attributes: int = 0
) -> BatchHeader:
    return BatchHeader(
        0, 49, 0, 2, 0, attributes, count - 1, 0, 0, producer, epoch, sequence, count
    )


def marker(*, producer: int = 7, epoch: int = 0) -> BatchHeader:
    return batch(NO_SEQUENCE, producer=producer, epoch=epoch, attributes=TRANSACTIONAL | CONTROL)


def append(states: ProducerStates, header: BatchHeader, offset: int, timestamp: int = 1) -> None:
    assert states.check(header, UNGUARDED) is None
    states.apply(header, offset, timestamp)


def end(
    states: ProducerStates, offset: int, *, producer: int = 7, epoch: int = 0, coordinator: int = 0
) -> CompletedTransaction | None:
    header = marker(producer=producer, epoch=epoch)
    states.check_marker(header, coordinator)
    return states.apply_marker(header, offset, 1, coordinator_epoch=coordinator, aborted=True)


def refused(states: ProducerStates, header: BatchHeader) -> ErrorCode:
    before = states.to_snapshot()
    with pytest.raises(BrokerError) as caught:
        states.check(header, UNGUARDED)
    assert states.to_snapshot() == before
    return caught.value.code


@pytest.fixture
def states() -> ProducerStates:
    return ProducerStates(DAY_MS)


# Sequences


def test_an_unknown_producer_may_begin_with_any_sequence(states: ProducerStates) -> None:
    append(states, batch(41, 3), 100)
    append(states, batch(44), 103)


def test_a_batch_must_continue_where_the_last_one_ended(states: ProducerStates) -> None:
    append(states, batch(0, 3), 100)
    assert refused(states, batch(4)) is ErrorCode.out_of_order_sequence_number
    assert refused(states, batch(2)) is ErrorCode.out_of_order_sequence_number
    append(states, batch(3), 103)


def test_after_the_last_sequence_comes_zero(states: ProducerStates) -> None:
    append(states, batch(LAST_SEQUENCE), 100)
    assert refused(states, batch(1)) is ErrorCode.out_of_order_sequence_number
    append(states, batch(0), 101)


def test_a_batch_may_span_the_wrap_of_sequences(states: ProducerStates) -> None:
    append(states, batch(LAST_SEQUENCE - 1, 5), 100)
    append(states, batch(3), 105)
    assert states.check(batch(LAST_SEQUENCE - 1, 5)) == AppendedBefore(
        LAST_SEQUENCE - 1, 2, 100, 104, 1
    )


def test_a_retry_of_one_of_the_last_five_batches_gets_its_first_offsets(
    states: ProducerStates,
) -> None:
    for number in range(6):
        append(states, batch(2 * number, 2), 100 + 2 * number, timestamp=1000 + number)
    for number in range(1, 6):
        sequence, offset = 2 * number, 100 + 2 * number
        assert states.check(batch(sequence, 2)) == AppendedBefore(
            sequence, sequence + 1, offset, offset + 1, 1000 + number
        )
    assert refused(states, batch(0, 2)) is ErrorCode.out_of_order_sequence_number


def test_a_retry_with_other_boundaries_is_no_duplicate(states: ProducerStates) -> None:
    append(states, batch(0, 3), 100)
    assert refused(states, batch(0, 2)) is ErrorCode.out_of_order_sequence_number
    assert refused(states, batch(1, 2)) is ErrorCode.out_of_order_sequence_number


def test_a_fenced_producer_is_refused(states: ProducerStates) -> None:
    append(states, batch(0, epoch=3), 100)
    assert refused(states, batch(0, epoch=2)) is ErrorCode.invalid_producer_epoch
    assert refused(states, batch(1, epoch=2)) is ErrorCode.invalid_producer_epoch


def test_a_new_epoch_begins_with_sequence_zero_and_forgets_older_batches(
    states: ProducerStates,
) -> None:
    append(states, batch(0), 100)
    assert refused(states, batch(1, epoch=1)) is ErrorCode.out_of_order_sequence_number
    append(states, batch(0, epoch=1), 101)
    append(states, batch(1, epoch=1), 102)
    found = states.check(batch(0, epoch=1))
    assert found is not None
    assert found.base_offset == 101


def test_producers_do_not_know_each_other(states: ProducerStates) -> None:
    append(states, batch(0, producer=1), 100)
    append(states, batch(0, producer=2), 101)
    append(states, batch(1, producer=1), 102)


def test_a_coordinator_writes_without_sequences_but_is_fenced(states: ProducerStates) -> None:
    append(states, batch(NO_SEQUENCE, 2, attributes=TRANSACTIONAL), 100)
    append(states, batch(NO_SEQUENCE, 2, attributes=TRANSACTIONAL), 102)
    append(states, batch(NO_SEQUENCE, 2, epoch=1, attributes=TRANSACTIONAL), 104)
    assert refused(states, batch(NO_SEQUENCE, attributes=TRANSACTIONAL)) is (
        ErrorCode.invalid_producer_epoch
    )


def test_what_a_leader_appended_is_applied_without_checks(states: ProducerStates) -> None:
    states.apply(batch(5, epoch=1), 100, 1)
    states.apply(batch(50, epoch=1), 101, 1)
    states.apply(batch(7, epoch=0), 102, 1)
    append(states, batch(8, epoch=0), 103)


# Transactions


def test_an_open_transaction_holds_back_what_is_undecided(states: ProducerStates) -> None:
    append(states, batch(0, 2, attributes=TRANSACTIONAL), 100)
    append(states, batch(0, 1, producer=8, attributes=TRANSACTIONAL), 102)
    append(states, batch(2, 1, attributes=TRANSACTIONAL), 103)
    assert states.first_undecided_offset == 100
    assert end(states, 104) == CompletedTransaction(7, 100, 104, 102, True)
    assert states.first_undecided_offset == 102
    assert end(states, 105, producer=8) == CompletedTransaction(8, 102, 105, 106, True)
    assert states.first_undecided_offset is None


def test_a_transaction_is_unstable_until_its_marker_is_replicated(states: ProducerStates) -> None:
    append(states, batch(0, attributes=TRANSACTIONAL), 100)
    end(states, 101)
    append(states, batch(1, attributes=TRANSACTIONAL), 102)
    assert states.first_unstable_offset == 100
    states.on_high_watermark(101)
    assert states.first_unstable_offset == 100
    states.on_high_watermark(102)
    assert states.first_unstable_offset == 102
    end(states, 103)
    assert states.first_unstable_offset == 102
    states.on_high_watermark(104)
    assert states.first_unstable_offset is None


def test_a_marker_without_records_completes_nothing_but_fences(states: ProducerStates) -> None:
    assert end(states, 100, epoch=2) is None
    assert states.first_unstable_offset is None
    assert refused(states, batch(0, epoch=1)) is ErrorCode.invalid_producer_epoch
    assert refused(states, batch(5, epoch=2)) is ErrorCode.out_of_order_sequence_number
    append(states, batch(0, epoch=2), 101)


def test_sequences_go_on_after_a_marker_of_the_same_epoch(states: ProducerStates) -> None:
    append(states, batch(0, 2, attributes=TRANSACTIONAL), 100)
    end(states, 102)
    append(states, batch(2, attributes=TRANSACTIONAL), 103)


def test_a_marker_that_bumps_the_epoch_ends_the_transaction_of_the_old_one(
    states: ProducerStates,
) -> None:
    append(states, batch(0, attributes=TRANSACTIONAL), 100)
    assert end(states, 101, epoch=1) == CompletedTransaction(7, 100, 101, 102, True)
    assert refused(states, batch(1)) is ErrorCode.invalid_producer_epoch
    append(states, batch(0, epoch=1, attributes=TRANSACTIONAL), 102)


def test_a_marker_of_a_past_coordinator_that_is_in_the_log_is_applied(
    states: ProducerStates,
) -> None:
    """T24: followers and recovery take what the leader has written (KAFKA-9144)."""
    end(states, 0, coordinator=5)
    append(states, batch(0, attributes=TRANSACTIONAL), 1)
    ended = states.apply_marker(marker(), 2, 1, coordinator_epoch=4, aborted=True)
    assert ended is not None
    assert ended.first_offset == 1


def test_a_batch_outside_the_producers_transaction_is_refused(states: ProducerStates) -> None:
    append(states, batch(0, attributes=TRANSACTIONAL), 100)
    assert refused(states, batch(1)) is ErrorCode.invalid_txn_state
    end(states, 101)
    append(states, batch(1), 102)


def test_a_marker_of_a_past_coordinator_or_epoch_is_refused(states: ProducerStates) -> None:
    append(states, batch(0, epoch=1, attributes=TRANSACTIONAL), 100)
    end(states, 101, epoch=1, coordinator=5)
    with pytest.raises(BrokerError) as caught:
        states.check_marker(marker(epoch=1), 4)
    assert caught.value.code is ErrorCode.transaction_coordinator_fenced
    with pytest.raises(BrokerError) as caught:
        states.check_marker(marker(epoch=0), 5)
    assert caught.value.code is ErrorCode.invalid_producer_epoch
    states.check_marker(marker(epoch=1), 5)


# Expiry


def test_an_idle_producer_expires_and_may_start_with_any_sequence(states: ProducerStates) -> None:
    append(states, batch(0, producer=1), 100, timestamp=1000)
    append(states, batch(0, producer=2), 101, timestamp=1001)
    assert states.expire(DAY_MS + 999) == 0
    assert states.expire(DAY_MS + 1000) == 1
    append(states, batch(17, producer=1), 102)
    assert refused(states, batch(17, producer=2)) is ErrorCode.out_of_order_sequence_number


def test_a_producer_in_a_transaction_never_expires(states: ProducerStates) -> None:
    append(states, batch(0, attributes=TRANSACTIONAL), 100, timestamp=1)
    assert states.expire(9 * DAY_MS) == 0
    assert states.first_undecided_offset == 100
    end(states, 101)
    assert states.expire(9 * DAY_MS) == 1


def test_is_empty_only_while_nothing_is_remembered(states: ProducerStates) -> None:
    seen = [states.is_empty]
    append(states, batch(0, attributes=TRANSACTIONAL), 100)
    end(states, 101)
    seen.append(states.is_empty)
    states.expire(9 * DAY_MS)
    seen.append(states.is_empty)  # the marker is not replicated yet
    states.on_high_watermark(102)
    seen.append(states.is_empty)
    assert seen == [True, False, False, True]


# Snapshots

GOLDEN_TIME = 1_700_000_000_000


def golden_states() -> ProducerStates:
    states = ProducerStates(DAY_MS)
    append(states, batch(5, 5, producer=1000, epoch=3), 45, GOLDEN_TIME)
    states.apply_marker(
        marker(producer=1001), 49, GOLDEN_TIME + 1, coordinator_epoch=7, aborted=False
    )
    header = batch(0, 3, producer=1002, epoch=1, attributes=TRANSACTIONAL)
    append(states, header, 50, GOLDEN_TIME + 2)
    return states


def test_a_snapshot_has_kafkas_bytes() -> None:
    assert golden_states().to_snapshot() == GOLDEN
    assert ProducerStates(DAY_MS).to_snapshot() == bytes.fromhex("0001 48674bc7 00000000")


def test_a_snapshot_is_read_field_by_field() -> None:
    assert decode_snapshot(GOLDEN) == [
        SnapshotEntry(1000, 3, 9, 49, 4, GOLDEN_TIME, -1, -1),
        SnapshotEntry(1001, 0, -1, -1, 0, GOLDEN_TIME + 1, 7, -1),
        SnapshotEntry(1002, 1, 2, 52, 2, GOLDEN_TIME + 2, -1, 50),
    ]


def test_a_loaded_snapshot_replaces_the_state_and_goes_on(states: ProducerStates) -> None:
    append(states, batch(0, attributes=TRANSACTIONAL), 10)
    end(states, 11)
    states.load_snapshot(GOLDEN, GOLDEN_TIME)
    assert list(states.producers) == [1000, 1001, 1002]
    assert states.first_unstable_offset == 50
    assert states.check(batch(5, 5, producer=1000, epoch=3)) == AppendedBefore(
        5, 9, 45, 49, GOLDEN_TIME
    )
    append(states, batch(10, producer=1000, epoch=3), 53)
    append(states, batch(0, producer=1001), 54)
    with pytest.raises(BrokerError):
        states.check_marker(marker(producer=1001), 6)
    assert end(states, 55, producer=1002, epoch=1) is not None


def test_transactions_of_a_snapshot_are_ordered_by_offset_not_by_producer(
    states: ProducerStates,
) -> None:
    append(states, batch(0, producer=1), 99)
    append(states, batch(0, producer=2, attributes=TRANSACTIONAL), 100)
    append(states, batch(1, producer=1, attributes=TRANSACTIONAL), 101)
    states.load_snapshot(states.to_snapshot(), 1)
    assert list(states.producers) == [1, 2]
    assert states.first_undecided_offset == 100


def test_a_duplicate_across_the_wrap_is_found_after_a_snapshot(states: ProducerStates) -> None:
    append(states, batch(LAST_SEQUENCE, 3), 100)
    states.load_snapshot(states.to_snapshot(), 1)
    assert states.check(batch(LAST_SEQUENCE, 3)) == AppendedBefore(LAST_SEQUENCE, 1, 100, 102, 1)


def test_expired_producers_of_a_snapshot_are_not_loaded(states: ProducerStates) -> None:
    states.load_snapshot(GOLDEN, GOLDEN_TIME + 1 + DAY_MS)
    assert list(states.producers) == [1002]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "0 bytes are too few"),
        (GOLDEN[:9], "9 bytes are too few"),
        (b"\0\2" + GOLDEN[2:], "unknown version 2, expected 1"),
        (GOLDEN[:-1], "CRC is 0x[0-9a-f]{8}, should be 0x81953e18"),
        (GOLDEN + b"\0", "should be 0x81953e18"),
        (bytes(148), "unknown version 0"),
        (b"\0\1" + crc32c(b"\0\0\0\1").to_bytes(4) + b"\0\0\0\1", "1 entries do not fill 10 bytes"),
    ],
)
def test_a_damaged_snapshot_is_refused_and_changes_nothing(data: bytes, complaint: str) -> None:
    states = golden_states()
    with pytest.raises(CorruptSnapshot, match=complaint):
        states.load_snapshot(data, GOLDEN_TIME)
    assert states.to_snapshot() == GOLDEN


@pytest.mark.parametrize("position", range(len(GOLDEN)))
def test_no_flipped_bit_goes_unnoticed(position: int) -> None:
    damaged = bytearray(GOLDEN)
    damaged[position] ^= 0x10
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(bytes(damaged))


# The short way


SENT = st.tuples(
    st.sampled_from([0, 1, 2, 3, 5, LAST_SEQUENCE - 1, LAST_SEQUENCE]),
    st.integers(1, 3),
    st.sampled_from([7, 7, 8]),
    st.sampled_from([0, 0, 0, 1]),
    st.sampled_from([0, 0, TRANSACTIONAL]),
)


@given(st.lists(SENT, max_size=12))
def test_a_batch_that_is_expected_leads_to_the_same_state_by_the_short_way(
    sent: list[tuple[int, int, int, int, int]],
) -> None:
    states, model, offset = ProducerStates(DAY_MS), ProducerStates(DAY_MS), 0
    for sequence, count, producer, epoch, attributes in sent:
        header = batch(sequence, count, producer=producer, epoch=epoch, attributes=attributes)
        expecting = states.expecting(producer, epoch, sequence, attributes != 0)
        try:
            before = model.check(header, UNGUARDED)
        except BrokerError:
            assert expecting is None
            continue
        if before is not None:
            assert expecting is None
            continue
        model.apply(header, offset, offset)
        if expecting is not None:
            expecting.on_appended(sequence, offset, count, offset)
        else:
            states.apply(header, offset, offset)
        offset += count
        assert states.to_snapshot() == model.to_snapshot()
        for number, state in states.producers.items():
            assert state.batches == model.producers[number].batches
            assert state.next_sequence == model.producers[number].next_sequence


# -- ids that somebody invents -----------------------------------------------


def test_a_partition_knows_so_many_producers_and_forgets_those_that_do_not_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producer_state, "MOST_PRODUCERS", 100)
    states = ProducerStates(DAY_MS)
    append(states, batch(0, producer=1, attributes=TRANSACTIONAL), 0)
    for number in range(2_000):
        append(states, batch(number, producer=2), 2 * number + 1, timestamp=number)
        append(states, batch(0, producer=1_000 + number), 2 * number + 2, timestamp=number)
        assert len(states.producers) <= 100
    # One writes all the time, one has an open transaction: both are known to the end.
    assert states.producers[2].next_sequence == 2_000
    assert states.first_undecided_offset == 0
    assert {1, 2, 2_999} <= states.producers.keys()


def test_a_producer_that_was_forgotten_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "MOST_PRODUCERS", 1)
    states = ProducerStates(DAY_MS)
    append(states, batch(0, producer=1), 0)
    append(states, batch(0, producer=2), 1)
    append(states, batch(1, producer=1), 2)
    assert states.producers.keys() == {1}
