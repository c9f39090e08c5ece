"""Plain batches: found in their request and validated; and the response to them.

Nearly every batch is plain: of magic 2, whole, alone, with the right CRC, and with records that
consumers can read and its header describes. One of a transaction is plain only where its request
names that. Compiled as it is: `plain_batch.pxd` has the types.
"""

from typing import Final

from barnabas.base import buffers
from barnabas.base.errors import BrokerError
from barnabas.wire.records import batch as batches
from barnabas.wire.records import record_walk
from barnabas.wire.records.compression import (
    MAX_DECOMPRESSED_SIZE,
    SMALL_BATCH,
    SMALL_RECORDS,
    Codec,
    decompress_produced,
)

FLEXIBLE: Final = 9

_FLEXIBLE = FLEXIBLE
_HEADER_SIZE = batches.HEADER_SIZE
_LOG_OVERHEAD = batches.LOG_OVERHEAD
_MAGIC = batches.MAGIC
_CRC_START = batches.CRC_START
_TRANSACTIONAL = batches.TRANSACTIONAL
_LAST_CODEC = int(Codec.ZSTD)
_MAX_DECOMPRESSED = MAX_DECOMPRESSED_SIZE
_SMALL_BATCH = SMALL_BATCH
SMALLEST_RECORD: Final = 7  # one byte each: length, attributes, two differences, three counts
_SMALLEST_RECORD = SMALLEST_RECORD
_NO_TAGS = b"\0\0\0"


class PlainBatch(buffers.BufferSlice):
    """Where a plain batch lies, and its header; `producer_id` is negative without a sequence."""

    __slots__ = (
        "base_sequence",
        "is_transactional",
        "length",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    length: int
    record_count: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool


def find_records(
    version: int, view: memoryview, start: int, end: int, sized_at: int
) -> tuple[int, int]:
    """Where the records begin and end in a frame, if nothing but empty tags follows them.

    The frame lies from `start` to `end`, and the size of the records `sized_at` bytes behind its
    start. (0, 0) leaves the frame to `read_produce`, also if it is damaged.
    """
    position = start + sized_at
    if position + 4 > end:
        return 0, 0
    if version < _FLEXIBLE:
        if position + 4 + buffers.int_at(view, position) != end:
            return 0, 0
        return position + 4, end
    length = shift = 0
    while True:
        byte = buffers.byte_at(view, position)
        position += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift == 28:
            return 0, 0
    records_end = position + length - 1  # the size is written plus one
    if records_end + 3 != end or not buffers.is_at(view, records_end, end, _NO_TAGS):
        return 0, 0
    return position, records_end


def judge_plain(
    view: memoryview, start: int, end: int, largest: int, may_be_transactional: bool = False
) -> PlainBatch | None:
    """The batch from `start` to `end`, if it is plain and not larger than `largest`.

    None leaves it to `validate`, which refuses it or, if it is compressed and large, may do so in
    a thread.
    """
    size = end - start
    if size < _HEADER_SIZE or size > largest:
        return None
    length = buffers.int_at(view, start + 8)
    codec = buffers.short_at(view, start + 21)
    is_transactional = may_be_transactional and codec & _TRANSACTIONAL != 0
    if is_transactional:
        codec -= _TRANSACTIONAL
    count = buffers.int_at(view, start + 57)
    max_timestamp = buffers.long_at(view, start + 35)
    producer_id = buffers.long_at(view, start + 43)
    base_sequence = buffers.int_at(view, start + 53)
    if (
        buffers.byte_at(view, start + 16) != _MAGIC
        or buffers.long_at(view, start) != 0
        or (producer_id >= 0 and base_sequence < 0)
        or (is_transactional and producer_id < 0)
        or length + _LOG_OVERHEAD != size
        or codec < 0
        or codec > _LAST_CODEC  # and no other attribute
        or (codec and size > _SMALL_BATCH)
        or count <= 0
        or count - 1 != buffers.int_at(view, start + 23)
        or count * _SMALLEST_RECORD > (_MAX_DECOMPRESSED if codec else length)
        or buffers.crc_of(view, start + _CRC_START, end) != buffers.uint_at(view, start + 17)
    ):
        return None
    records, first, last = view, start + _HEADER_SIZE, end
    if codec:
        records = _decompressed(codec, view[first:last])
        first, last = 0, len(records)
    fault, _, greatest = record_walk.walk_records(
        records, first, last, count, count - 1, buffers.long_at(view, start + 27)
    )
    if fault or greatest != max_timestamp:
        return None
    found = PlainBatch.__new__(PlainBatch)  # in C, without a call of the type
    found.view = view
    found.at = start
    found.size = size
    found.length = length
    found.record_count = count
    found.max_timestamp = max_timestamp
    found.producer_id = producer_id
    found.producer_epoch = buffers.short_at(view, start + 51)
    found.base_sequence = base_sequence
    found.is_transactional = is_transactional
    return found


def _decompressed(codec: int, data: memoryview) -> memoryview:
    """The records, or no bytes if they are too large for the loop, or do not decompress."""
    try:
        return decompress_produced(codec, data, SMALL_RECORDS)
    except BrokerError:
        return memoryview(b"")


def as_plain(records: memoryview, header: batches.BatchHeader) -> PlainBatch:
    """A batch that was validated by other means."""
    found = PlainBatch()
    found.view = records
    found.at = 0
    found.size = len(records)
    found.length = header.batch_length
    found.record_count = header.record_count
    found.max_timestamp = header.max_timestamp
    found.producer_id = header.producer_id
    found.producer_epoch = header.producer_epoch
    found.base_sequence = header.base_sequence
    found.is_transactional = header.is_transactional
    return found


class Answer:
    """A response that is sent again and again, but for its correlation id and two or three longs.

    `whole` is the frame, size first; the longs stand at `at`, `longs` bytes of them.
    """

    __slots__ = ("_at", "_longs", "_whole")

    def __init__(self, whole: bytes, at: int, longs: int) -> None:
        self._whole = whole
        self._at = at
        self._longs = longs

    def response(self, correlation_id: int, first: int, second: int, third: int) -> bytes:
        size = len(self._whole) - 4
        return buffers.filled(
            self._whole, size, correlation_id, self._at, self._longs, first, second, third, b""
        )

    def several(self, count: int) -> bytearray:
        """So many responses one behind the other; `put` writes the numbers of each."""
        return bytearray(self._whole * count)

    def put(
        self,
        responses: memoryview,
        number: int,
        correlation_id: int,
        first: int,
        second: int,
        third: int,
    ) -> None:
        """Make the response of that number what `response` returns."""
        start = number * len(self._whole)
        at = start + self._at
        buffers.put_int(responses, start + 4, correlation_id)
        buffers.put_long(responses, at, first)
        buffers.put_long(responses, at + 8, second)
        if self._longs > 16:
            buffers.put_long(responses, at + 16, third)
