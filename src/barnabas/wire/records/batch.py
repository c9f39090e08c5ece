"""The 61-byte header of a record batch (magic 2): read, checked and patched where it lies.

    0  base offset          q      21  attributes          h
    8  batch length         i      23  last offset delta   i
    12 leader epoch         i      27  base timestamp      q
    16 magic                b      35  max timestamp       q
    17 CRC-32C of 21..end   I      43  producer id         q
                                   51  producer epoch      h
                                   53  base sequence       i
                                   57  record count        i
                                   61  records

The CRC does not cover the fields before it, offset and epoch, which a leader writes.
Everything here is on the path of every Produce: no function copies, or looks at a record.
"""

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from barnabas.base.checksum import crc32c
from barnabas.base.errors import BrokerError, ErrorCode

HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12  # bytes that the batch length does not count: base offset and itself
MAGIC: Final = 2
CRC_START: Final = 21

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_SEQUENCE: Final = -1

_STAMP = Struct(">qii")
_CRC_AT: Final = 17
_CRC = Struct(">I")
_ATTRIBUTES_AT: Final = 21
_ATTRIBUTES = Struct(">h")
_MAX_TIMESTAMP_AT: Final = 35
_MAX_TIMESTAMP = Struct(">q")


class BatchHeader(NamedTuple):
    """The fields of a batch's header, which are trustworthy only after `check_crc`."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON != 0

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; after 2^31-1 comes 0. NO_SEQUENCE if there is none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(buffer: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """The header at `position`, unchecked.

    Raises  BrokerError(corrupt_message) if fewer than 61 bytes are left
    """
    try:
        return tuple.__new__(BatchHeader, HEADER.unpack_from(buffer, position))
    except StructError:
        raise BrokerError(
            ErrorCode.corrupt_message,
            f"a batch header needs {HEADER_SIZE} bytes, {len(buffer) - position} are left",
        ) from None


def headers(
    buffer: bytes | bytearray | memoryview, position: int = 0
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch from `position` on; a cut tail ends it silently.

    Raises  BrokerError(corrupt_message) at a batch whose length cannot even hold its header,
            after all before it have been given
    """
    end = len(buffer)
    while position + HEADER_SIZE <= end:
        header = read_header(buffer, position)
        size = LOG_OVERHEAD + header.batch_length
        if size < HEADER_SIZE:
            raise BrokerError(
                ErrorCode.corrupt_message,
                f"the batch at byte {position} says it has {size} bytes, less than its header",
            )
        if position + size > end:
            return
        yield position, header
        position += size


def check_crc(batch: bytes | bytearray | memoryview) -> bool:
    """True if the CRC of one whole batch fits its bytes."""
    expected: int = _CRC.unpack_from(batch, _CRC_AT)[0]
    return crc32c(memoryview(batch)[CRC_START:]) == expected


def stamp(
    batch: bytearray | memoryview, base_offset: int, batch_length: int, leader_epoch: int
) -> None:
    """Write in place what the leader gives to a batch; its length, between the two, stays."""
    _STAMP.pack_into(batch, 0, base_offset, batch_length, leader_epoch)


def set_log_append_time(batch: bytearray | memoryview, now_ms: int) -> None:
    """Say in place that all records of the batch have the time `now_ms`; renews the CRC."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, now_ms)
    set_crc(batch)


def set_create_time(batch: bytearray | memoryview, max_timestamp: int) -> None:
    """Say in place that each record has its own time, `max_timestamp` at most; renews the CRC."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, attributes & ~LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, max_timestamp)
    set_crc(batch)


def set_crc(batch: bytearray | memoryview) -> None:
    """Renew the CRC of one whole batch."""
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[CRC_START:]))
