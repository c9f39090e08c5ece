"""Codecs against the framings of other clients, and against damage and bombs."""

import gzip
import resource
import sys
from contextlib import suppress

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import BrokerError, ConfigError, ErrorCode
from barnabas.wire.records.compression import (
    SMALL_RECORDS,
    Codec,
    RecordsTooLarge,
    compress,
    decompress,
    decompress_produced,
    parse_compression_type,
)
from barnabas.wire.records.lz4_header import xxh32_of_few

COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]
TEXT = b'{"some": "data", "that": "compresses"}' * 5000


@given(codec=st.sampled_from(Codec), data=st.binary(max_size=200), times=st.integers(1, 2000))
def test_what_is_compressed_comes_back(codec: Codec, data: bytes, times: int) -> None:
    assert decompress(codec, compress(codec, data * times)) == data * times


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (Codec.GZIP, [-1, 1, 6, 9]),
        (Codec.LZ4, [1, 9, 10, 17]),
        (Codec.ZSTD, [-131072, -5, 1, 3, 22]),
    ],
)
def test_every_level_that_kafka_allows_can_be_asked_for(codec: Codec, levels: list[int]) -> None:
    for level in levels:
        assert decompress(codec, compress(codec, TEXT, level)) == TEXT
    assert len(compress(codec, TEXT, levels[-1])) <= len(compress(codec, TEXT, levels[0]))


def test_several_members_are_read_as_one_stream() -> None:
    for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD):
        assert decompress(codec, compress(codec, b"one") + compress(codec, b"two")) == b"onetwo"
    assert decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"


def test_bare_snappy_is_read_as_well_as_framed() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


def test_snappy_is_written_in_blocks_behind_the_header_of_snappy_java() -> None:
    framed = compress(Codec.SNAPPY, TEXT)
    assert framed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    first_block = framed[20 : 20 + int.from_bytes(framed[16:20], "big")]
    assert bytes(cramjam.snappy.decompress_raw(first_block)) == TEXT[:32768]


def test_lz4_is_written_with_independent_blocks_as_the_java_client_needs() -> None:
    for level in (None, 1, 9, 12):
        frame = compress(Codec.LZ4, TEXT, level)
        assert frame[:4] == b"\x04\x22\x4d\x18"
        assert frame[4] & 0b1110_0000 == 0b0110_0000, "version 1, independent"


@pytest.mark.parametrize("codec", COMPRESSING)
def test_the_limit_may_be_reached_but_not_passed(codec: Codec) -> None:
    compressed = compress(codec, TEXT)
    assert decompress(codec, compressed, max_size=len(TEXT)) == TEXT
    with pytest.raises(BrokerError, match=f"more than {len(TEXT) - 1} bytes") as raised:
        decompress(codec, compressed, max_size=len(TEXT) - 1)
    assert raised.value.code is ErrorCode.corrupt_message


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_decompression_bomb_uses_no_more_memory_than_the_limit(codec: Codec) -> None:
    bomb = compress(codec, bytes(1_000_000)) * 500
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BrokerError):
        decompress(codec, bomb, max_size=10_000_000)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    assert grown * unit < 50_000_000


def test_a_snappy_block_that_claims_four_gigabytes_is_refused() -> None:
    with pytest.raises(BrokerError):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f1234")


@pytest.mark.parametrize("codec", COMPRESSING)
@given(data=st.data())
def test_broken_data_is_a_broker_error_or_nothing(codec: Codec, data: st.DataObject) -> None:
    compressed = bytearray(compress(codec, TEXT[:500]))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(compressed) - 1))
        compressed[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(compressed)))
    with suppress(BrokerError):
        decompress(codec, bytes(compressed[:cut]), max_size=100_000)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_said_to_be_unsupported(codec: int) -> None:
    with pytest.raises(BrokerError) as raised:
        decompress(codec, b"")
    assert raised.value.code is ErrorCode.unsupported_compression_type


def test_compression_types_have_kafkas_names() -> None:
    assert parse_compression_type("producer") is None
    names = ["uncompressed", "gzip", "snappy", "lz4", "zstd"]
    assert [parse_compression_type(name) for name in names] == list(Codec)
    assert parse_compression_type("ZSTD") is Codec.ZSTD
    with pytest.raises(ConfigError, match=r"compression\.type=none: must be one of producer"):
        parse_compression_type("none")


# Data of producers


@given(
    codec=st.sampled_from(COMPRESSING),
    data=st.binary(max_size=200),
    times=st.integers(1, 2000),
    limit=st.sampled_from([SMALL_RECORDS, 1_000_000]),
)
def test_what_a_producer_compresses_is_decompressed_up_to_the_limit(
    codec: Codec, data: bytes, times: int, limit: int
) -> None:
    compressed = memoryview(compress(codec, data * times))
    if len(data) * times > limit:
        with pytest.raises(RecordsTooLarge):
            decompress_produced(codec, compressed, limit)
    else:
        assert decompress_produced(codec, compressed, limit) == data * times


@pytest.mark.parametrize("codec", COMPRESSING)
def test_records_that_are_larger_than_the_memory_kept_for_them_are_decompressed(
    codec: Codec,
) -> None:
    data = TEXT * 50
    assert len(data) > 9_000_000
    compressed = memoryview(compress(codec, data))
    assert decompress(codec, compressed) == data
    assert decompress_produced(codec, compressed, 10_000_000) == data
    with pytest.raises(RecordsTooLarge):
        decompress_produced(codec, compressed, 9_000_000)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4])
def test_a_second_member_that_librdkafka_would_not_read_is_refused(codec: Codec) -> None:
    twice = compress(codec, b"one") + compress(codec, b"two")
    with pytest.raises(BrokerError):
        decompress_produced(codec, memoryview(twice), 1000)


def test_lz4_blocks_that_depend_on_each_other_are_refused() -> None:
    linked = cramjam.lz4.Compressor(content_checksum=False, block_linked=True)
    linked.compress(TEXT)
    with pytest.raises(BrokerError, match="independent"):
        decompress_produced(Codec.LZ4, memoryview(bytes(linked.finish())), 1_000_000)


def test_an_lz4_frame_that_names_a_dictionary_is_refused() -> None:
    """The decompressor reads on without it; the Java client stops at the frame's header."""
    frame = compress(Codec.LZ4, TEXT)
    at = 14 if frame[4] & 0x08 else 6
    described = bytes((frame[4] & ~0x08 | 0x01, frame[5])) + b"\7\0\0\0"
    named = frame[:4] + described + bytes((xxh32_of_few(described) >> 8 & 0xFF,)) + frame[at + 1 :]
    assert decompress(Codec.LZ4, named) == TEXT
    with pytest.raises(BrokerError, match="dictionary"):
        decompress_produced(Codec.LZ4, memoryview(named), 1_000_000)


@pytest.mark.parametrize("flags", [{}, {"content_checksum": True}, {"block_linked": False}])
def test_lz4_frames_may_have_checksums(flags: dict[str, bool]) -> None:
    options = {"content_checksum": False, "block_linked": False} | flags
    compressor = cramjam.lz4.Compressor(**options)
    compressor.compress(TEXT)
    framed = memoryview(bytes(compressor.finish()))
    assert decompress_produced(Codec.LZ4, framed, 1_000_000) == TEXT


@pytest.mark.parametrize("codec", COMPRESSING)
@given(data=st.data())
def test_broken_data_of_a_producer_is_a_broker_error_or_nothing(
    codec: Codec, data: st.DataObject
) -> None:
    whole = bytearray(compress(codec, TEXT[:300]))
    start = data.draw(st.integers(0, len(whole)))
    whole[start : start + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=20))
    with suppress(BrokerError):
        decompress_produced(codec, memoryview(whole)[: data.draw(st.integers(0, 400))], 10_000)
    with suppress(BrokerError):
        decompress_produced(codec, memoryview(data.draw(st.binary(max_size=30))), 10_000)
