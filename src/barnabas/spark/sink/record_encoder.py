"""The record encoder: columns of rows into the payloads of record batches, by partition.

`RecordEncoder` is the compiled twin where the package was built with a C compiler, else
`PureEncoder`; one suite tests both. Rows are partitioned as by Kafka's producer. A row goes to the
partition it names; else, with a key, to the partition of the key's murmur2 hash; else to the
partition of the row before, until its batch is full. A batch exceeds the batch size only if it
holds a single record.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from barnabas.base.twins import use_compiled
from barnabas.wire.records.records import write_varint

_MURMUR_SEED: Final = 0x9747B28C
_MURMUR_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
RECORD_OVERHEAD: Final = 32  # bytes besides key, value and headers; more than any in practice
_NO_HEADERS: Final = b"\0"
_US_PER_MS: Final = 1000

Arrow = Any  # an array of pyarrow, which has no types


class Payload(NamedTuple):
    """The records of a future batch, without the batch header."""

    partition: int
    record_count: int
    base_timestamp: int
    max_timestamp: int
    records: bytes | bytearray


class WrongPartition(ValueError):
    """A row names a partition that the topic does not have."""


def murmur2(key: bytes) -> int:
    """The hash with which Kafka's producer partitions keys, made positive."""
    length = len(key)
    h = (_MURMUR_SEED ^ length) & _MASK
    whole = length & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(key[position : position + 4], "little") * _MURMUR_M & _MASK
        k = (k ^ k >> 24) * _MURMUR_M & _MASK
        h = (h * _MURMUR_M & _MASK) ^ k
    if length > whole:
        h = (h ^ int.from_bytes(key[whole:], "little")) * _MURMUR_M & _MASK
    h = (h ^ h >> 13) * _MURMUR_M & _MASK
    return (h ^ h >> 15) & 0x7FFFFFFF


def header_section(headers: Iterable[tuple[str, bytes | None]]) -> bytes:
    """The number of headers, then each header: the end of a record."""
    listed = list(headers)
    section = bytearray()
    write_varint(section, len(listed))
    for key, value in listed:
        _write_bytes(section, key.encode())
        _write_bytes(section, value)
    return bytes(section)


def _write_bytes(data: bytearray, field: bytes | None) -> None:
    write_varint(data, -1 if field is None else len(field))
    data += field or b""


class _Growing:
    """The growing batch of one partition."""

    def __init__(self) -> None:
        self.records = bytearray()
        self.count = 0
        self.base_timestamp = 0
        self.max_timestamp = 0

    def add(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: bytes | None
    ) -> None:
        if not self.count:
            self.base_timestamp = self.max_timestamp = timestamp
        self.max_timestamp = max(self.max_timestamp, timestamp)
        body = bytearray(1)  # attributes
        write_varint(body, timestamp - self.base_timestamp)
        write_varint(body, self.count)
        _write_bytes(body, key)
        _write_bytes(body, value)
        body += _NO_HEADERS if headers is None else headers
        write_varint(self.records, len(body))
        self.records += body
        self.count += 1


class PureEncoder:
    """Encodes the rows of one topic into one growing batch per partition."""

    def __init__(self, partitions: int, batch_bytes: int, sticky: int) -> None:
        """`sticky` is the first partition for rows without partition and key."""
        self._partitions = partitions
        self._batch_bytes = batch_bytes
        self._sticky = sticky % partitions
        self._growing = [_Growing() for _ in range(partitions)]

    def append(
        self,
        values: Arrow,
        keys: Arrow | None,
        timestamps_us: Arrow | None,
        partitions: Arrow | None,
        headers: Arrow | None,
        now_ms: int,
    ) -> list[Payload]:
        """Append rows and return the batches that are full. Columns are binary, long, int arrays.

        `now_ms` is the timestamp of rows without one; `headers` holds encoded sections.

        Raises  WrongPartition; the rows before the wrong one are appended then
        """
        full: list[Payload] = []
        for value, key, timestamp_us, partition, section in zip(
            values.to_pylist(),
            *_lists(len(values), keys, timestamps_us, partitions, headers),
            strict=True,
        ):
            chosen = self._choose(key, partition)
            needed = RECORD_OVERHEAD + sum(map(len, filter(None, (key, value, section))))
            growing = self._growing[chosen]
            if growing.count and len(growing.records) + needed > self._batch_bytes:
                full.append(self._payload(chosen))
                growing = self._growing[chosen]
                if chosen == self._sticky:
                    self._sticky = (chosen + 1) % self._partitions
            growing.add(
                now_ms if timestamp_us is None else timestamp_us // _US_PER_MS, key, value, section
            )
        return full

    def take(self) -> list[Payload]:
        """Return the batches that are not full, and start new ones."""
        return [
            self._payload(number) for number, growing in enumerate(self._growing) if growing.count
        ]

    def _choose(self, key: bytes | None, partition: int | None) -> int:
        if partition is not None:
            if not 0 <= partition < self._partitions:
                raise WrongPartition(f"{partition}, of {self._partitions}")
            return partition
        return self._sticky if key is None else murmur2(key) % self._partitions

    def _payload(self, partition: int) -> Payload:
        done, self._growing[partition] = self._growing[partition], _Growing()
        return Payload(partition, done.count, done.base_timestamp, done.max_timestamp, done.records)


def _lists(rows: int, *columns: Arrow | None) -> Iterable[Sequence[Any]]:
    for column in columns:
        yield [None] * rows if column is None else column.to_pylist()


RecordEncoder = PureEncoder
use_compiled(globals(), "barnabas.spark.sink._record_encoder", "RecordEncoder")
