"""The walk over a batch's records: what passes it can be read; the same in both versions."""

import ctypes
import mmap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barnabas.wire.records.batch import HEADER_SIZE, read_header
from barnabas.wire.records.record_walk import FAULTS, MOST_REFUSED
from barnabas.wire.records.records import Record, build_batch, read_records, write_varint
from tests.support.twins import both, in_python

NAME = "barnabas.wire.records.record_walk"
NOW = 1_700_000_000_000
python = in_python(NAME)
pytestmark = pytest.mark.parametrize("twin", both(NAME))

fields = st.none() | st.binary(max_size=80)
record_lists = st.lists(
    st.tuples(st.integers(-5, 2**62), fields, fields, st.lists(st.tuples(st.text(), fields))),
    min_size=1,
    max_size=5,
).map(lambda rows: [Record(n, t, k, v, tuple(h)) for n, (t, k, v, h) in enumerate(rows)])


def varint(value: int) -> bytes:
    data = bytearray()
    write_varint(data, value)
    return bytes(data)


def record(body: bytes) -> bytes:
    return varint(len(body)) + body


def walked(twin: ModuleType, data: bytes, count: int, **options: Any) -> tuple[int, int, int]:
    """The outcome for records in the middle of a buffer."""
    view = memoryview(b"before" + data + b"after")
    found: tuple[int, int, int] = twin.walk_records(
        view, 6, 6 + len(data), count, options.pop("last", count - 1), NOW, **options
    )
    return found


@given(records=record_lists)
def test_what_producers_write_passes_and_its_greatest_timestamp_is_found(
    twin: ModuleType, records: list[Record]
) -> None:
    batch = memoryview(build_batch(records))
    count, base = len(records), records[0].timestamp
    found = twin.walk_records(batch, HEADER_SIZE, len(batch), count, count - 1, base)
    assert found == (0, 0, max(-1, *(each.timestamp for each in records)))


PLAIN_BODY = b"\0\0\0\1\1\0"  # attributes, timestamp, offset, no key, no value, no headers
HEADED = b"\0\0\0\1\1\2"  # the same, with one header


@pytest.mark.parametrize(
    ("data", "count", "fault"),
    [
        (record(PLAIN_BODY), 1, ""),
        (record(b"\0\0\0\0\0\0"), 1, ""),
        (record(HEADED + b"\2k\1"), 1, ""),
        (b"\x8c\x00" + PLAIN_BODY, 1, ""),  # a length that is longer than it need be
        (b"", 1, "length"),
        (record(PLAIN_BODY), 2, "length"),
        (record(PLAIN_BODY)[:-1], 1, "length"),
        (record(PLAIN_BODY[:-1]), 1, "length"),
        (varint(-1) + PLAIN_BODY, 1, "length"),
        (b"\xff\xff\xff\xff\xff" + PLAIN_BODY, 1, "length"),
        (b"\x8c\x80\x80\x80\x80\x00" + PLAIN_BODY, 1, "length"),  # six bytes
        (b"\x8c\x80\x80\x80\x10" + PLAIN_BODY, 1, "length"),  # bits beyond 32
        (record(b"\0" + b"\xff" * 10 + PLAIN_BODY[2:]), 1, "number"),
        (record(b"\0" + b"\xff" * 9 + b"\x03" + PLAIN_BODY[2:]), 1, "number"),
        (record(b"\0" + varint(2**63 - 1) + PLAIN_BODY[2:]), 1, "timestamp"),
        (record(b"\0\0\2\1\1\0"), 1, "offset delta"),
        (record(b"\0\0\1\1\1\0"), 1, "offset delta"),
        (record(PLAIN_BODY) * 2, 2, "offset delta"),
        (record(PLAIN_BODY) + record(b"\0\0\4\1\1\0"), 2, "offset delta"),
        (record(b"\0\0\0\3\1\0"), 1, "key, value or header"),  # a key of -2 bytes
        (record(b"\0\0\0\1\3\0"), 1, "key, value or header"),
        (record(b"\0\0\0\x20\1\0"), 1, "key, value or header"),
        (record(b"\0\0\0\1\x20\0"), 1, "key, value or header"),
        (record(b"\0\0\0\1\1\1"), 1, "key, value or header"),  # minus one header
        (record(HEADED + b"\1\1"), 1, "key, value or header"),  # a header without a key
        (record(HEADED + b"\2k\3"), 1, "key, value or header"),
        (record(HEADED), 1, "key, value or header"),
        (record(b"\0\0\0\1\1" + varint(2**31 - 1)), 1, "key, value or header"),
        (record(HEADED + b"\4k\x80\1"), 1, "UTF-8"),
        (record(HEADED + b"\0\x04v"), 1, "do not end"),
        (record(HEADED + b"\0\x00v"), 1, "do not end"),
        (record(PLAIN_BODY + b"?"), 1, "do not end"),
        (record(PLAIN_BODY) + b"?", 1, "bytes follow"),
        (record(PLAIN_BODY) + record(b"\0\0\2\1\1\0"), 1, "bytes follow"),
    ],
)
def test_every_fault_ends_the_walk(twin: ModuleType, data: bytes, count: int, fault: str) -> None:
    number, index, _ = walked(twin, data, count)
    assert bool(number) is bool(fault)
    assert fault in FAULTS[number]
    assert 0 <= index < count


usual_rows = st.lists(
    st.tuples(
        st.integers(-9000, 9000) | st.just(0),
        st.none() | st.binary(max_size=90),
        st.none() | st.integers(0, 200).map(bytes) | st.integers(8000, 9000).map(bytes),
        st.just(()) | st.just((("k", b"v"),)),
    ),
    min_size=1,
    max_size=100,
)
mutations = st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=3)


@given(usual_rows, mutations, st.integers(0, 40))
def test_records_of_the_usual_form_are_judged_as_others_are(
    twin: ModuleType, rows: list[Any], mutations: list[tuple[int, int]], cut: int
) -> None:
    records = [Record(n, NOW + t, k, v, h) for n, (t, k, v, h) in enumerate(rows)]
    data = bytearray(build_batch(records)[HEADER_SIZE:])
    for at, byte in mutations:
        data[at % len(data)] = byte
    data = data[: len(data) - cut] if len(data) > cut else data
    # With `needs_key` the walk takes the general way. No result here depends on a missing key.
    general = walked(twin, bytes(data), len(rows), needs_key=True)
    assert walked(twin, bytes(data), len(rows)) == general


@pytest.fixture(scope="module")
def guarded() -> Iterator[memoryview]:
    """Bytes whose end is that of their pages: who reads beyond it is killed."""
    system, size = ctypes.CDLL(None, use_errno=True), 8 * 16_384  # a multiple of any page size
    system.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    pages = mmap.mmap(-1, size + mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    guard = ctypes.addressof(ctypes.c_char.from_buffer(pages, size))
    assert system.mprotect(guard, mmap.PAGESIZE, 0) == 0
    with memoryview(pages) as view, view[:size] as usable:
        yield usable


@pytest.mark.parametrize(
    ("size", "count"), [(-1, 1), (-1, 70), (0, 70), (70, 70), (8_190, 9), (-1, 8_192)]
)
def test_nothing_is_read_beyond_the_end(
    twin: ModuleType, guarded: memoryview, size: int, count: int
) -> None:
    value = None if size < 0 else bytes(size)
    records = [Record(n, NOW + 100 * (n % 70), None, value) for n in range(count)]
    whole = bytes(build_batch(records)[HEADER_SIZE:])
    cut = [whole[:-n] + bytes([last]) for n in range(1, 13) for last in (0, 1, 0x7F, 0x80, 0xFF)]
    # One more record, which ends within one of its numbers.
    body = b"\0\x80\1" + varint(count) + b"\x80\1" + bytes(64) + b"\x80\1"
    short = [whole + record(body[:n]) for n in range(len(body))]
    short += [whole + bytes([2 * n | 0x80, 0]) + body[:n] for n in range(12)]
    for data in cut + short:
        view = guarded[len(guarded) - len(data) :]
        view[:] = data
        found = twin.walk_records(view, 0, len(view), count + 1, count, NOW)
        assert found == walked(twin, data, count + 1)


@pytest.mark.parametrize("count", [63, 64, 65, 8191, 8192, 8193, 20_000])
def test_offset_deltas_of_any_length_are_checked(twin: ModuleType, count: int) -> None:
    bodies = [b"\0\2" + varint(number) + b"\1\1\0" for number in range(count)]
    assert walked(twin, b"".join(map(record, bodies)), count) == (0, 0, NOW + 1)
    bodies[-1] = b"\0\2" + varint(count) + b"\1\1\0"
    number, index, _ = walked(twin, b"".join(map(record, bodies)), count)
    assert ("offset delta" in FAULTS[number], index) == (True, count - 1)


def test_offset_deltas_of_a_compacted_batch_may_have_gaps(twin: ModuleType) -> None:
    data = record(b"\0\0\2\1\1\0") + record(b"\0\0\x08\1\1\0")
    assert walked(twin, data, 2, last=4)[0] == 0
    assert walked(twin, data, 2, last=3)[0] != 0
    assert walked(twin, b"", 0, last=4) == (0, 0, -1)


def test_records_that_the_topic_refuses_are_collected(twin: ModuleType) -> None:
    def delta(value: int, offset: int, key: bytes) -> bytes:
        return record(b"\0" + varint(value) + varint(offset) + key + b"\1\0")

    data = b"".join(
        [
            delta(-11, 0, b"\2k"),
            delta(-10, 1, b"\1"),
            delta(10, 2, b"\0"),
            delta(11, 3, b"\1"),
            delta(-NOW - 1, 4, b"\0"),
        ]
    )
    refused: list[tuple[int, bool, int]] = []
    limits: dict[str, Any] = {"earliest": NOW - 10, "latest": NOW + 10, "refused": refused}
    assert walked(twin, data, 5, needs_key=True, **limits) == (0, 0, NOW + 11)
    assert refused == [(0, False, NOW - 11), (1, True, NOW - 10), (3, True, NOW + 11)]
    refused.clear()
    walked(twin, data, 5, **limits)
    assert refused == [(0, False, NOW - 11), (3, False, NOW + 11)]


def test_no_more_refused_records_are_collected_than_a_response_names(twin: ModuleType) -> None:
    count = MOST_REFUSED + 5
    data = b"".join(record(b"\0\0" + varint(n) + b"\1\1\0") for n in range(count))
    refused: list[tuple[int, bool, int]] = []
    assert walked(twin, data, count, needs_key=True, refused=refused)[0] == 0
    assert len(refused) == MOST_REFUSED


@given(data=st.binary(max_size=60), count=st.integers(0, 4), last=st.integers(0, 5))
@example(data=record(b"\0" + varint(-(2**63)) + PLAIN_BODY[2:]), count=1, last=0)
def test_any_bytes_are_judged_alike_in_both_versions(
    twin: ModuleType, data: bytes, count: int, last: int
) -> None:
    assert walked(twin, data, count, last=last) == walked(python, data, count, last=last)


@given(key=st.binary(max_size=4) | st.text(max_size=3).map(lambda text: text.encode()))
@example(key=b"\xed\xa0\x80")
@example(key=b"\xe0\x9f\xbf")
@example(key=b"\xf0\x8f\xbf\xbf")
@example(key=b"\xf4\x90\x80\x80")
def test_the_key_of_a_header_is_text(twin: ModuleType, key: bytes) -> None:
    try:
        key.decode()
        expected = ""
    except UnicodeDecodeError:
        expected = "the key of a header is not UTF-8"
    number, _, _ = walked(twin, record(HEADED + varint(len(key)) + key + b"\1"), 1)
    assert FAULTS[number] == expected


@given(records=record_lists, at=st.integers(0, 400), byte=st.integers(0, 255))
def test_what_passes_is_read_by_the_decoder(
    twin: ModuleType, records: list[Record], at: int, byte: int
) -> None:
    batch = build_batch(records)
    batch[HEADER_SIZE + at % (len(batch) - HEADER_SIZE)] = byte
    header = read_header(batch)
    fault, _, greatest = twin.walk_records(
        memoryview(batch),
        HEADER_SIZE,
        len(batch),
        header.record_count,
        header.last_offset_delta,
        header.base_timestamp,
    )
    if not fault:
        read = read_records(batch)
        assert [each.offset for each in read] == list(range(len(records)))
        assert greatest == max(-1, *(each.timestamp for each in read))
