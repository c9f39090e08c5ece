"""The record decoder: records of batches into the buffers of Arrow columns.

It creates no object per record. `Columns` is the compiled twin where the package was built with a C
compiler, else `PureColumns`; one suite tests both. The caller appends the decompressed records of a
batch. Records outside the wanted offsets and timestamps are skipped. Timestamps become
microseconds, Spark's unit.
"""

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from barnabas.base.errors import BrokerError
from barnabas.wire.records.records import read_varint

Buffer = bytes | bytearray | memoryview
# Offsets, data, validity (None if there are no nulls), number of nulls.
Bytes = tuple[Buffer, Buffer, Buffer | None, int]
# Offsets, validity and nulls of the lists; number of headers; their keys and values.
Headers = tuple[tuple[Buffer, Buffer | None, int], int, Bytes, Bytes]
# Number of rows, then offsets, timestamps, timestamp types, keys, values, and wanted headers.
ColumnBuffers = tuple[int, Buffer, Buffer, Buffer, Bytes, Bytes, Headers | None]

LEAST_LONG: Final = -(2**63)
MOST_LONG: Final = 2**63 - 1
_LEAST_RECORD: Final = 6
_US_PER_MS: Final = 1000


class _Values:
    """A column of nullable binary values."""

    def __init__(self) -> None:
        self.offsets = array("i", [0])
        self.data = bytearray()
        self.valid = bytearray()

    @property
    def rows(self) -> int:
        return len(self.valid)

    def put(self, value: Buffer | None) -> None:
        if value is not None:
            self.data += value
        self.offsets.append(len(self.data))
        self.valid.append(value is not None)

    def taken(self) -> Bytes:
        validity, nulls = _bitmap(self.valid)
        return self.offsets.tobytes(), bytes(self.data), validity, nulls


class PureColumns:
    """The buffers of the wanted records, column by column."""

    def __init__(self, start: int, end: int, earliest: int, latest: int, headers: bool) -> None:
        """Keep the offsets [start, end) and the timestamps `earliest` to `latest`, inclusive.

        Timestamps are in milliseconds, as in batches.
        """
        self._offsets_wanted = range(start, end)
        self._earliest, self._latest = earliest, latest
        self._with_headers = headers
        self._begin()

    def _begin(self) -> None:
        self._offsets, self._timestamps, self._types = array("q"), array("q"), array("i")
        self._keys, self._values = _Values(), _Values()
        self._list_offsets, self._lists_valid = array("i", [0]), bytearray()
        self._header_keys, self._header_values = _Values(), _Values()

    @property
    def rows(self) -> int:
        return len(self._offsets)

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        return len(self._keys.data) + len(self._values.data) + 24 * self.rows

    def append(
        self,
        payload: Buffer,
        base_offset: int,
        base_timestamp: int,
        log_append_time: bool,
        count: int,
    ) -> None:
        """Append the records of one batch; with LogAppendTime all have `base_timestamp`.

        Raises  ValueError if the records are corrupt; the columns must not be used then
        """
        data = bytes(payload)
        try:
            position = 0
            for record in range(count):
                size, position = read_varint(data, position)
                if size < _LEAST_RECORD or size > len(data) - position:
                    raise ValueError(f"the batch ends within record {record}")
                end = position + size
                self._append(data[position + 1 : end], base_offset, base_timestamp, log_append_time)
                position = end
        except (IndexError, BrokerError) as failure:
            raise ValueError(f"a number is cut short or too long: {failure}") from None
        if position != len(data):
            raise ValueError(f"{len(data) - position} bytes are left after the last record")

    def _append(
        self, data: bytes, base_offset: int, base_timestamp: int, log_append_time: bool
    ) -> None:
        timestamp_delta, position = read_varint(data, 0)
        offset_delta, position = read_varint(data, position)
        offset = base_offset + offset_delta
        timestamp = base_timestamp if log_append_time else base_timestamp + timestamp_delta
        if offset not in self._offsets_wanted or not self._earliest <= timestamp <= self._latest:
            return
        if not LEAST_LONG <= timestamp * _US_PER_MS <= MOST_LONG:
            raise ValueError(f"a record has a timestamp of {timestamp}")
        key, position = _read_bytes(data, position)
        value, position = _read_bytes(data, position)
        self._keys.put(key)
        self._values.put(value)
        self._offsets.append(offset)
        self._timestamps.append(timestamp * _US_PER_MS)
        self._types.append(log_append_time)
        if self._with_headers:
            self._append_headers(data, position)

    def _append_headers(self, data: bytes, position: int) -> None:
        count, position = read_varint(data, position)
        if not 0 <= count <= (len(data) - position) // 2:
            raise ValueError(f"a record has {count} headers")
        for _ in range(count):
            key, position = _read_bytes(data, position)
            if key is None:
                raise ValueError("a header has no key")
            value, position = _read_bytes(data, position)
            self._header_keys.put(key)
            self._header_values.put(value)
        # As in Spark's Kafka source, a record without headers has null, not an empty array.
        self._list_offsets.append(self._header_keys.rows)
        self._lists_valid.append(count > 0)

    def take(self) -> ColumnBuffers:
        """Return the appended records and empty the columns."""
        headers: Headers | None = None
        if self._with_headers:
            headers = (
                (self._list_offsets.tobytes(), *_bitmap(self._lists_valid)),
                self._header_keys.rows,
                self._header_keys.taken(),
                self._header_values.taken(),
            )
        taken = (
            self.rows,
            self._offsets.tobytes(),
            self._timestamps.tobytes(),
            self._types.tobytes(),
            self._keys.taken(),
            self._values.taken(),
            headers,
        )
        self._begin()
        return taken


def _read_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = read_varint(data, position)
    if length < 0:
        return None, position
    if length > len(data) - position:
        raise ValueError(f"a field of {length} bytes reaches past its record")
    return data[position : position + length], position + length


def _bitmap(valid: bytearray) -> tuple[bytes | None, int]:
    """Arrow's validity bitmap, least bit first, and the number of nulls; None if there are none."""
    nulls = valid.count(0)
    if not nulls:
        return None, 0
    return bytes(_bytes_of_bits(valid)), nulls


def _bytes_of_bits(valid: bytearray) -> Iterator[int]:
    for start in range(0, len(valid), 8):
        yield sum(bit << place for place, bit in enumerate(valid[start : start + 8]))


if TYPE_CHECKING:
    Columns = PureColumns
else:
    try:
        from barnabas.spark.source._record_decoder import Columns
    except ImportError:
        Columns = PureColumns
