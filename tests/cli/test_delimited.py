"""Splitting a stream into messages, independent of how its bytes arrive."""

import io
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.io.delimited import split


class Trickle:
    """A stream that returns its bytes in the given pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = iter(pieces)

    def read1(self, size: int, /) -> bytes:
        return next(self._pieces, b"")


@given(
    pieces=st.lists(st.text("ab\n;", min_size=1).map(str.encode)),
    delimiter=st.sampled_from([b"\n", b";", b"a;", b"\n\n"]),
)
def test_pieces_do_not_depend_on_how_the_bytes_arrive(
    pieces: list[bytes], delimiter: bytes
) -> None:
    whole = b"".join(pieces)
    expected = whole.split(delimiter)
    if not expected[-1]:
        expected.pop()
    assert list(split(Trickle(pieces), delimiter, 1000)) == expected


def test_empty_lines_are_messages_too() -> None:
    assert list(split(io.BytesIO(b"a\n\nb\n"), b"\n", 10)) == [b"a", b"", b"b"]


def test_a_message_is_yielded_before_the_next_one_arrives() -> None:
    arrived = split(Trickle([b"first\nsec", b"ond\n"]), b"\n", 100)
    assert next(arrived) == b"first"


class Endless:
    """An endless stream without a delimiter."""

    def __init__(self) -> None:
        self._chunks = repeat(b"x" * 1000)

    def read1(self, size: int, /) -> bytes:
        return next(self._chunks)


def test_an_endless_message_is_rejected_at_the_size_limit() -> None:
    with pytest.raises(CommandFailed, match="message 1 is larger than 5000 bytes"):
        list(split(Endless(), b"\n", 5000))
