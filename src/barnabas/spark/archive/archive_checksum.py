"""Checksums of records, equal in Spark SQL and in Python.

A record's checksum is the CRC-32 of one line: its offset and timestamp, and the CRC-32s of key,
value and headers. The sum over many records does not depend on the order of reading. Because the
offset is part of each checksum, the sum changes when a record is missing, duplicated, changed or
moved.
"""

import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column

_ABSENT: Final = "-"
_HEADERS: Final = (
    "concat_ws(',', transform(coalesce(headers, array()), header -> concat("
    "crc32(cast(header.key AS BINARY)), ':', coalesce(string(crc32(header.value)), '-'))))"
)
_LINE: Final = (
    "concat_ws(' ', {offset}, unix_millis(timestamp), coalesce(string(crc32(key)), '-'),"
    f" coalesce(string(crc32(value)), '-'), {_HEADERS})"
)


def checksum_column(*, offsets: bool = True) -> "Column":
    """The checksum of each row; without `offsets` it is equal for copies at other offsets."""
    from pyspark.sql.functions import expr

    line = _LINE.format(offset="offset" if offsets else "'copy'")
    return expr(f"crc32(cast({line} AS BINARY))")


def record_checksum(
    offset: int,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]] = (),
) -> int:
    """The checksum of one record, in Python."""
    listed = ",".join(f"{zlib.crc32(name.encode())}:{_crc(content)}" for name, content in headers)
    return zlib.crc32(f"{offset} {timestamp_ms} {_crc(key)} {_crc(value)} {listed}".encode())


def _crc(content: bytes | None) -> str:
    return _ABSENT if content is None else str(zlib.crc32(content))
