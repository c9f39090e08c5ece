"""Variable-length integers and tags, as kio writes them and as nobody should."""

import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kio.serial.writers import write_unsigned_varint
from kio.static.primitive import uvarint as kio_uvarint

from barnabas.wire.varint import Truncated, read_uvarint, skip_tags, uvarint

TAGS = st.lists(st.tuples(st.integers(0, 2**31), st.binary(max_size=200)), max_size=5)


@given(value=st.integers(0, 2**32 - 1), before=st.binary(max_size=3), after=st.binary(max_size=3))
@example(0, b"", b"")
@example(127, b"", b"")
@example(128, b"", b"")
@example(2**32 - 1, b"", b"\xff")
def test_what_is_written_is_what_kio_writes_and_reads_back(
    value: int, before: bytes, after: bytes
) -> None:
    out = io.BytesIO()
    write_unsigned_varint(out, kio_uvarint(value))
    assert uvarint(value) == out.getvalue()
    frame = memoryview(before + uvarint(value) + after)
    assert read_uvarint(frame, len(before)) == (value, len(frame) - len(after))


@pytest.mark.parametrize("cut", [b"", b"\x80", b"\xff\xff\xff\xff"])
def test_a_varint_that_the_frame_cuts_off_is_refused(cut: bytes) -> None:
    with pytest.raises(Truncated, match="ends inside"):
        read_uvarint(memoryview(cut), 0)


def test_a_varint_of_more_than_five_bytes_is_refused() -> None:
    with pytest.raises(Truncated, match="five bytes"):
        read_uvarint(memoryview(b"\xff" * 100), 0)


def written(tags: list[tuple[int, bytes]]) -> bytes:
    fields = [uvarint(tag) + uvarint(len(value)) + value for tag, value in tags]
    return uvarint(len(tags)) + b"".join(fields)


@given(TAGS, st.binary(max_size=5))
def test_tags_are_passed_over_whatever_they_hold(
    tags: list[tuple[int, bytes]], after: bytes
) -> None:
    section = written(tags)
    assert skip_tags(memoryview(section + after), 0) == len(section)


@given(TAGS, st.data())
def test_tags_that_the_frame_cuts_off_are_refused(
    tags: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    section = written(tags)
    cut = data.draw(st.integers(0, len(section) - 1))
    with pytest.raises(Truncated):
        skip_tags(memoryview(section[:cut]), 0)


def test_a_section_that_announces_all_the_tags_there_could_be_ends_with_the_frame() -> None:
    with pytest.raises(Truncated):
        skip_tags(memoryview(uvarint(2**32 - 1) + b"\0\0" * 1000), 0)
