"""Columns of rows into the payloads of record batches, a partition each, as Kafka's producer would.

`RecordEncoder` is the compiled twin where the package was built with a C compiler, else
`PureEncoder`; one suite tests both. A row goes to the partition it names; else, if it has a key, to
the one that the key's murmur2 hash chooses, as with every Kafka client of Java; else to the same as
the row before, until a batch is full. A batch is never larger than asked for, unless it holds a
single record that is.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from barnabas.base.twins import use_compiled
from barnabas.wire.records.records import write_varint

_MURMUR_SEED: Final = 0x9747B28C
_MURMUR_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
RECORD_OVERHEAD: Final = (
    32  # what a record takes beside key, value and headers, at most in practice
)
_NO_HEADERS: Final = b"\0"
_US_PER_MS: Final = 1000

Arrow = Any  # an array of pyarrow, which has no types


class Payload(NamedTuple):
    """The records of one batch to be, without its header."""

    partition: int
    record_count: int
    base_timestamp: int
    max_timestamp: int
    records: bytes | bytearray


class WrongPartition(ValueError):
    """A row names a partition that its topic does not have."""


def murmur2(key: bytes) -> int:
    """The hash by which Kafka's own producer spreads keys over partitions, made positive."""
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
    """How many headers, then each: the end of a record."""
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
    """A batch to be of one partition."""

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
    """The rows of one topic, partition by partition, until a batch is full or they are taken."""

    def __init__(self, partitions: int, batch_bytes: int, sticky: int) -> None:
        """`sticky` is the partition where rows begin that have none and no key."""
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
        """Add rows; returns the batches that are full. Columns are binary, long and int arrays.

        `now_ms` is the time of rows that have none; `headers` holds encoded sections.

        Raises  WrongPartition, with rows before it added
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
        """All that is not full; empty afterwards."""
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
