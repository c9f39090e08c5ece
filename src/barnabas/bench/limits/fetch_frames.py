"""Fetch frames of one topic: requests in a fetch session or without one, and their answers.

Version 12, as in `messages`: flexible, and still with topic names. Records are not copied out of an
answer, and only the headers of their batches are read.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.bench.limits.load_messages import (
    compact_string,
    framed,
    request_head,
    unsigned_varint,
)
from barnabas.wire.varint import read_uvarint, skip_tags

MIB: Final = 2**20
VERSION: Final = 12
CONSUMER: Final = -1
NO_SESSION: Final = -1

_LIMITS = struct.Struct(">iiiibii")  # replica, wait, least and most bytes, isolation, session
_WANTED = struct.Struct(">iiqiqiB")  # partition, epoch, offset, last epoch, log start, bytes, tags
_ANSWER = struct.Struct(">ihi")  # throttle time, error, session
_PARTITION = struct.Struct(">ihqqq")  # partition, error, high watermark, last stable, log start
_ABORTED_BYTES: Final = 17
_BATCH = struct.Struct(">qi")  # base offset, length of what follows
_BATCH_OVERHEAD: Final = 12
_LAST_DELTA_AT: Final = 23


@dataclass(frozen=True, slots=True)
class Limits:
    """A consumer's bounds; the defaults are those of the Java consumer."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 * MIB
    partition_max_bytes: int = MIB
    max_poll_records: int = 500


@dataclass(frozen=True, slots=True)
class FetchAsked:
    """One request: offsets by partition in the order of the request, and what to forget.

    Epoch -1 is a fetch without a session, 0 one that opens a session.
    """

    to_send: Mapping[int, int]
    to_forget: Sequence[int] = ()
    session_id: int = 0
    session_epoch: int = NO_SESSION


class PartitionAnswered(NamedTuple):
    partition: int
    code: int
    high_watermark: int
    records: memoryview


@dataclass(frozen=True, slots=True)
class FetchAnswered:
    code: int
    session_id: int
    partitions: list[PartitionAnswered]


def write_asked(
    topic: str,
    asked: FetchAsked,
    limits: Limits,
    *,
    replica_id: int = CONSUMER,
    leader_epoch: int = -1,
) -> bytes:
    """The frame of a request, size first."""
    body = bytearray(request_head(1, VERSION))
    body += _LIMITS.pack(
        replica_id,
        limits.max_wait_ms,
        limits.min_bytes,
        limits.max_bytes,
        0,
        asked.session_id,
        asked.session_epoch,
    )
    name = compact_string(topic)
    body += unsigned_varint(2 if asked.to_send else 1)
    if asked.to_send:
        body += name + unsigned_varint(len(asked.to_send) + 1)
        size = limits.partition_max_bytes
        for partition, offset in asked.to_send.items():
            body += _WANTED.pack(partition, leader_epoch, offset, -1, -1, size, 0)
        body += b"\0"
    body += unsigned_varint(2 if asked.to_forget else 1)
    if asked.to_forget:
        body += name + unsigned_varint(len(asked.to_forget) + 1)
        body += struct.pack(f">{len(asked.to_forget)}i", *asked.to_forget) + b"\0"
    return framed(bytes(body + b"\1\0"))  # no rack, no tags


def read_answered(frame: memoryview) -> FetchAnswered:
    """The answer in a frame without its size; records are views of the frame."""
    position = skip_tags(frame, 4)
    _, code, session_id = _ANSWER.unpack_from(frame, position)
    topics, position = read_uvarint(frame, position + _ANSWER.size)
    partitions: list[PartitionAnswered] = []
    for _ in range(topics - 1):
        length, position = read_uvarint(frame, position)
        count, position = read_uvarint(frame, position + length - 1)
        for _ in range(count - 1):
            partition, position = _read_partition(frame, position)
            partitions.append(partition)
        position = skip_tags(frame, position)
    return FetchAnswered(code, session_id, partitions)


def _read_partition(frame: memoryview, position: int) -> tuple[PartitionAnswered, int]:
    index, code, high_watermark, _, _ = _PARTITION.unpack_from(frame, position)
    aborted, position = read_uvarint(frame, position + _PARTITION.size)
    position += max(0, aborted - 1) * _ABORTED_BYTES + 4  # and the preferred replica
    length, position = read_uvarint(frame, position)
    end = position + max(0, length - 1)
    answered = PartitionAnswered(index, code, high_watermark, frame[position:end])
    return answered, skip_tags(frame, end)


def next_offset(records: memoryview, offset: int) -> int:
    """The offset behind the last whole batch of the records; `offset` if there is none."""
    position, size = 0, len(records)
    while position + _LAST_DELTA_AT + 4 <= size:
        base, length = _BATCH.unpack_from(records, position)
        end = position + _BATCH_OVERHEAD + length
        if end > size:
            break
        (delta,) = struct.unpack_from(">i", records, position + _LAST_DELTA_AT)
        offset, position = base + delta + 1, end
    return offset
