"""Message sets, the record formats of Kafka 0.8 to 0.10, and the batches they become."""

import struct
import zlib
from typing import Any

import pytest
from cramjam import lz4
from hypothesis import given
from hypothesis import strategies as some

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.wire.records.batch import read_header
from barnabas.wire.records.compression import Codec, compress
from barnabas.wire.records.lz4_header import xxh32_of_few
from barnabas.wire.records.message_sets import MAX_CONVERTED_SIZE, batch_of, messages_of
from barnabas.wire.records.records import (
    ControlType,
    EndTransactionMarker,
    Record,
    build_batch,
    build_marker,
    read_records,
)

# As Kafka 0.10's Java producer writes it: magic 1, at 1000, key k, value v.
GOLDEN = bytes.fromhex(
    "0000000000000000"  # offset
    "00000018"  # size
    "00000000"  # CRC, below
    "01" "00" "00000000000003e8" "00000001" "6b" "00000001" "76"
)  # fmt: skip
GOLDEN = GOLDEN[:12] + struct.pack(">I", zlib.crc32(GOLDEN[16:])) + GOLDEN[16:]


def message(
    magic: int, key: bytes | None, value: bytes | None, *, codec: int = 0, offset: int = 0
) -> bytes:
    body = struct.pack(">bb", magic, codec) + (struct.pack(">q", 1000) if magic else b"")
    for field in (key, value):
        body += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def test_a_message_is_read_and_written_byte_by_byte() -> None:
    assert message(1, b"k", b"v") == GOLDEN
    batch = batch_of(GOLDEN)
    assert read_records(batch) == [Record(0, 1000, b"k", b"v")]
    assert messages_of(batch, 1, 0) == GOLDEN


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_the_messages_in_a_compressed_one_become_one_batch_of_its_codec(codec: Codec) -> None:
    inner = message(1, b"a", b"1") + message(1, None, b"2") + message(1, b"c", None)
    batch = batch_of(message(1, None, compress(codec, inner), codec=codec))
    assert read_header(batch).codec == codec
    assert [(each.offset, each.key, each.value) for each in read_records(batch)] == [
        (0, b"a", b"1"), (1, None, b"2"), (2, b"c", None),
    ]  # fmt: skip


@pytest.mark.parametrize("size", [None, 1])
def test_lz4_of_magic_0_has_another_checksum_in_its_header(size: int | None) -> None:
    """As clients of Kafka 0.8 and 0.9 send it: computed over the magic number, too."""
    inner = message(0, b"k", b"v")
    frame = bytearray(lz4.compress(inner) if size else compress(Codec.LZ4, inner))
    at = 14 if frame[4] & 0x08 else 6
    assert frame[at] == xxh32_of_few(bytes(frame[4:at])) >> 8 & 0xFF
    frame[at] = xxh32_of_few(bytes(frame[:at])) >> 8 & 0xFF
    batch = batch_of(message(0, None, bytes(frame), codec=Codec.LZ4))
    assert [each.value for each in read_records(batch)] == [b"v"]
    assert code(batch_of, message(1, None, bytes(frame), codec=Codec.LZ4)) is (
        ErrorCode.corrupt_message
    )


def test_a_message_of_magic_0_has_no_timestamp() -> None:
    assert [each.timestamp for each in read_records(batch_of(message(0, b"k", b"v")))] == [-1]


@given(
    some.lists(some.tuples(some.none() | some.binary(), some.none() | some.binary()), min_size=1),
    some.integers(0, 1),
)
def test_what_was_sent_is_what_is_read(
    content: list[tuple[bytes | None, bytes | None]], magic: int
) -> None:
    sent = b"".join(message(magic, *each, offset=n) for n, each in enumerate(content))
    assert messages_of(batch_of(sent), magic, 0) == sent


def test_records_before_the_offset_headers_and_markers_are_left_out() -> None:
    first = build_batch([Record(n, 1000, None, b"%d" % n, (("h", b""),)) for n in range(3)])
    marker = build_marker(EndTransactionMarker(ControlType.COMMIT, 0), 1000, 7, 0)
    last = build_batch([Record(4, 1000, None, b"4")], base_offset=4)
    assert messages_of(first + marker + last + b"part of another", 1, 2) == message(
        1, None, b"2", offset=2
    ) + message(1, None, b"4", offset=4)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_the_record_that_reaches_the_most_bytes_is_the_last_one(codec: Codec) -> None:
    records = [Record(n, 1000, None, b"%d" % n) for n in range(9)]
    batch = build_batch(records, codec=codec)
    each = [message(1, None, b"%d" % n, offset=n) for n in range(9)]
    assert messages_of(batch, 1, 0, 1) == each[0]
    assert messages_of(batch, 1, 3, 2 * len(each[0])) == each[3] + each[4]
    assert messages_of(batch, 1, 8, 1000) == each[8]


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        GOLDEN[:-1],
        GOLDEN[:20],
        GOLDEN[:-1] + b"x",
        message(3, b"k", b"v"),
        message(1, None, b"no gzip", codec=1),
    ],
)
def test_what_is_no_message_set_is_refused(broken: bytes) -> None:
    assert code(batch_of, broken) is ErrorCode.corrupt_message


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        compress(Codec.GZIP, b""),
        compress(Codec.GZIP, message(1, None, b"", codec=1)),
    ],
)
def test_a_compressed_message_has_plain_messages_in_it(value: bytes | None) -> None:
    assert code(batch_of, message(1, None, value, codec=1)) is ErrorCode.invalid_record


def test_more_than_may_become_objects_at_once_is_too_large() -> None:
    many = GOLDEN * (MAX_CONVERTED_SIZE // len(GOLDEN) + 1)
    assert code(batch_of, many) is ErrorCode.message_too_large


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_what_compressed_messages_hold_counts_together(codec: Codec) -> None:
    """One request of 16 MB could otherwise take as many gigabytes."""
    half = message(1, None, bytes(MAX_CONVERTED_SIZE // 2 - 100))
    compressed = message(1, None, compress(codec, half), codec=codec)
    assert len(read_records(batch_of(compressed * 2))) == 2
    assert code(batch_of, compressed * 3) is ErrorCode.message_too_large
    alone = message(1, None, compress(codec, bytes(MAX_CONVERTED_SIZE + 1)), codec=codec)
    assert code(batch_of, alone) is ErrorCode.message_too_large


def test_a_record_batch_stays_as_it_is() -> None:
    batch = build_batch([Record(0, 1000, b"k", b"v")])
    assert batch_of(bytes(batch)) == batch


def test_codecs_that_came_later_are_refused() -> None:
    later = ErrorCode.unsupported_compression_type
    assert code(batch_of, message(1, None, b"", codec=Codec.ZSTD)) is later
    batch = build_batch([Record(0, 0, None, b"x")], codec=Codec.ZSTD)
    assert code(messages_of, batch, 1, 0) is later


def code(convert: Any, *arguments: object) -> ErrorCode:
    with pytest.raises(BrokerError) as refused:
        convert(*arguments)
    return refused.value.code
