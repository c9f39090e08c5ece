"""The codecs of record batches, in the framings that Kafka's clients read and write.

gzip and zstd are plain streams of one or more members. lz4 is the frame format with independent
blocks, the only kind that the Java client reads. snappy is the framing of snappy-java: a header,
then blocks each behind its length; bare snappy, which some clients send, is read too.
"""

import threading
import zlib
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

# Batches of this size decompress, to no more than the second, without holding the loop for long.
SMALL_BATCH: Final = 64 * 1024
SMALL_RECORDS: Final = 256 * 1024

# Fresh memory costs many times more than to decompress into it: a page fault for every 4 KiB.
_WINDOW: Final = 4 * 1024 * 1024

_GZIP_WINDOW: Final = 31  # the format of gzip, and no other that zlib knows
_LZ4_MAGIC: Final = 0x184D2204
_LZ4_HEADER = Struct("<IB")  # magic and flags
_LZ4_BLOCK_SIZE = Struct("<I")
_LZ4_INDEPENDENT: Final = 0x20
_LZ4_DICTIONARY: Final = 0x01
_TOO_SMALL: Final = ("failed to write whole buffer", "is smaller than required")

_SNAPPY_HEADER: Final = b"\x82SNAPPY\x00" + bytes((0, 0, 0, 1)) * 2
_SNAPPY_MAGIC: Final = _SNAPPY_HEADER[:8]
_SNAPPY_BLOCK_SIZE: Final = 32 * 1024
_BLOCK_LENGTH = Struct(">i")

_LZ4_DEFAULT_LEVEL: Final = 9
_LZ4_FAST: Final = 0

DecompressInto = Callable[[bytes | memoryview, memoryview], int]


class RecordsTooLarge(BrokerError):
    """The records of a batch take more bytes than they may."""

    def __init__(self, max_size: int) -> None:
        what = f"the records decompress to more than {max_size} bytes"
        super().__init__(ErrorCode.message_too_large, what)


class Codec(IntEnum):
    """The codec that the low three bits of a batch's attributes name."""

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
    """The bytes of `data` before `codec` was applied, at most `max_size` bytes.

    Memory beyond the result is reserved at most, however much `data` claims to hold.

    Raises  BrokerError(unsupported_compression_type) if no codec has that number,
            BrokerError(corrupt_message) if `data` is broken or expands beyond `max_size`
    """
    try:
        return decompress_at_most(codec, data, max_size)
    except RecordsTooLarge as error:
        raise BrokerError(ErrorCode.corrupt_message, str(error)) from None


def decompress_at_most(codec: int, data: bytes | memoryview, max_size: int) -> bytes:
    """As `decompress`, but raises RecordsTooLarge if `data` expands beyond `max_size`."""
    if codec == Codec.NONE:
        return bytes(data)
    decompress_into = _DECOMPRESS_INTO.get(codec)
    if decompress_into is None:
        raise BrokerError(
            ErrorCode.unsupported_compression_type, f"there is no compression codec {codec}"
        )
    try:
        return bytes(_decompressed(decompress_into, data, max_size))
    except (DecompressionError, StructError) as error:
        if _is_too_small(error):
            raise RecordsTooLarge(max_size) from None
        raise _undecompressed(codec, error) from None


def _decompress_snappy_into(data: bytes | memoryview, output: memoryview) -> int:
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


_DECOMPRESS_INTO: Final[Mapping[int, DecompressInto]] = {
    Codec.GZIP: gzip.decompress_into,
    Codec.SNAPPY: _decompress_snappy_into,
    Codec.LZ4: lz4.decompress_into,
    Codec.ZSTD: zstd.decompress_into,
}


# Data of producers


def decompress_produced(codec: int, data: memoryview, max_size: int) -> memoryview:
    """The records that a producer compressed, if every client can decompress them.

    Stricter than `decompress`: librdkafka reads one member of gzip and one frame of lz4, and the
    Java client no lz4 block that depends on another, nor a frame that names a dictionary. The
    result lasts until this thread's next call.

    Raises  RecordsTooLarge, BrokerError as `decompress` does
    """
    if codec == Codec.GZIP:
        return _decompress_gzip(data, max_size)
    decompress_into = _DECOMPRESS_INTO.get(codec)
    if decompress_into is None:
        raise BrokerError(
            ErrorCode.unsupported_compression_type, f"there is no compression codec {codec}"
        )
    try:
        if codec == Codec.LZ4:
            _check_lz4_frame(data)
        elif codec == Codec.SNAPPY:
            _check_snappy_version(data)
        return _decompressed(decompress_into, data, max_size)
    except (DecompressionError, StructError) as error:
        if _is_too_small(error):
            raise RecordsTooLarge(max_size) from None
        raise _undecompressed(codec, error) from None


def _decompressed(
    decompress_into: DecompressInto, data: bytes | memoryview, max_size: int
) -> memoryview:
    """The result, which lasts until this thread's next call if it fits the window."""
    output = _window.memory[:max_size]
    try:
        return output[: decompress_into(data, output)]
    except DecompressionError as error:
        if max_size <= _WINDOW or not _is_too_small(error):
            raise
    output = memoryview(mmap(-1, max_size))
    return output[: decompress_into(data, output)]


def _is_too_small(error: Exception) -> bool:
    return any(words in str(error) for words in _TOO_SMALL)


class _Window(threading.local):
    """Memory of each thread for the records that it looks at; what is never used takes none."""

    def __init__(self) -> None:
        self.memory = memoryview(mmap(-1, _WINDOW))


_window: Final = _Window()


def _decompress_gzip(data: memoryview, max_size: int) -> memoryview:
    member = zlib.decompressobj(_GZIP_WINDOW)
    try:
        records = member.decompress(data, max_size + 1)
    except zlib.error as error:
        raise _undecompressed(Codec.GZIP, error) from None
    if len(records) > max_size:
        raise RecordsTooLarge(max_size)
    if not member.eof or member.unused_data:
        raise _undecompressed(Codec.GZIP, "it is not one whole member")
    return memoryview(records)


def _check_lz4_frame(data: memoryview) -> None:
    """Check that `data` is one frame of independent blocks, without a dictionary; what is in them
    is not looked at."""
    magic, flags = _LZ4_HEADER.unpack_from(data)
    if magic != _LZ4_MAGIC or not flags & _LZ4_INDEPENDENT:
        raise DecompressionError("it is no frame of independent blocks")
    if flags & _LZ4_DICTIONARY:
        raise DecompressionError("it names a dictionary, which the Java client refuses")
    position = 7 + (8 if flags & 0x08 else 0)
    checksum = 4 if flags & 0x10 else 0
    while True:
        (size,) = _LZ4_BLOCK_SIZE.unpack_from(data, position)
        position += 4
        if not size:
            break
        position += (size & 0x7FFFFFFF) + checksum
    if position + (4 if flags & 0x04 else 0) != len(data):
        raise DecompressionError("bytes follow the frame")


def _check_snappy_version(data: memoryview) -> None:
    if data[:8] == _SNAPPY_MAGIC and _BLOCK_LENGTH.unpack_from(data, 8)[0] < 1:
        raise DecompressionError("no reader is compatible with this version of the framing")


def _undecompressed(codec: int, why: object) -> BrokerError:
    name = Codec(codec).name.lower()
    return BrokerError(ErrorCode.corrupt_message, f"the records do not decompress as {name}: {why}")
