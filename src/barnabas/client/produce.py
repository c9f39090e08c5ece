"""Produce of one batch to one partition on the client's side, by hand, versions 9 to 11."""

import struct
from typing import Final, NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.client.frames import MalformedResponse, request_header
from barnabas.wire.apis import ApiKey
from barnabas.wire.varint import Truncated, read_uvarint, skip_tags, uvarint

_ACKS_TIMEOUT = struct.Struct(">hi")
_PARTITION = struct.Struct(">i")
_PRODUCED = struct.Struct(">ihqqq")
_ERRORS: Final = {int(code): code for code in ErrorCode}


class Produce(NamedTuple):
    """One batch, and where it goes."""

    topic: str
    partition: int
    batch: bytes | bytearray
    acks: int
    timeout_ms: int
    transactional_id: str | None = None


class Produced(NamedTuple):
    """The broker's error code, and where the batch begins in the log."""

    error: ErrorCode
    base_offset: int


def write_produce_request(
    version: int, correlation_id: int, client_id: str, produce: Produce
) -> bytes:
    """The whole frame, size first."""
    name, batch = produce.topic.encode(), produce.batch
    head = request_header(ApiKey.PRODUCE, version, correlation_id, client_id)
    head += _nullable(produce.transactional_id)
    head += _ACKS_TIMEOUT.pack(produce.acks, produce.timeout_ms)
    head += b"\2" + uvarint(len(name) + 1) + name
    head += b"\2" + _PARTITION.pack(produce.partition) + uvarint(len(batch) + 1)
    tail = b"\0\0\0"
    head[:4] = (len(head) - 4 + len(batch) + len(tail)).to_bytes(4, "big")
    return b"".join((head, batch, tail))


def _nullable(text: str | None) -> bytes:
    data = (text or "").encode()
    return b"\0" if text is None else uvarint(len(data) + 1) + data


def read_produce_response(version: int, response: memoryview) -> Produced:
    """The message in `response`, all that follows the correlation id, on the one partition.

    Raises  MalformedResponse, if it is cut short
    """
    try:
        _, position = read_uvarint(response, skip_tags(response, 0))
        name, position = read_uvarint(response, position)
        _, position = read_uvarint(response, position + name - 1)
        _, code, base_offset, _, _ = _PRODUCED.unpack_from(response, position)
    except (struct.error, Truncated) as failure:
        raise MalformedResponse(f"PRODUCE v{version}: {failure}") from None
    return Produced(_ERRORS.get(code, ErrorCode.unknown_server_error), base_offset)
