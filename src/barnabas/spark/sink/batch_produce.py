"""Produce of one batch to one partition, by hand: written around the batch, and its answer read."""

import struct
from typing import Final, NamedTuple

from barnabas.base.errors import BarnabasError
from barnabas.wire.varint import Truncated, read_uvarint, skip_tags, uvarint

VERSION: Final = 9  # Kafka has it from 2.4 on, and Kafka 4 still
_API: Final = 0
_CLIENT: Final = b"barnabas-spark"
_CORRELATION: Final = 1

_HEADER = struct.Struct(">hhih")
_ACKS_TIMEOUT = struct.Struct(">hi")
_PARTITION = struct.Struct(">i")
_SIZE = struct.Struct(">i")
_PRODUCED = struct.Struct(">ihqqq")


class Malformed(BarnabasError):
    """The bytes are no answer to Produce."""


class Produced(NamedTuple):
    """A broker's answer: the error's number, and where the batch begins in the log."""

    error: int
    base_offset: int


def write_produce(
    topic: str, partition: int, batch: bytes | bytearray, acks: int, timeout_ms: int
) -> bytes:
    """The whole frame, size first."""
    name = topic.encode()
    head = b"".join(
        (
            _HEADER.pack(_API, VERSION, _CORRELATION, len(_CLIENT)),
            _CLIENT,
            b"\0\0",  # no tags, no transaction
            _ACKS_TIMEOUT.pack(acks, timeout_ms),
            b"\2",
            uvarint(len(name) + 1),
            name,
            b"\2",
            _PARTITION.pack(partition),
            uvarint(len(batch) + 1),
        )
    )
    tail = b"\0\0\0"
    return b"".join((_SIZE.pack(len(head) + len(batch) + len(tail)), head, batch, tail))


def read_produced(answer: memoryview) -> Produced:
    """What `answer`, all that follows the correlation id, says of the one partition.

    Raises  Malformed, if it is cut short
    """
    try:
        _, position = read_uvarint(answer, skip_tags(answer, 0))
        name, position = read_uvarint(answer, position)
        _, position = read_uvarint(answer, position + name - 1)
        _, code, base_offset, _, _ = _PRODUCED.unpack_from(answer, position)
    except (struct.error, Truncated) as failure:
        raise Malformed(f"not an answer to Produce: {failure}") from None
    return Produced(code, base_offset)
