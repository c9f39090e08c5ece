"""Record batches with right CRCs that no honest producer sends."""

import struct
import time
from collections.abc import Callable
from functools import cache
from typing import Final

from cramjam import zstd

from barnabas.base.checksum import crc32c
from barnabas.wire.records.compression import Codec
from barnabas.wire.records.records import write_varint

MB: Final = 1_000_000
YEAR_5000_MS: Final = 95_617_584_000_000
_HEADER = struct.Struct(">hiqqqhii")
_CHUNK: Final = bytes(10 * MB)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def varint(value: int) -> bytes:
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


def record(delta: int, key: bytes | None, value: bytes) -> bytes:
    """A record without headers, of the batch's first timestamp."""
    body = b"\0\0" + varint(delta)
    body += varint(-1) if key is None else varint(len(key)) + key
    body += varint(len(value)) + value + b"\0"
    return varint(len(body)) + body


def batch(
    records: bytes,
    *,
    count: int = 1,
    last_delta: int | None = None,
    codec: Codec = Codec.NONE,
    greatest_timestamp: int | None = None,
) -> bytes:
    """A batch whose header says this, whatever the records are. Its CRC is right."""
    first = now_ms()
    greatest = first if greatest_timestamp is None else greatest_timestamp
    delta = count - 1 if last_delta is None else last_delta
    checked = _HEADER.pack(codec, delta, first, greatest, -1, -1, -1, count) + records
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c(checked)) + checked


def good(value: bytes) -> bytes:
    return batch(record(0, b"key", value))


def garbage() -> bytes:
    return batch(b"garbage instead of records" * 4)


def no_gzip() -> bytes:
    return batch(b"this was never compressed" * 8, codec=Codec.GZIP)


def wrong_count() -> bytes:
    return batch(record(0, b"key", b"value"), count=1000)


def without_key() -> bytes:
    return batch(record(0, None, b"value"))


def equal_deltas() -> bytes:
    return batch(record(0, b"key", b"value") * 3, count=3)


def far_timestamp() -> bytes:
    return batch(record(0, b"key", b"value"), greatest_timestamp=YEAR_5000_MS)


@cache
def _bomb(size: int) -> bytes:
    """One record whose value is this many zeros, as zstd: 30 bytes for each megabyte."""
    head = b"\0\0\0" + varint(3) + b"key" + varint(size)
    stream = zstd.Compressor(level=1)
    stream.compress(varint(len(head) + size + 1) + head)
    for start in range(0, size, len(_CHUNK)):
        stream.compress(_CHUNK[: size - start])
    stream.compress(b"\0")
    return bytes(stream.finish())


def zstd_bomb(megabytes: int) -> Callable[[], bytes]:
    return lambda: batch(_bomb(megabytes * MB), codec=Codec.ZSTD)
