"""The header of a record batch: read, checked and patched where it lies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.wire.records.batch import (
    HEADER,
    HEADER_SIZE,
    BatchHeader,
    check_crc,
    headers,
    read_header,
    set_create_time,
    set_log_append_time,
    stamp,
)
from barnabas.wire.records.records import Record, build_batch, read_records

RECORDS = [Record(n, 1000 + n, b"key", b"value") for n in range(3)]


def test_the_header_is_61_bytes_in_the_order_of_the_format() -> None:
    assert HEADER.size == HEADER_SIZE
    batch = build_batch(RECORDS, leader_epoch=7, producer_id=8, producer_epoch=9, base_sequence=10)
    header = read_header(batch)
    assert header == BatchHeader(
        base_offset=0,
        batch_length=len(batch) - 12,
        leader_epoch=7,
        magic=2,
        crc=header.crc,
        attributes=0,
        last_offset_delta=2,
        base_timestamp=1000,
        max_timestamp=1002,
        producer_id=8,
        producer_epoch=9,
        base_sequence=10,
        record_count=3,
    )
    assert (header.size, header.last_offset, header.next_offset) == (len(batch), 2, 3)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (0b0000000, (0, False, False, False, False)),
        (0b0000100, (4, False, False, False, False)),
        (0b0001000, (0, True, False, False, False)),
        (0b0010000, (0, False, True, False, False)),
        (0b0110000, (0, False, True, True, False)),
        (0b1000011, (3, False, False, False, True)),
    ],
)
def test_attributes_are_read_bit_by_bit(
    attributes: int, expected: tuple[int, bool, bool, bool, bool]
) -> None:
    header = read_header(build_batch(RECORDS))._replace(attributes=attributes)
    assert expected == (
        header.codec,
        header.log_append_time,
        header.is_transactional,
        header.is_control,
        header.has_delete_horizon,
    )


@pytest.mark.parametrize(
    ("base_sequence", "last_sequence"),
    [(-1, -1), (0, 2), (2**31 - 3, 2**31 - 1), (2**31 - 2, 0), (2**31 - 1, 1)],
)
def test_sequences_wrap_to_zero_after_the_largest_int(
    base_sequence: int, last_sequence: int
) -> None:
    header = read_header(build_batch(RECORDS, base_sequence=base_sequence))
    assert header.last_sequence == last_sequence


def test_a_header_that_is_cut_is_corrupt() -> None:
    with pytest.raises(BrokerError, match="60 are left") as raised:
        read_header(bytes(70), 10)
    assert raised.value.code is ErrorCode.corrupt_message


def test_stamping_gives_offset_and_epoch_and_leaves_the_crc_right() -> None:
    batch = build_batch(RECORDS)
    stamp(memoryview(batch), 1234, len(batch) - 12, 5)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch, header.next_offset) == (1234, 5, 1237)
    assert check_crc(batch)
    assert [record.offset for record in read_records(batch)] == [1234, 1235, 1236]


@given(st.data())
def test_a_flipped_bit_after_the_epoch_is_caught_by_the_crc(data: st.DataObject) -> None:
    batch = build_batch(RECORDS)
    at = data.draw(st.integers(17, len(batch) - 1))
    batch[at] ^= 1 << data.draw(st.integers(0, 7))
    assert not check_crc(batch)


def test_log_append_time_is_set_in_place_and_taken_back() -> None:
    batch = build_batch(RECORDS)
    before = bytes(batch)
    set_log_append_time(memoryview(batch), 5000)
    header = read_header(batch)
    assert header.log_append_time
    assert header.max_timestamp == 5000
    assert check_crc(batch)
    assert {record.timestamp for record in read_records(batch)} == {5000}
    set_create_time(memoryview(batch), 1002)
    assert bytes(batch) == before


def test_batches_are_walked_up_to_a_cut_tail() -> None:
    batches = [build_batch([Record(n, 0, None, b"x" * n)], base_offset=n) for n in range(5)]
    buffer = b"".join(batches)
    for cut in range(len(batches[-1])):
        found = list(headers(memoryview(buffer)[: len(buffer) - cut]))
        assert [header.base_offset for _, header in found] == list(range(4 if cut else 5))
        assert [position for position, _ in found] == [
            sum(map(len, batches[:n])) for n in range(len(found))
        ]
    assert list(headers(b"")) == []


@pytest.mark.parametrize("length", [-(2**31), -12, 0, 48])
def test_walking_stops_at_a_batch_too_short_for_its_header(length: int) -> None:
    batch = build_batch(RECORDS)
    buffer = batch + HEADER.pack(*read_header(batch)._replace(batch_length=length))
    walk = headers(buffer)
    assert next(walk)[0] == 0
    with pytest.raises(BrokerError, match=f"at byte {len(batch)}") as raised:
        next(walk)
    assert raised.value.code is ErrorCode.corrupt_message
