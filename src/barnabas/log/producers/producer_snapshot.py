"""The bytes of a `.snapshot` file: the state of one partition's producers at an offset.

    0  version = 1              h
    2  CRC-32C of 6..end        I
    6  number of entries        i
    10 entries of 46 bytes      qhiqiqiq, the fields of SnapshotEntry in their order

Only the last batch of each producer is kept. If a snapshot cannot be trusted, the
reader uses an earlier one, and scans the log from there.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from barnabas.base.checksum import crc32c
from barnabas.base.errors import BarnabasError

_VERSION: Final = 1
_HEAD: Final = Struct(">hIi")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")
_CRC_START: Final = 6


class CorruptSnapshot(BarnabasError):
    """A snapshot's bytes cannot be trusted; the message says why, its reader knows which file."""


class SnapshotEntry(NamedTuple):
    """One producer: its last batch (-1, -1, 0 without one), its last time, its transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int  # last minus first offset of the last batch
    timestamp: int
    coordinator_epoch: int  # of the last end marker, or -1
    current_txn_first_offset: int  # -1 outside a transaction


def encode_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(_VERSION, crc32c(body), len(packed)) + body[_COUNT.size :]


def decode_snapshot(data: bytes) -> list[SnapshotEntry]:
    """The entries in the order of the file. Raises CorruptSnapshot."""
    if len(data) < _HEAD.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few for a snapshot")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshot(f"unknown version {version}, expected {_VERSION}")
    computed = crc32c(memoryview(data)[_CRC_START:])
    if crc != computed:
        raise CorruptSnapshot(f"CRC is {computed:#010x}, should be {crc:#010x}")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{count} entries do not fill {len(data)} bytes")
    return [SnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(data[_HEAD.size :])]
