"""Checksums of records in Spark SQL.

A record's checksum is the CRC-32 of one line: its offset and timestamp, and the CRC-32s of key,
value and headers. The sum over many records does not depend on the order of reading. Because the
offset is part of each checksum, the sum changes when a record is missing, duplicated, changed or
moved.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column

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
