"""Batches about which there is nothing to ask: found in their request and judged, in one look.

Nearly every batch is plain: of magic 2, whole, alone, in no transaction, its codec known and its
CRC right. Here are also the answers that tell where such a batch went.
"""

import struct
from typing import Final, NamedTuple

from barnabas.base.checksum import crc32c
from barnabas.base.twins import use_compiled
from barnabas.wire.records.batch import CRC_START, HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC
from barnabas.wire.records.compression import MAX_DECOMPRESSED_SIZE, Codec

FLEXIBLE: Final = 9
SMALLEST_RECORD: Final = 7  # one byte each: length, attributes, two differences, three counts
LAST_CODEC: Final = int(Codec.ZSTD)

_INT = struct.Struct(">i")
_FOUR_BYTES = struct.Struct(">BBBB")
_THREE_LONGS = struct.Struct(">qqq")
_NO_TAGS = b"\0\0\0"


def last_records(version: int, frame: memoryview, position: int) -> memoryview | None:
    """The records whose size is at `position`, if nothing but empty tags follows them.

    Raises  struct.error, if the frame ends before
    """
    if version < FLEXIBLE:
        (size,) = _INT.unpack_from(frame, position)
        position += 4
        return frame[position:] if position + size == len(frame) else None
    # The size plus one, in as many bytes as have their top bit set and one more.
    size, b, c, d = _FOUR_BYTES.unpack_from(frame, position)
    position += 1
    if size >= 0x80:
        position += 1
        size += (b - 1) << 7
        if b >= 0x80:
            position += 1
            size += (c - 1) << 14
            if c >= 0x80:
                position += 1
                size += (d - 1) << 21
                if d >= 0x80:
                    return None
    end: int = position + size - 1
    if end + 3 != len(frame) or frame[end:] != _NO_TAGS:
        return None
    return frame[position:end]


class Plain(NamedTuple):
    """What is to be known of a plain batch; `producer_id` is negative if it has no sequence."""

    length: int
    record_count: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


def judge_plain(records: memoryview, largest: int) -> Plain | None:
    """What a plain batch says of itself; None if it may not be one."""
    if len(records) < HEADER_SIZE:
        return None
    offset, length, _, magic, crc, codec, last, _, latest, producer, epoch, sequence, count = (
        HEADER.unpack_from(records)
    )
    size = length + LOG_OVERHEAD
    if (
        magic != MAGIC
        or offset
        or (producer >= 0 and sequence < 0)
        or size != len(records)
        or size > largest
        or not 0 <= codec <= LAST_CODEC  # and no other attribute
        or count != last + 1
        or not 0 < count * SMALLEST_RECORD <= (MAX_DECOMPRESSED_SIZE if codec else length)
        or crc32c(records[CRC_START:]) != crc
    ):
        return None
    return Plain(length, count, latest, producer, epoch, sequence)


class Answer:
    """A response that is sent again and again, but for its correlation id and two or three longs.

    `whole` is the frame, size first; the longs stand at `at`, `longs` bytes of them.
    """

    __slots__ = ("_head", "_longs", "_size", "_tail")

    def __init__(self, whole: bytes, at: int, longs: int) -> None:
        self._size = whole[:4]
        self._head = whole[8:at]
        self._longs = longs
        self._tail = whole[at + longs :]

    def response(self, correlation_id: int, first: int, second: int, third: int) -> bytes:
        return b"".join(
            (
                self._size,
                _INT.pack(correlation_id),
                self._head,
                _THREE_LONGS.pack(first, second, third)[: self._longs],
                self._tail,
            )
        )


use_compiled(
    globals(), "barnabas.wire.produce._plain_batch", "Answer", "judge_plain", "last_records"
)
