"""Dump of a segment, batch by batch, as far as it is readable, also while a broker appends."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from barnabas.base.errors import BrokerError
from barnabas.cli.log.dump_result import Damage, Dump, DumpEntry
from barnabas.cli.log.transaction_dump import transaction_fields
from barnabas.wire.records.batch import HEADER_SIZE, MAGIC, BatchHeader, check_crc, read_header
from barnabas.wire.records.compression import Codec
from barnabas.wire.records.records import Record, read_marker, read_records

_TRANSACTIONS: Final = "__transaction_state-"


class SegmentBatch(NamedTuple):
    """One complete batch and its position in the segment."""

    position: int
    header: BatchHeader
    data: bytes


def dump_segment(path: Path, base_offset: int, *, records: bool, deep: bool) -> Dump:
    """Each batch, with its records if wanted, and a total; `deep` checks the records.

    Records of `__transaction_state` are decoded.
    """
    batches = count = 0
    fields_of = transaction_fields if path.parent.name.startswith(_TRANSACTIONS) else _record_fields
    next_offset = base_offset
    with path.open("rb") as file:
        for found in read_batches(file, path.stat().st_size):
            if not isinstance(found, SegmentBatch):
                yield found
                continue
            header = found.header
            yield from _dump_batch(found)
            if header.base_offset < next_offset:
                yield Damage(
                    found.position,
                    f"base offset {header.base_offset}, expected {next_offset} or more",
                )
            if records or deep:
                yield from _dump_records(found, records, fields_of)
            batches, count = batches + 1, count + header.record_count
            next_offset = header.next_offset
    yield DumpEntry("total", {"batches": batches, "records": count, "next_offset": next_offset})


def read_batches(file: BinaryIO, size: int) -> Iterator[SegmentBatch | DumpEntry | Damage]:
    """The batches in the first `size` bytes; stops at the first with an invalid length."""
    position = 0
    while position < size:
        head = file.read(HEADER_SIZE)
        left = size - position
        if not any(head) and _only_zeros(file):
            yield DumpEntry("unused", {"position": position, "size": left})
            return
        if len(head) < HEADER_SIZE:
            yield Damage(position, f"truncated: {left} bytes left of a header of {HEADER_SIZE}")
            return
        header = read_header(head)
        if problem := _implausible(header, left):
            yield Damage(position, f"{problem}; the last {left} bytes are unreadable")
            return
        yield SegmentBatch(position, header, head + file.read(header.size - HEADER_SIZE))
        position += header.size


def _only_zeros(file: BinaryIO) -> bool:
    return not any(any(chunk) for chunk in iter(lambda: file.read(1 << 20), b""))


def _implausible(header: BatchHeader, left: int) -> str | None:
    if header.magic in (0, 1):
        return f"unsupported message format (magic {header.magic})"
    if header.magic != MAGIC:
        return f"not a batch: magic is {header.magic}, not {MAGIC}"
    if header.size < HEADER_SIZE:
        return f"not a batch: size is {header.size} bytes"
    if header.size > left:
        return f"truncated: {left} bytes left of a batch of {header.size}"
    return None


def _dump_batch(batch: SegmentBatch) -> Dump:
    position, header, data = batch
    intact = check_crc(data)
    producer = header.producer_id >= 0
    yield DumpEntry(
        "batch",
        {
            "base_offset": header.base_offset,
            "last_offset": header.last_offset,
            "records": header.record_count,
            "position": position,
            "size": header.size,
            "leader_epoch": header.leader_epoch,
            "codec": codec_name(header.codec),
            "crc": "ok" if intact else "BAD",
            "timestamps": "append" if header.log_append_time else "create",
            "base_timestamp": None if header.has_delete_horizon else header.base_timestamp,
            "max_timestamp": header.max_timestamp,
            "delete_horizon_timestamp": (
                header.base_timestamp if header.has_delete_horizon else None
            ),
            "producer_id": header.producer_id if producer else None,
            "producer_epoch": header.producer_epoch if producer else None,
            "base_sequence": header.base_sequence if header.base_sequence >= 0 else None,
            "last_sequence": header.last_sequence if header.base_sequence >= 0 else None,
            "transactional": header.is_transactional,
            "control": header.is_control,
        },
    )
    if not intact:
        yield Damage(position, f"wrong CRC of the batch at offset {header.base_offset}")


def codec_name(codec: int) -> str:
    return Codec(codec).name.lower() if codec in list(Codec) else f"unknown ({codec})"


def _dump_records(
    batch: SegmentBatch, shown: bool, fields_of: Callable[[Record], dict[str, object]]
) -> Dump:
    header = batch.header
    try:
        found = read_records(batch.data)
        marker = read_marker(batch.data) if header.is_control else None
    except BrokerError as error:
        yield Damage(batch.position, str(error))
        return
    if marker is not None and shown:
        fields = {"offset": header.base_offset, "type": marker.control_type.name.lower()}
        yield DumpEntry("marker", fields | {"coordinator_epoch": marker.coordinator_epoch})
    elif shown:
        yield from (DumpEntry("record", fields_of(record)) for record in found)
    offsets = [header.base_offset - 1, *(record.offset for record in found)]
    if offsets != sorted(set(offsets)) or offsets[-1] > header.last_offset:
        yield Damage(
            batch.position,
            f"record offsets do not increase from {header.base_offset} to {header.last_offset}",
        )


def _record_fields(record: Record) -> dict[str, object]:
    fields = record._asdict()
    return fields | {"headers": [list(header) for header in record.headers] or None}
