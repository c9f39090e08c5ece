"""Plain batches: what is one, where it lies in its request, and the answer; in both twins."""

import struct
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.wire.records.batch import set_crc
from barnabas.wire.records.records import Record, build_batch
from barnabas.wire.varint import uvarint
from tests.support.twins import both, in_python

NAME = "barnabas.wire.produce.plain_batch"
LARGEST = 1_000_000

python = in_python(NAME)
pytestmark = pytest.mark.parametrize("twin", both(NAME))


def a_batch(count: int = 2, **options: Any) -> bytearray:
    records = [Record(n, 1_000 + n, b"key", b"value", ()) for n in range(count)]
    return bytearray(build_batch(records, **options))


def flexible(records: bytes, end: bytes = b"\0\0\0") -> bytes:
    return b"head" + uvarint(len(records) + 1) + records + end


def classic(records: bytes) -> bytes:
    return b"head" + struct.pack(">i", len(records)) + records


FIELDS = (
    "length", "record_count", "max_timestamp", "producer_id", "producer_epoch", "base_sequence",
    "is_transactional",
)  # fmt: skip


def judged(
    twin: ModuleType, batch: bytearray, largest: int = LARGEST, may_be_transactional: bool = False
) -> Any:
    """The fields of a batch in the middle of a buffer, if it is plain."""
    view = memoryview(bytearray(b"before") + batch + b"after")
    found = twin.judge_plain(view, 6, 6 + len(batch), largest, may_be_transactional)
    if found is None:
        return None
    assert (found.view, found.at, found.size) == (view, 6, len(batch))
    return tuple(getattr(found, name) for name in FIELDS)


def found_in(twin: ModuleType, version: int, frame: bytes, at: int) -> bytes | None:
    """The records that the frame ends with, if their size is at `at`."""
    view = memoryview(b"before" + frame + b"after")
    start, end = twin.find_records(version, view, 6, 6 + len(frame), at)
    return bytes(view[start:end]) if start else None


def test_a_plain_batch_has_length_count_latest_timestamp_and_sequence(twin: ModuleType) -> None:
    batch = a_batch()
    assert judged(twin, batch) == (len(batch) - 12, 2, 1_001, -1, -1, -1, False)
    batch = a_batch(producer_id=2**40, producer_epoch=3, base_sequence=7)
    assert judged(twin, batch) == (len(batch) - 12, 2, 1_001, 2**40, 3, 7, False)


def test_a_batch_of_a_transaction_is_plain_where_the_request_names_one(twin: ModuleType) -> None:
    batch = a_batch(transactional=True, producer_id=5, producer_epoch=3, base_sequence=7)
    assert judged(twin, batch) is None
    assert judged(twin, batch, may_be_transactional=True) == (
        len(batch) - 12, 2, 1_001, 5, 3, 7, True,
    )  # fmt: skip
    assert judged(twin, a_batch(), may_be_transactional=True) == judged(twin, a_batch())
    for odd in (a_batch(transactional=True), a_batch(transactional=True, control=True)):
        assert judged(twin, odd, may_be_transactional=True) is None


@pytest.mark.parametrize(
    "odd",
    [
        a_batch(producer_id=1, producer_epoch=0, base_sequence=-1),
        a_batch(transactional=True),
        a_batch(control=True),
        a_batch()[:-1],
        a_batch() + b"?",
        a_batch()[:60],
        bytearray(),
    ],
    ids=["no sequence", "transactional", "control", "cut", "longer", "no header", "nothing"],
)
def test_a_batch_of_which_anything_is_to_be_asked_is_not_plain(
    twin: ModuleType, odd: bytearray
) -> None:
    assert judged(twin, odd) is None


def test_a_batch_is_not_plain_beyond_the_largest_size(twin: ModuleType) -> None:
    batch = a_batch()
    assert judged(twin, batch, len(batch)) is not None
    assert judged(twin, batch, len(batch) - 1) is None


@pytest.mark.parametrize("wrap", [flexible, classic])
@pytest.mark.parametrize("count", [1, 3, 200, 5_000])
def test_records_are_found_in_their_request(twin: ModuleType, wrap: Any, count: int) -> None:
    batch = bytes(a_batch(count))
    assert found_in(twin, 9 if wrap is flexible else 8, wrap(batch), 4) == batch


def test_records_that_something_follows_are_left_to_the_long_way(twin: ModuleType) -> None:
    for end in (b"\0\0\1", b"\0\0", b"\0\0\0\0"):
        assert found_in(twin, 9, flexible(b"records", end), 4) is None
    assert found_in(twin, 8, classic(b"records") + b"\0", 4) is None


@given(data=st.data())
def test_any_change_of_a_batch_is_judged_alike_by_both(
    twin: ModuleType, data: st.DataObject
) -> None:
    options = {"transactional": True, "producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    batch = a_batch(
        codec=data.draw(st.sampled_from([0, 1])), **data.draw(st.sampled_from([{}, options]))
    )
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        set_crc(batch)  # so that the fields are judged, not only the CRC
    for named in (False, True):
        assert judged(twin, batch, LARGEST, named) == judged(python, batch, LARGEST, named)


@given(frame=st.binary(max_size=40), version=st.sampled_from([8, 9]), at=st.integers(0, 40))
def test_any_bytes_are_read_alike_by_both(
    twin: ModuleType, frame: bytes, version: int, at: int
) -> None:
    wrapped = frame if at % 2 else frame[:at] + flexible(frame[at:])
    assert found_in(twin, version, wrapped, at) == found_in(python, version, wrapped, at)


LONG = st.integers(-(2**63), 2**63 - 1)


@given(
    numbers=st.tuples(st.integers(-(2**31), 2**31 - 1), LONG, LONG, LONG),
    longs=st.sampled_from([16, 24]),
)
def test_an_answer_has_its_numbers_where_they_belong(
    twin: ModuleType, numbers: tuple[int, int, int, int], longs: int
) -> None:
    whole = struct.pack(">ii", 36, 0) + b"head" + b"\xff" * 24 + b"tail"
    answer = twin.Answer(whole, 12, longs).response(*numbers)
    assert type(answer) is bytes
    expected = struct.pack(">ii4sqqq4s", 36, numbers[0], b"head", *numbers[1:], b"tail")
    assert answer[: 12 + longs] == expected[: 12 + longs]
    assert answer[12 + longs :] == whole[12 + longs :]


@given(
    numbers=st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), LONG, LONG, LONG), max_size=4),
    longs=st.sampled_from([16, 24]),
)
def test_several_answers_are_the_same_bytes_as_one_after_the_other(
    twin: ModuleType, numbers: list[tuple[int, int, int, int]], longs: int
) -> None:
    whole = struct.pack(">ii", 36, 0) + b"head" + b"\xff" * 24 + b"tail"
    answer = twin.Answer(whole, 12, longs)
    several = answer.several(len(numbers))
    for number, each in enumerate(numbers):
        answer.put(memoryview(several), number, *each)
    assert several == b"".join(answer.response(*each) for each in numbers)
