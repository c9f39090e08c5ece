"""Delimited messages of a byte stream; buffers one message at most."""

from collections.abc import Iterator
from typing import Protocol

from barnabas.cli.exit_codes import CommandFailed

_CHUNK = 64 * 1024


class Stream(Protocol):
    """A stream whose `read1` returns available bytes, at most `size`; empty at its end."""

    def read1(self, size: int, /) -> bytes: ...


def split(stream: Stream, delimiter: bytes, max_size: int) -> Iterator[bytes]:
    """Yield each message as soon as its delimiter arrives; the last needs none.

    Raises  CommandFailed at a message longer than `max_size`, after yielding those before it
    """
    tail = bytearray()
    number = 1
    while chunk := stream.read1(_CHUNK):
        # Search only the new bytes, and a possible start of the delimiter before them.
        searched = max(0, len(tail) - len(delimiter) + 1)
        tail += chunk
        if tail.find(delimiter, searched) >= 0:
            *pieces, rest = bytes(tail).split(delimiter)
            yield from pieces
            number += len(pieces)
            tail = bytearray(rest)
        if len(tail) > max_size:
            raise CommandFailed(
                f"message {number} is larger than {max_size} bytes; raise the limit with"
                " -X message.max.bytes=BYTES, or set another delimiter with -D"
            )
    if tail:
        yield bytes(tail)
