"""What stands for the content of records, the same in Spark's SQL and in Python.

A record's checksum is the CRC-32 of one line: its offset and timestamp, and the CRC-32s of key,
value and headers. Since the offset is in it, the sum over many records does not depend on the order
in which they are read, and yet changes when a record is missing, twice, changed or moved.
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
    """The checksum of each row; without `offsets` also equal for a copy elsewhere in a log."""
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
    """The same of one record in Python."""
    listed = ",".join(f"{zlib.crc32(name.encode())}:{_crc(content)}" for name, content in headers)
    return zlib.crc32(f"{offset} {timestamp_ms} {_crc(key)} {_crc(value)} {listed}".encode())


def _crc(content: bytes | None) -> str:
    return _ABSENT if content is None else str(zlib.crc32(content))
