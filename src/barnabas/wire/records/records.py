"""The records inside a batch: decoded for those who must look, encoded for those who write.

A record is a varint length, attributes (always 0), timestamp and offset as differences to the
batch's, then key, value and headers each behind its length; -1 stands for null. All varints are
zigzag. A log or a client may hand over anything: every reader here raises BrokerError only.
"""

from collections.abc import Generator, Iterator, Sequence
from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import NO_LEADER_EPOCH, NO_PRODUCER_ID
from barnabas.wire.records.batch import (
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
    set_crc,
)
from barnabas.wire.records.compression import MAX_DECOMPRESSED_SIZE, Codec, compress, decompress
from barnabas.wire.records.single_record import single_record_batch

_NO_PRODUCER_EPOCH: Final = -1
_LONGEST_VARINT: Final = 70  # bits that 10 bytes hold, enough for a long
_MIN_LONG: Final = -(2**63)
_MAX_LONG: Final = 2**63 - 1

_CONTROL_KEY = Struct(">hh")  # version, type
_END_TRANSACTION = Struct(">hi")  # version, coordinator epoch
_CONTROL_VERSION: Final = 0


class Record(NamedTuple):
    """One record. Offset and timestamp are absolute; header keys keep bytes that are no UTF-8."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def read_records(
    batch: bytes | bytearray | memoryview, max_size: int = MAX_DECOMPRESSED_SIZE
) -> list[Record]:
    """All records of one whole batch, decompressed; the CRC is not looked at.

    With log-append time every record has the batch's time. Offsets may have gaps.

    Raises  BrokerError(corrupt_message) if the batch is not what its header says, or its records
            take more than `max_size` bytes; (unsupported_compression_type) if its codec is unknown
    """
    return list(each_record(batch, max_size))


def each_record(
    batch: bytes | bytearray | memoryview, max_size: int = MAX_DECOMPRESSED_SIZE
) -> Iterator[Record]:
    """The same, one after the other: millions of small ones take no memory together.

    Raises  as `read_records`, also after some of the records
    """
    header = read_header(batch)
    data = decompress(header.codec, _payload(batch, header), max_size)
    end = yield from _decode(data, header)
    if end != len(data):
        raise corrupt(f"{len(data) - end} bytes are left after the last record")


def _payload(batch: bytes | bytearray | memoryview, header: BatchHeader) -> memoryview:
    if header.magic != MAGIC:
        raise corrupt(f"magic is {header.magic}, not {MAGIC}")
    if not HEADER_SIZE <= header.size <= len(batch):
        raise corrupt(f"the batch says it has {header.size} bytes, {len(batch)} are there")
    if header.record_count < 0:
        raise corrupt(f"the batch says it has {header.record_count} records")
    return memoryview(batch)[HEADER_SIZE : header.size]


def _decode(data: bytes, header: BatchHeader) -> Generator[Record, None, int]:
    """All records of `data`; returns where the last one ends.

    A field that reaches beyond its record needs no check of its own: the position then never
    comes back to the record's end, or runs out of data (IndexError).
    """
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    position = 0
    number = 0
    try:
        for number in range(header.record_count):
            length, start = read_varint(data, position)
            timestamp_delta, position = read_varint(data, start + 1)
            offset_delta, position = read_varint(data, position)
            key_length, position = read_varint(data, position)
            key = None
            if key_length >= 0:
                key = data[position : position + key_length]
                position += key_length
            value_length, position = read_varint(data, position)
            value = None
            if value_length >= 0:
                value = data[position : position + value_length]
                position += value_length
            header_count, position = read_varint(data, position)
            headers: tuple[tuple[str, bytes | None], ...] = ()
            if header_count:
                headers, position = _read_headers(data, position, header_count)
            if position != start + length or position > len(data):
                raise corrupt(f"record {number} of {length} bytes has {position - start}")
            timestamp = base_timestamp + timestamp_delta
            if header.attributes & LOG_APPEND_TIME:
                timestamp = header.max_timestamp
            elif not _MIN_LONG <= timestamp <= _MAX_LONG:
                raise corrupt(f"record {number} has a timestamp of {timestamp}")
            yield Record(base_offset + offset_delta, timestamp, key, value, headers)
    except IndexError:
        raise corrupt(f"the batch ends within record {number}") from None
    return position


def _read_headers(
    data: bytes, position: int, count: int
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    if count < 0:
        raise corrupt(f"a record with {count} headers")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(data, position)
        if key is None:
            raise corrupt("a record header without a key")
        value, position = _read_bytes(data, position)
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), position


def _read_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, start = read_varint(data, position)
    if length < 0:
        return None, start
    return data[start : start + length], start + length


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at `position`, and the position after it. Raises IndexError at the data's end."""
    value = data[position]
    if value < 0x80:
        return (value >> 1) ^ -(value & 1), position + 1
    value &= 0x7F
    shift = 7
    while shift < _LONGEST_VARINT:
        position += 1
        byte = data[position]
        if byte < 0x80:
            value |= byte << shift
            return (value >> 1) ^ -(value & 1), position + 1
        value |= (byte & 0x7F) << shift
        shift += 7
    raise corrupt("a number of more than 10 bytes")


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    last_offset: int | None = None,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    leader_epoch: int = NO_LEADER_EPOCH,
    log_append_time: int | None = None,
    delete_horizon: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = _NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
) -> bytearray:
    """One batch of `records`, whose offsets are at or after `base_offset` and rise.

    `last_offset` is for compaction, which keeps a batch's range when records in it go; without it
    the range ends at the last record. `log_append_time` and `delete_horizon` set their attribute.

    Raises  BrokerError(invalid_record) if an offset or a timestamp does not fit its field
    """
    base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    attributes = codec | (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
    if log_append_time is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time
    if delete_horizon is not None:
        attributes |= DELETE_HORIZON
        base_timestamp = delete_horizon
    if last_offset is None:
        last_offset = records[-1].offset if records else base_offset - 1
    return _with_header(
        compress(codec, _encode(records, base_offset, base_timestamp), level),
        (base_offset, leader_epoch, attributes, last_offset - base_offset),
        (base_timestamp, max_timestamp),
        (producer_id, producer_epoch, base_sequence),
        len(records),
    )


class RecordWriter:
    """Builds a batch record by record, from offset 0 on, and keeps none of them as an object.

    A garbage collector would scan hundreds of thousands again and again, and hold all threads.
    """

    def __init__(self) -> None:
        self.count = 0
        self._data = bytearray()
        self._base_timestamp = self._max_timestamp = NO_TIMESTAMP

    def add(self, record: Record) -> None:
        """Write the record with the next offset, whatever its own is."""
        if not self.count:
            self._base_timestamp = self._max_timestamp = record.timestamp
        self._max_timestamp = max(self._max_timestamp, record.timestamp)
        _write_record(self._data, record, self.count, self._base_timestamp)
        self.count += 1

    def batch(self, codec: Codec) -> bytearray:
        """The batch of these records, compressed. Raises as `build_batch` does."""
        return _with_header(
            compress(codec, self._data),
            (0, NO_LEADER_EPOCH, int(codec), self.count - 1),
            (self._base_timestamp, self._max_timestamp),
            (NO_PRODUCER_ID, _NO_PRODUCER_EPOCH, NO_SEQUENCE),
            self.count,
        )


def _with_header(
    data: bytes | bytearray,
    first: tuple[int, int, int, int],
    timestamps: tuple[int, int],
    producer: tuple[int, int, int],
    count: int,
) -> bytearray:
    """A batch of `count` encoded records; `first` has base offset, leader epoch, attributes, and
    last offset delta.
    """
    base_offset, leader_epoch, attributes, last_delta = first
    length = HEADER_SIZE + len(data) - LOG_OVERHEAD
    head = (base_offset, length, leader_epoch, MAGIC, 0, attributes, last_delta)
    batch = bytearray(HEADER_SIZE)
    try:
        HEADER.pack_into(batch, 0, *head, *timestamps, *producer, count)
    except StructError as error:
        raise BrokerError(ErrorCode.invalid_record, f"no batch can hold this: {error}") from None
    batch += data
    set_crc(batch)
    return batch


def _encode(records: Sequence[Record], base_offset: int, base_timestamp: int) -> bytearray:
    data = bytearray()
    for record in records:
        _write_record(data, record, record.offset - base_offset, base_timestamp)
    return data


def _write_record(data: bytearray, record: Record, delta: int, base_timestamp: int) -> None:
    body = bytearray(1)  # attributes
    write_varint(body, record.timestamp - base_timestamp)
    write_varint(body, delta)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    write_varint(body, len(record.headers))
    for key, value in record.headers:
        _write_bytes(body, key.encode("utf-8", "surrogateescape"))
        _write_bytes(body, value)
    write_varint(data, len(body))
    data += body


def _write_bytes(data: bytearray, field: bytes | None) -> None:
    if field is None:
        data.append(1)  # zigzag of -1
    else:
        write_varint(data, len(field))
        data += field


def write_varint(data: bytearray, value: int) -> None:
    value = value << 1 if value >= 0 else (-value << 1) - 1
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)


class ControlType(IntEnum):
    """How a transaction ended. Kafka has more kinds of control record, none for a partition."""

    ABORT = 0
    COMMIT = 1


class EndTransactionMarker(NamedTuple):
    """The marker that a transaction coordinator writes to each partition of a transaction."""

    control_type: ControlType
    coordinator_epoch: int


def build_marker(
    marker: EndTransactionMarker, timestamp: int, producer_id: int, producer_epoch: int
) -> bytearray:
    """The control batch that ends the producer's transaction in a partition."""
    key = _CONTROL_KEY.pack(_CONTROL_VERSION, marker.control_type)
    value = _END_TRANSACTION.pack(_CONTROL_VERSION, marker.coordinator_epoch)
    return single_record_batch(
        key,
        value,
        timestamp,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def read_marker(batch: bytes | bytearray | memoryview) -> EndTransactionMarker | None:
    """The marker of a control batch; None if compaction emptied it or it is of another kind.

    Raises  BrokerError(corrupt_message) if its record is too short or of a negative version
    """
    for record in read_records(batch):
        try:
            key_version, control_type = _CONTROL_KEY.unpack_from(record.key or b"")
            if control_type not in (ControlType.ABORT, ControlType.COMMIT):
                return None
            version, coordinator_epoch = _END_TRANSACTION.unpack_from(record.value or b"")
        except StructError:
            raise corrupt("a control record that is too short") from None
        if key_version < 0 or version < 0:
            raise corrupt(f"a control record of version {min(key_version, version)}")
        return EndTransactionMarker(ControlType(control_type), coordinator_epoch)
    return None


def corrupt(what: str) -> BrokerError:
    """To be raised where a batch is not what its header says."""
    return BrokerError(ErrorCode.corrupt_message, what)
