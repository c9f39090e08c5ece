"""Fetch of one partition by its topic's id, by hand: records stay where the socket wrote them.

Version 13 is the first that names a topic by id, so a topic that was deleted and made again is
never read for the former one. Brokers have it from Kafka 3.1 on.
"""

import struct
import uuid
from typing import Final, NamedTuple

from barnabas.base.errors import BarnabasError
from barnabas.wire.varint import Truncated, read_uvarint, skip_tags

VERSION: Final = 13
_API: Final = 1
_NO_SESSION_EPOCH: Final = -1
_CLIENT: Final = b"barnabas-spark"

_HEADER = struct.Struct(">hhih")
# Replica id, longest wait, fewest and most bytes, isolation level, session id and epoch.
_LIMITS = struct.Struct(">iiiibii")
# Partition, current leader epoch, offset, last fetched epoch, log start, most bytes.
_PARTITION = struct.Struct(">iiqiqi")
_SIZE = struct.Struct(">i")
_CORRELATION: Final = 1

_THROTTLE_ERROR_SESSION = struct.Struct(">ihi")
_FETCHED = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_PREFERRED_REPLICA_BYTES: Final = 4


class Malformed(BarnabasError):
    """The bytes are no answer to Fetch."""


class Limits(NamedTuple):
    """How much one request may bring, and how long the broker may gather it."""

    max_bytes: int
    min_bytes: int = 1
    max_wait_ms: int = 500
    read_committed: bool = False


class Fetched(NamedTuple):
    """A broker's answer; `aborted` are transactions as (producer id, first offset)."""

    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]]
    records: memoryview


def write_fetch(
    topic_id: uuid.UUID, partition: int, offset: int, leader_epoch: int, limits: Limits
) -> bytes:
    """The whole frame, size first; `leader_epoch` is -1 where the asker does not know it."""
    body = b"".join(
        (
            _HEADER.pack(_API, VERSION, _CORRELATION, len(_CLIENT)),
            _CLIENT,
            b"\0",
            _LIMITS.pack(
                -1,
                limits.max_wait_ms,
                limits.min_bytes,
                limits.max_bytes,
                limits.read_committed,
                0,
                _NO_SESSION_EPOCH,
            ),
            b"\2",
            topic_id.bytes,
            b"\2",
            _PARTITION.pack(partition, leader_epoch, offset, -1, -1, limits.max_bytes),
            b"\0\0\1\1\0",  # no tags twice, nothing forgotten, no rack, no tags
        )
    )
    return _SIZE.pack(len(body)) + body


def read_fetch(answer: memoryview) -> Fetched:
    """What `answer`, all that follows the correlation id, says of the one partition.

    Raises  Malformed, if it is cut short or no answer to Fetch
    """
    try:
        position = skip_tags(answer, 0)
        _, code, _ = _THROTTLE_ERROR_SESSION.unpack_from(answer, position)
        topics, position = read_uvarint(answer, position + _THROTTLE_ERROR_SESSION.size)
        if code or topics < 2:
            return Fetched(code or -1, -1, -1, -1, [], answer[:0])
        _, position = read_uvarint(answer, position + 16)
        return _read_partition(answer, position)
    except (struct.error, Truncated) as failure:
        raise Malformed(f"not an answer to Fetch: {failure}") from None


def _read_partition(answer: memoryview, position: int) -> Fetched:
    _, code, high_watermark, stable, log_start = _FETCHED.unpack_from(answer, position)
    count, position = read_uvarint(answer, position + _FETCHED.size)
    aborted = []
    for _ in range(count - 1):
        aborted.append(_ABORTED.unpack_from(answer, position))
        position = skip_tags(answer, position + _ABORTED.size)
    size, position = read_uvarint(answer, position + _PREFERRED_REPLICA_BYTES)
    end = position + max(0, size - 1)
    if end > len(answer):
        raise Truncated("records reach past the end of the answer")
    return Fetched(code, high_watermark, stable, log_start, aborted, answer[position:end])
