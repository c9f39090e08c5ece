"""Splits a stream of bytes at a delimiter, keeping no more of it than one message."""

from collections.abc import Iterator
from typing import Protocol

from barnabas.cli.exit_codes import CommandFailed

_CHUNK = 64 * 1024


class Stream(Protocol):
    """Gives what has arrived, `size` bytes at most; nothing at its end."""

    def read1(self, size: int, /) -> bytes: ...


def split(stream: Stream, delimiter: bytes, max_size: int) -> Iterator[bytes]:
    """The pieces between delimiters, each as soon as it is there; the last needs no delimiter.

    Raises  CommandFailed at a piece longer than `max_size`, after all before it have been given
    """
    tail = bytearray()
    number = 1
    while chunk := stream.read1(_CHUNK):
        # Only what is new, and what may be the beginning of a delimiter, is searched again.
        searched = max(0, len(tail) - len(delimiter) + 1)
        tail += chunk
        if tail.find(delimiter, searched) >= 0:
            *pieces, rest = bytes(tail).split(delimiter)
            yield from pieces
            number += len(pieces)
            tail = bytearray(rest)
        if len(tail) > max_size:
            raise CommandFailed(
                f"message {number} is longer than {max_size} bytes; if it is one message,"
                " allow it with -X message.max.bytes=BYTES, else choose its delimiter with -D"
            )
    if tail:
        yield bytes(tail)
