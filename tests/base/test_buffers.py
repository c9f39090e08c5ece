"""Integers and slices of a buffer: the same in both versions, also beyond the end."""

import struct
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.checksum import crc32c
from tests.support.twins import both, in_python

NAME = "barnabas.base.buffers"
python = in_python(NAME)
pytestmark = pytest.mark.parametrize("twin", both(NAME))

READERS = ("byte_at", "short_at", "int_at", "uint_at", "long_at")
LONG = st.integers(-(2**63), 2**63 - 1)


def outcome(action: Any, *arguments: Any) -> Any:
    try:
        return action(*arguments)
    except struct.error:
        return struct.error


@given(data=st.binary(max_size=20), at=st.integers(0, 24))
def test_any_integer_is_read_alike(twin: ModuleType, data: bytes, at: int) -> None:
    for name in READERS:
        view = memoryview(data)
        expected = outcome(getattr(python, name), view, at)
        assert outcome(getattr(twin, name), view, at) == expected, name


@given(value=LONG, at=st.integers(0, 14), name=st.sampled_from(["put_int", "put_long"]))
def test_any_integer_is_written_alike(twin: ModuleType, value: int, at: int, name: str) -> None:
    memories = bytearray(16), bytearray(16)
    results = [
        outcome(getattr(each, name), memoryview(memory), at, value) is struct.error
        for each, memory in zip((twin, python), memories, strict=True)
    ]
    assert results[0] == results[1]
    assert memories[0] == memories[1]


def test_memory_that_is_read_only_is_not_written(twin: ModuleType) -> None:
    for name in ("put_int", "put_long"):
        with pytest.raises(TypeError):
            getattr(twin, name)(memoryview(bytes(16)), 0, 1)


@given(data=st.binary(min_size=4, max_size=20), cut=st.tuples(*[st.integers(0, 24)] * 3))
def test_any_slice_is_compared_alike(
    twin: ModuleType, data: bytes, cut: tuple[int, int, int]
) -> None:
    start, end, other = cut
    view = memoryview(data)
    for name, arguments in (
        ("bytes_at", (start, end)),
        ("are_equal", (start, other, 2)),
        ("is_at", (start, end, data[1:3])),
    ):
        expected = outcome(getattr(python, name), view, *arguments)
        assert outcome(getattr(twin, name), view, *arguments) == expected, name


@given(data=st.binary(min_size=2, max_size=50), start=st.integers(0, 2))
def test_a_crc_covers_the_slice(twin: ModuleType, data: bytes, start: int) -> None:
    assert twin.crc_of(memoryview(data), start, len(data)) == crc32c(data[start:])


@given(value=st.integers(0, 2**32 - 1))
def test_a_varint_is_the_same_bytes(twin: ModuleType, value: int) -> None:
    assert twin.uvarint(value) == python.uvarint(value)


@given(numbers=st.tuples(LONG, LONG, LONG), longs=st.sampled_from([16, 24]), end=st.binary())
def test_a_response_has_its_numbers_where_they_belong(
    twin: ModuleType, numbers: tuple[int, int, int], longs: int, end: bytes
) -> None:
    template = bytes(8) + b"head" + bytes(24) + b"tail"
    arguments = (template, 77, -5, 12, longs, *numbers, end)
    assert twin.filled(*arguments) == python.filled(*arguments)
