"""Message sets, the record formats before record batches: magic 0, and magic 1 with timestamps.

Clients of Kafka 0.8 to 0.10 send and read them; the log holds record batches only. A message is its
offset and size, a CRC-32 of all that follows, magic, attributes, the timestamp of magic 1, and key
and value, each behind its length. A compressed message has a whole message set as its value.
"""

import zlib
from collections.abc import Iterator
from struct import Struct
from struct import error as StructError
from typing import Final

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.wire.records.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    read_header,
)
from barnabas.wire.records.compression import Codec, RecordsTooLarge, decompress_at_most
from barnabas.wire.records.lz4_header import with_right_checksum
from barnabas.wire.records.records import Record, RecordWriter, corrupt, each_record

# Records here become objects, so they may take less memory than those of a batch that stays bytes.
# Of all messages of a set together: each of them may be compressed.
MAX_CONVERTED_SIZE: Final = 16 * 2**20

_HEAD: Final = Struct(">qiIbb")  # offset, size, CRC, magic, attributes
_CRC_END: Final = 16
_MAGIC_AT: Final = 16
_TIMESTAMP: Final = Struct(">q")
_LENGTH: Final = Struct(">i")
_MESSAGE: Final = Struct(">bb")
_ENTRY: Final = Struct(">qiI")
_CODECS: Final = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)


def batch_of(message_set: bytes | memoryview) -> bytearray:
    """One record batch of what a producer sent as messages, compressed as those were.

    A record batch stays as it is: Kafka accepts one from such a client, too.

    Raises  BrokerError(corrupt_message) if they are not whole messages of magic 0 or 1
            (invalid_record) if a compressed message has no messages in it, or another such one
            (unsupported_compression_type) if their codec is not of that time
            (message_too_large) beyond MAX_CONVERTED_SIZE, decompressed
    """
    if len(message_set) > _MAGIC_AT and message_set[_MAGIC_AT] == MAGIC:
        return bytearray(message_set)
    if len(message_set) > MAX_CONVERTED_SIZE:
        what = f"messages of {len(message_set)} bytes are more than {MAX_CONVERTED_SIZE}"
        raise BrokerError(ErrorCode.message_too_large, what)
    records = RecordWriter()
    codec = Codec.NONE
    room = MAX_CONVERTED_SIZE
    for magic, attributes, record in _messages(message_set):
        if attributes & CODEC_MASK:
            codec = _codec(attributes)
            value = record.value
            if not value:
                raise _not_flat()
            if codec == Codec.LZ4 and not magic:
                value = with_right_checksum(value)
            decompressed = _decompressed(codec, value, room)
            room -= len(decompressed)
            before = records.count
            for _, nested, inner in _messages(decompressed):
                if nested & CODEC_MASK:
                    raise _not_flat()
                records.add(inner)
            if records.count == before:
                raise _not_flat()
        else:
            records.add(record)
    if not records.count:
        raise corrupt("a message set without a message")
    return records.batch(codec)


def _not_flat() -> BrokerError:
    what = "a compressed message with another, or none, in it"
    return BrokerError(ErrorCode.invalid_record, what)


def _decompressed(codec: Codec, value: bytes, room: int) -> bytes:
    """The message set in a compressed message, of `room` bytes at most."""
    try:
        return decompress_at_most(codec, value, room)
    except RecordsTooLarge:
        what = f"the messages decompress to more than {MAX_CONVERTED_SIZE} bytes in all"
        raise BrokerError(ErrorCode.message_too_large, what) from None


def _codec(attributes: int) -> Codec:
    number = attributes & CODEC_MASK
    if number not in _CODECS:
        raise BrokerError(
            ErrorCode.unsupported_compression_type, f"messages know no compression codec {number}"
        )
    return Codec(number)


def _messages(data: bytes | memoryview) -> Iterator[tuple[int, int, Record]]:
    """The magic, the attributes and the content of each message."""
    position = 0
    while position < len(data):
        try:
            offset, size, crc, magic, attributes = _HEAD.unpack_from(data, position)
            end = position + LOG_OVERHEAD + size
            if magic not in (0, 1) or size < 0 or end > len(data):
                raise corrupt(f"a message of magic {magic} and {size} bytes")
            if zlib.crc32(data[position + _CRC_END : end]) != crc:
                raise corrupt("the CRC of a message is wrong")
            position += _HEAD.size
            timestamp = NO_TIMESTAMP
            if magic:
                (timestamp,) = _TIMESTAMP.unpack_from(data, position)
                position += _TIMESTAMP.size
            key, position = _bytes(data, position)
            value, position = _bytes(data, position)
        except StructError:
            raise corrupt("a message is cut short") from None
        if position != end:
            raise corrupt("the key and value of a message do not fill it")
        yield magic, attributes, Record(offset, timestamp, key, value)


def _bytes(data: bytes | memoryview, position: int) -> tuple[bytes | None, int]:
    (length,) = _LENGTH.unpack_from(data, position)
    position += _LENGTH.size
    if length < 0:
        return None, position
    return bytes(data[position : position + length]), position + length


def messages_of(
    batches: bytes | bytearray | memoryview,
    magic: int,
    first_offset: int,
    most: int = MAX_CONVERTED_SIZE,
) -> bytearray:
    """The records from `first_offset` on as messages that are not compressed.

    Headers get lost, and control records, which such clients could not tell from data. The first
    record that reaches `most` bytes is the last: the client fetches the rest later.

    Raises  BrokerError(unsupported_compression_type) for zstd, which such clients do not know
            (corrupt_message) if a batch is not what its header says, or too large
    """
    out = bytearray()
    position = 0
    batches = memoryview(batches)
    while len(batches) - position >= HEADER_SIZE:
        batch = batches[position:]
        header = read_header(batch)
        if header.size > len(batch):
            break
        position += header.size
        if header.is_control:
            continue
        if header.codec not in _CODECS:
            what = f"a client of magic {magic} cannot read codec {header.codec}"
            raise BrokerError(ErrorCode.unsupported_compression_type, what)
        stamped = magic and header.attributes & LOG_APPEND_TIME
        for record in each_record(batch, MAX_CONVERTED_SIZE):
            if record.offset >= first_offset:
                _write(out, record, magic, stamped)
                if len(out) >= most:
                    return out
    return out


def _write(out: bytearray, record: Record, magic: int, attributes: int) -> None:
    body = bytearray(_MESSAGE.pack(magic, attributes))
    if magic:
        body += _TIMESTAMP.pack(record.timestamp)
    for field in (record.key, record.value):
        body += _LENGTH.pack(-1 if field is None else len(field))
        body += field or b""
    out += _ENTRY.pack(record.offset, len(body) + 4, zlib.crc32(body))
    out += body
