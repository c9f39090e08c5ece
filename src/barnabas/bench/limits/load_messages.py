"""Requests and responses of the load generator and the C ideal.

Produce has version 9 and Fetch version 12: flexible, as in current clients, but with topic names.
All requests of a run have one layout, so the C programs patch numbers at the positions given here
instead of parsing. Positions count from the first byte of a frame's length prefix.
"""

import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.base.checksum import crc32c
from barnabas.wire.varint import uvarint

TOPIC: Final = "bench"
RECORD_BYTES: Final = 100
BATCH_OVERHEAD: Final = 61
CLIENT_ID: Final = b"bench"
CORRELATION_AT: Final = 8  # in a request; a response is given from behind its own on


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, the ideal server's response, and the positions of their numbers."""

    request: bytes
    reply: bytes  # without the records of a Fetch
    records: int  # bytes of a batch
    step: int  # records in a batch: offsets grow by it
    records_at: int  # in the request (Produce) or in the reply (Fetch)
    error_at: int
    offset_at: int  # the base offset in the reply; of a Fetch it is the batch's own
    partition_at: int
    ask_at: int = 0  # the wanted offset in a Fetch request; 0 in a Produce

    def request_for(self, partition: int) -> bytes:
        head, tail = self.request[: self.partition_at], self.request[self.partition_at + 4 :]
        return head + struct.pack(">i", partition) + tail


@dataclass(frozen=True, slots=True)
class LoadBatch:
    """A record batch of format v2 and its number of records."""

    content: bytes
    records: int

    def at(self, base_offset: int) -> bytes:
        """The batch as stored in a log: base offset and leader epoch are not in the CRC."""
        return struct.pack(">q", base_offset) + self.content[8:12] + bytes(4) + self.content[16:]


def varint(value: int) -> bytes:
    return uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


def record(offset_delta: int, value: bytes) -> bytes:
    """One record without key or headers; all have the same timestamp."""
    body = b"\0\0" + varint(offset_delta) + varint(-1) + varint(len(value)) + value + b"\0"
    return varint(len(body)) + body


def last_record(offset_delta: int, size: int) -> bytes:
    """A record of exactly `size` bytes."""
    for length in range(size, -1, -1):
        encoded = record(offset_delta, b"v" * length)
        if len(encoded) == size:
            return encoded
    raise ValueError(f"no record has {size} bytes")


def batch_of(size: int) -> LoadBatch:
    """A batch of exactly `size` bytes: values of 100 bytes, and a last one with the rest."""
    room = size - BATCH_OVERHEAD
    records: list[bytes] = []
    while room >= 4 * RECORD_BYTES:
        records.append(record(len(records), b"v" * RECORD_BYTES))
        room -= len(records[-1])
    records.append(last_record(len(records), room))
    return batch_with(records)


def batch_with(
    records: Sequence[bytes], attributes: int = 0, producer_id: int = -1, epoch: int = -1
) -> LoadBatch:
    """A batch of these records; that of a producer is its first one."""
    now_ms = time.time_ns() // 1_000_000
    count, sequence = len(records), -1 if producer_id < 0 else 0
    numbers = (attributes, count - 1, now_ms, now_ms, producer_id, epoch, sequence, count)
    checked = struct.pack(">hiqqqhii", *numbers) + b"".join(records)
    size = BATCH_OVERHEAD + sum(map(len, records))
    head = struct.pack(">qiibI", 0, size - 12, -1, 2, crc32c(checked))
    return LoadBatch(head + checked, count)


def compact_string(text: str) -> bytes:
    return uvarint(len(text) + 1) + text.encode()


def request_head(api_key: int, version: int) -> bytes:
    """Request header v2; the correlation id is patched by the generator."""
    return struct.pack(">hhih", api_key, version, 0, len(CLIENT_ID)) + CLIENT_ID + b"\0"


def numbered(request: bytes) -> Callable[[int], bytes]:
    """The same request with any correlation id."""
    head, tail = request[:CORRELATION_AT], request[CORRELATION_AT + 4 :]
    return lambda number: head + struct.pack(">i", number) + tail


def framed(content: bytes, size: int | None = None) -> bytes:
    return struct.pack(">i", len(content) if size is None else size) + content


def produce(
    batch: LoadBatch,
    topic_name: str = TOPIC,
    acks: int = 1,
    version: int = 9,
    transactional_id: str | None = None,
) -> Exchange:
    """Produce of one batch to one partition."""
    named = b"\0" if transactional_id is None else compact_string(transactional_id)
    head = request_head(0, version) + named + struct.pack(">hi", acks, 30_000)
    topic = b"\2" + compact_string(topic_name) + b"\2"
    before = head + topic + bytes(4) + uvarint(len(batch.content) + 1)
    reply_head = bytes(5) + b"\2" + compact_string(topic_name) + b"\2" + bytes(4)
    reply = reply_head + struct.pack(">hqqq", 0, 0, -1, 0) + b"\1\0\0" + b"\0" + bytes(4) + b"\0"
    return Exchange(
        request=framed(before + batch.content + b"\0\0\0"),
        reply=framed(reply),
        records=len(batch.content),
        step=batch.records,
        records_at=4 + len(before),
        error_at=4 + len(reply_head),
        offset_at=4 + len(reply_head) + 2,
        partition_at=4 + len(head) + len(topic),
    )


def fetch(batch: LoadBatch) -> Exchange:
    """Fetch of exactly one batch of this size from partition 0, outside of any fetch session."""
    size = len(batch.content)
    head = request_head(1, 12) + struct.pack(">iiiibii", -1, 500, 1, 0x7FFFFFFF, 0, 0, -1)
    topic = b"\2" + compact_string(TOPIC) + b"\2"
    before_offset = head + topic + struct.pack(">ii", 0, -1)
    partition = struct.pack(">qiqi", 0, -1, -1, size) + b"\0"
    request = before_offset + partition + b"\0" + b"\1" + b"\1" + b"\0"
    before_error = bytes(5) + struct.pack(">ihi", 0, 0, 0) + b"\2" + compact_string(TOPIC) + b"\2"
    before_error += bytes(4)
    reply = before_error + struct.pack(">hqqq", 0, 0, 0, 0) + b"\0" + struct.pack(">i", -1)
    reply += uvarint(size + 1)
    return Exchange(
        request=framed(request),
        reply=framed(reply + b"\0\0\0", len(reply) + 3 + size),
        records=size,
        step=batch.records,
        records_at=4 + len(reply),
        error_at=4 + len(before_error),
        offset_at=4 + len(reply),
        partition_at=4 + len(head) + len(topic),
        ask_at=4 + len(before_offset),
    )
