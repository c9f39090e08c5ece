"""Whole batches at the beginning of some bytes, and the answer that carries them; both twins."""

import struct
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.wire.records.batch import headers, stamp
from barnabas.wire.records.batch_walk import MOST_WALKED
from barnabas.wire.records.records import Record, build_batch
from tests.support.twins import both, in_python

WHOLE, SINGLE = "barnabas.wire.records.batch_walk", "barnabas.wire.fetch.single_answer"
FOR_ALL = 2**63 - 1


def a_log(*counts: int) -> bytes:
    """Batches with so many records each, one after another."""
    log, offset = bytearray(), 0
    for count in counts:
        records = [Record(n, 1_000, None, b"value", ()) for n in range(count)]
        batch = bytearray(build_batch(records))
        stamp(batch, offset, len(batch) - 12, 0)
        log += batch
        offset += count
    return bytes(log)


@pytest.mark.parametrize("twin", both(WHOLE))
@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    cut=st.integers(0, 600),
    upto=st.integers(0, 30),
)
def test_only_whole_batches_before_the_bound_count(
    twin: ModuleType, counts: list[int], cut: int, upto: int
) -> None:
    data = a_log(*counts)[:cut]
    size, next_offset = 0, 0
    for position, header in headers(data):
        if header.next_offset > upto:
            break
        size, next_offset = position + header.size, header.next_offset
    assert twin.whole_batches(memoryview(data), upto) == (size, next_offset)


@pytest.mark.parametrize("twin", both(WHOLE))
def test_more_batches_than_are_walked_are_left_to_the_index(twin: ModuleType) -> None:
    as_many = a_log(*[1] * MOST_WALKED)
    assert twin.whole_batches(memoryview(as_many), FOR_ALL) == (len(as_many), MOST_WALKED)
    assert twin.whole_batches(memoryview(a_log(*[1] * (MOST_WALKED + 1))), FOR_ALL)[0] == -1


@pytest.mark.parametrize("twin", both(WHOLE))
def test_bytes_that_are_no_batch_are_left_to_validation(twin: ModuleType) -> None:
    assert twin.whole_batches(memoryview(bytes(100)), FOR_ALL)[0] == -1
    assert twin.whole_batches(memoryview(b""), FOR_ALL) == (0, 0)


@pytest.mark.parametrize("twin", both(WHOLE))
@given(data=st.binary(min_size=50, max_size=200), length=st.integers(40, 120))
def test_any_bytes_are_walked_alike_by_both(twin: ModuleType, data: bytes, length: int) -> None:
    # Small offsets, so that no sum leaves the range in which offsets are.
    view = memoryview(bytes(4) + data[4:8] + struct.pack(">i", length) + data[12:])
    expected = in_python(WHOLE).whole_batches(view, FOR_ALL)
    assert twin.whole_batches(view, FOR_ALL) == expected


LONG = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize("twin", both(SINGLE))
@given(
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    longs=st.tuples(LONG, LONG, LONG),
    size=st.sampled_from([0, 1, 126, 127, 128, 16_382, 16_383, 2_097_151, 2_097_152]),
    tail=st.sampled_from([b"", b"\0\0\0"]),
    width=st.sampled_from([16, 24]),
)
def test_an_answer_is_the_same_bytes_from_both(
    twin: ModuleType,
    correlation_id: int,
    longs: tuple[int, int, int],
    size: int,
    tail: bytes,
    width: int,
) -> None:
    parts = (b"head", width, b"middle", tail)
    records = memoryview(bytes(size))
    expected = in_python(SINGLE).SingleAnswer(*parts).response(correlation_id, *longs, records)
    answer = twin.SingleAnswer(*parts).response(correlation_id, *longs, records)
    assert answer == expected
    assert answer[1] is records, "not copied"
    whole = b"".join(answer)
    assert struct.unpack_from(">ii", whole) == (len(whole) - 4, correlation_id)
