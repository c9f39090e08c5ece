"""Dumps of indexes, producer snapshots, checkpoints and properties."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from struct import Struct
from typing import Final

from barnabas.base.errors import BarnabasError
from barnabas.cli.log.dump_result import Damage, Dump, DumpEntry
from barnabas.cli.log.journal_dump import dump_journal
from barnabas.config.properties import parse_properties
from barnabas.log.checkpoints import decode_epoch_checkpoint, decode_offset_checkpoint
from barnabas.log.producers.producer_snapshot import decode_snapshot
from barnabas.log.segment.index import OffsetIndex, TimeIndex
from barnabas.wire.records.batch import HEADER_SIZE, MAGIC, read_header

_ABORTED: Final = Struct(">hqqqq")


def dump_offset_index(path: Path, base_offset: int, deep: bool) -> Dump:
    """Each entry; `deep` checks that a batch of the `.log` begins at its position."""
    previous = (0, -1)
    segment = path.with_name(path.name.replace(".index", ".log"))
    for position, fields in _used(path, OffsetIndex.FORMAT):
        relative, log_position = fields
        offset = base_offset + relative
        yield DumpEntry("entry", {"offset": offset, "position": log_position})
        if relative <= previous[0] or log_position <= previous[1]:
            yield Damage(position, "offset and position do not increase")
        elif deep and (problem := _misplaced(segment, offset, log_position)):
            yield Damage(position, problem)
        previous = relative, log_position
    yield from _rest(path, OffsetIndex.FORMAT)


def _misplaced(segment: Path, offset: int, position: int) -> str | None:
    with segment.open("rb") as file:
        file.seek(position)
        head = file.read(HEADER_SIZE)
    if len(head) == HEADER_SIZE:
        header = read_header(head)
        if header.magic == MAGIC and 0 <= header.base_offset <= offset:
            return None
    return f"no batch with offset {offset} at byte {position} of {segment.name}"


def dump_time_index(path: Path, base_offset: int) -> Dump:
    previous = (-1, 0)
    for position, fields in _used(path, TimeIndex.FORMAT):
        timestamp, relative = fields
        yield DumpEntry("entry", {"timestamp": timestamp, "offset": base_offset + relative})
        if timestamp <= previous[0] or relative < previous[1]:
            yield Damage(position, "timestamp and offset do not increase")
        previous = timestamp, relative
    yield from _rest(path, TimeIndex.FORMAT)


def _used(path: Path, format: Struct) -> list[tuple[int, tuple[int, ...]]]:
    """Position and fields of each entry before the preallocated zeros of an active index."""
    data = _whole(path, format).rstrip(b"\0")
    entries = -(-len(data) // format.size)
    padded = data.ljust(entries * format.size, b"\0")
    return [(i * format.size, fields) for i, fields in enumerate(format.iter_unpack(padded))]


def _whole(path: Path, format: Struct) -> bytes:
    data = path.read_bytes()
    return data[: len(data) - len(data) % format.size]


def _rest(path: Path, format: Struct) -> Dump:
    size, used = path.stat().st_size, len(_used(path, format)) * format.size
    if unused := size - size % format.size - used:
        yield DumpEntry("unused", {"position": used, "size": unused})
    if size % format.size:
        yield Damage(size - size % format.size, f"truncated entry of {format.size} bytes")


def dump_aborted_transactions(path: Path) -> Dump:
    names = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
    data = path.read_bytes()
    end = len(data) - len(data) % _ABORTED.size
    for position in range(0, end, _ABORTED.size):
        version, *fields = _ABORTED.unpack_from(data, position)
        yield DumpEntry("aborted", dict(zip(names, fields, strict=True)))
        if version != 0:
            yield Damage(position, f"unknown aborted transaction version {version}")
    if end < len(data):
        yield Damage(end, f"truncated entry of {_ABORTED.size} bytes")


def dump_snapshot(path: Path) -> Dump:
    for producer in decode_snapshot(path.read_bytes()):
        yield DumpEntry("producer", producer._asdict())


def dump_epochs(path: Path) -> Dump:
    for entry in decode_epoch_checkpoint(path.read_bytes()):
        yield DumpEntry("epoch", entry._asdict())


def dump_offsets(path: Path) -> Dump:
    for (topic, partition), offset in decode_offset_checkpoint(path.read_bytes()).items():
        yield DumpEntry("offset", {"topic": topic, "partition": partition, "offset": offset})


def dump_properties(path: Path) -> Dump:
    yield DumpEntry("properties", parse_properties(path.read_text("utf-8"), path.name))


def dump_clean_shutdown(path: Path) -> Dump:
    fields = json.loads(path.read_text("utf-8"))
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    yield DumpEntry("clean-shutdown", fields)


def dump_lock(path: Path) -> Dump:
    held = "locked by a running broker, so that no other uses the log directory; holds no data"
    yield DumpEntry("lock", {"size": path.stat().st_size, "purpose": held})


# Dumps of files with fixed names; segment files are named by their base offset.
DUMPS_BY_NAME: Final[Mapping[str, Callable[[Path], Dump]]] = {
    "leader-epoch-checkpoint": dump_epochs,
    "recovery-point-offset-checkpoint": dump_offsets,
    "replication-offset-checkpoint": dump_offsets,
    "log-start-offset-checkpoint": dump_offsets,
    "cleaner-offset-checkpoint": dump_offsets,
    "meta.properties": dump_properties,
    "partition.metadata": dump_properties,
    ".kafka_cleanshutdown": dump_clean_shutdown,
    ".lock": dump_lock,
    "znodes.lock": dump_lock,
    "znodes.journal": dump_journal,
}

# Exceptions from reading a damaged file.
UNREADABLE: Final = (BarnabasError, ValueError, OSError)
