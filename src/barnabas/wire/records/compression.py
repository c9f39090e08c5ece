"""The codecs of record batches, in the framings that Kafka's clients read and write.

gzip and zstd are plain streams of one or more members. lz4 is the frame format with independent
blocks, the only kind that the Java client reads. snappy is the framing of snappy-java: a header,
then blocks each behind its length; bare snappy, which some clients send, is read too.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from mmap import mmap
from struct import Struct
from struct import error as StructError
from typing import Final

from cramjam import DecompressionError, gzip, lz4, snappy, zstd

from barnabas.base.errors import BrokerError, ConfigError, ErrorCode

# No producer can have had more in one request: it is Kafka's socket.request.max.bytes.
MAX_DECOMPRESSED_SIZE: Final = 104_857_600

_SNAPPY_HEADER: Final = b"\x82SNAPPY\x00" + bytes((0, 0, 0, 1)) * 2
_SNAPPY_MAGIC: Final = _SNAPPY_HEADER[:8]
_SNAPPY_BLOCK_SIZE: Final = 32 * 1024
_BLOCK_LENGTH = Struct(">i")

_LZ4_DEFAULT_LEVEL: Final = 9
_LZ4_FAST: Final = 0


class Codec(IntEnum):
    """What the low three bits of a batch's attributes name."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_COMPRESSION_TYPES: Final[Mapping[str, Codec | None]] = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def parse_compression_type(name: str) -> Codec | None:
    """The codec that `compression.type=name` asks for; None if the producer's is kept.

    Raises  ConfigError if Kafka knows no such name
    """
    try:
        return _COMPRESSION_TYPES[name.lower()]
    except KeyError:
        known = ", ".join(_COMPRESSION_TYPES)
        raise ConfigError(f"compression.type={name}: must be one of {known}") from None


def compress(codec: Codec, data: bytes | bytearray, level: int | None = None) -> bytes:
    """`data` in the framing of `codec`; `level` as in compression.<codec>.level, None for its own.

    snappy has no levels.
    """
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(gzip.compress(data, level=None if level == -1 else level))
        case Codec.SNAPPY:
            return _compress_snappy(data)
        case Codec.LZ4:
            return _compress_lz4(data, _LZ4_DEFAULT_LEVEL if level is None else level)
        case Codec.ZSTD:
            return bytes(zstd.compress(data, level=level))


def _compress_snappy(data: bytes | bytearray) -> bytes:
    framed = bytearray(_SNAPPY_HEADER)
    for start in range(0, len(data), _SNAPPY_BLOCK_SIZE):
        block = bytes(snappy.compress_raw(data[start : start + _SNAPPY_BLOCK_SIZE]))
        framed += _BLOCK_LENGTH.pack(len(block))
        framed += block
    return bytes(framed)


def _compress_lz4(data: bytes | bytearray, level: int) -> bytes:
    # As in Kafka, the default level means the fast compressor and any other the thorough one.
    compressor = lz4.Compressor(
        level=_LZ4_FAST if level == _LZ4_DEFAULT_LEVEL else level,
        content_checksum=False,
        block_linked=False,
    )
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


def decompress(
    codec: int, data: bytes | memoryview, max_size: int = MAX_DECOMPRESSED_SIZE
) -> bytes:
    """What `data` held before `codec` was applied to it, at most `max_size` bytes.

    Memory beyond the result is reserved but never touched, however much `data` claims to hold.

    Raises  BrokerError(unsupported_compression_type) if no codec has that number,
            BrokerError(corrupt_message) if `data` is broken or expands beyond `max_size`
    """
    if codec == Codec.NONE:
        return bytes(data)
    decompress_into = _DECOMPRESS_INTO.get(codec)
    if decompress_into is None:
        raise BrokerError(
            ErrorCode.unsupported_compression_type, f"there is no compression codec {codec}"
        )
    output = mmap(-1, max_size)
    try:
        return output[: decompress_into(data, output)]
    except (DecompressionError, StructError) as error:
        raise BrokerError(
            ErrorCode.corrupt_message,
            f"the records do not decompress as {Codec(codec).name.lower()}"
            f" into at most {max_size} bytes: {error}",
        ) from None


def _decompress_snappy_into(data: bytes | memoryview, output: mmap) -> int:
    if data[:8] != _SNAPPY_MAGIC:
        return snappy.decompress_raw_into(data, output)
    source, target = memoryview(data), memoryview(output)
    position, written = len(_SNAPPY_HEADER), 0
    while position < len(source):
        (length,) = _BLOCK_LENGTH.unpack_from(source, position)
        position += _BLOCK_LENGTH.size
        if not 0 < length <= len(source) - position:
            raise DecompressionError(f"a snappy block of {length} bytes does not fit the data")
        block = source[position : position + length]
        written += snappy.decompress_raw_into(block, target[written:])
        position += length
    return written


_DECOMPRESS_INTO: Final[Mapping[int, Callable[[bytes | memoryview, mmap], int]]] = {
    Codec.GZIP: gzip.decompress_into,
    Codec.SNAPPY: _decompress_snappy_into,
    Codec.LZ4: lz4.decompress_into,
    Codec.ZSTD: zstd.decompress_into,
}
