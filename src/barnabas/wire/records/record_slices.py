"""Records as slices of their batch, for compaction, which drops some and keeps others' bytes.

Only a record's position, its key, and whether it has a value are decoded.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.wire.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
    set_crc,
)
from barnabas.wire.records.compression import Codec, compress, decompress
from barnabas.wire.records.records import corrupt, read_varint, write_varint


class RecordSlice(NamedTuple):
    """One record in the decompressed bytes of a batch, from `start` to `end`."""

    start: int
    end: int
    timestamp_delta: int
    rest: int  # where what follows the timestamp begins
    offset: int
    key: bytes | None
    is_tombstone: bool


_new_slice: Final = tuple.__new__


def slice_records(
    batch: bytes | memoryview, header: BatchHeader
) -> tuple[bytes, list[RecordSlice]]:
    """The decompressed records of one whole batch, and where each of them lies.

    Raises  BrokerError(corrupt_message) if they are not what the header says, or do not decompress;
            (unsupported_compression_type) if the codec is unknown
    """
    data = decompress(header.codec, memoryview(batch)[HEADER_SIZE : header.size])
    slices: list[RecordSlice] = []
    try:
        end = _slice(data, header, slices)
    except IndexError:
        raise corrupt(f"the batch ends within record {len(slices)}") from None
    if end != len(data):
        raise corrupt(f"{len(data) - end} bytes are left after the last record")
    return data, slices


def _slice(data: bytes, header: BatchHeader, slices: list[RecordSlice]) -> int:
    """Every number that fits one byte is read in place: a call for each would double the time."""
    base_offset, size = header.base_offset, len(data)
    append = slices.append
    end = 0
    for _ in range(header.record_count):
        start = end
        number = data[start]
        if number < 0x80:
            length, position = (number >> 1) ^ -(number & 1), start + 1
        else:
            length, position = read_varint(data, start)
        end = position + length
        number = data[position + 1]  # after the attributes
        if number < 0x80:
            timestamp_delta, rest = (number >> 1) ^ -(number & 1), position + 2
        else:
            timestamp_delta, rest = read_varint(data, position + 1)
        number = data[rest]
        if number < 0x80:
            offset_delta, position = (number >> 1) ^ -(number & 1), rest + 1
        else:
            offset_delta, position = read_varint(data, rest)
        number = data[position]
        if number < 0x80:
            key_length, position = (number >> 1) ^ -(number & 1), position + 1
        else:
            key_length, position = read_varint(data, position)
        key = None
        if key_length >= 0:
            key = data[position : position + key_length]
            position += key_length
        number = data[position]
        is_tombstone = number & 1 == 1 if number < 0x80 else read_varint(data, position)[0] < 0
        if not position < end <= size:
            raise corrupt(f"record {len(slices)} of {length} bytes does not fit its batch")
        append(
            _new_slice(
                RecordSlice,
                (start, end, timestamp_delta, rest, base_offset + offset_delta, key, is_tombstone),
            )
        )
    return end


def rebuild(
    header: BatchHeader, data: bytes, kept: Sequence[RecordSlice], delete_horizon: int | None = None
) -> bytearray:
    """The batch with only `kept` of its records, in its own codec; their offsets stay.

    So do the batch's range of offsets and its sequence, for the producer's sake. A new
    `delete_horizon` replaces the base timestamp (KIP-534).
    """
    attributes, base_timestamp, max_timestamp = (
        header.attributes,
        header.base_timestamp,
        header.max_timestamp,
    )
    if not header.log_append_time:
        max_timestamp = base_timestamp + max(record.timestamp_delta for record in kept)
    if delete_horizon is None:
        records = b"".join([data[record.start : record.end] for record in kept])
    else:
        records = _shifted(data, kept, base_timestamp - delete_horizon)
        attributes, base_timestamp = attributes | DELETE_HORIZON, delete_horizon
    return _build(
        header._replace(
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            record_count=len(kept),
        ),
        compress(Codec(header.codec), records),
    )


def empty(header: BatchHeader) -> bytearray:
    """The batch without its records: what a producer's last sequence is known by."""
    return _build(
        header._replace(
            attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON),
            base_timestamp=NO_TIMESTAMP,
            record_count=0,
        ),
        b"",
    )


def _shifted(data: bytes, kept: Sequence[RecordSlice], shift: int) -> bytes:
    """The records with `shift` added to their timestamps' differences to the batch's."""
    records = bytearray()
    for record in kept:
        delta = bytearray(1)  # the attributes
        write_varint(delta, record.timestamp_delta + shift)
        write_varint(records, len(delta) + record.end - record.rest)
        records += delta
        records += data[record.rest : record.end]
    return bytes(records)


def _build(header: BatchHeader, records: bytes) -> bytearray:
    batch = bytearray(HEADER_SIZE) + records
    HEADER.pack_into(batch, 0, *header._replace(batch_length=len(batch) - LOG_OVERHEAD))
    set_crc(batch)
    return batch
