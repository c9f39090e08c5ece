"""The `.txnindex` of a segment: the aborted transactions whose end markers lie in it.

    0  version = 0          h
    2  producer id          q
    10 first offset         q
    18 last offset          q   that of the marker; entries rise by it
    26 last stable offset   q   as the marker left it

There is no file while there are no entries.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.disk.disk import Disk

_VERSION: Final = 0
_ENTRY: Final = Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    """A producer's records from `first_offset` up to its marker at `last_offset` never counted."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_aborted(entries: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)


def decode_aborted(data: bytes) -> list[AbortedTransaction]:
    """The entries in the order of the file; a last one that is not whole is left out.

    Raises  BrokerError(corrupt_message) if one is of a version that nobody knows
    """
    whole = len(data) - len(data) % _ENTRY.size
    entries = list(_ENTRY.iter_unpack(data[:whole]))
    if any(version != _VERSION for version, *_ in entries):
        raise BrokerError(
            ErrorCode.corrupt_message, "a transaction index has entries of an unknown version"
        )
    return [AbortedTransaction(*fields) for _, *fields in entries]


def append_aborted(disk: Disk, path: str, entry: AbortedTransaction) -> None:
    disk.open(path, create=True).append(encode_aborted([entry]))


def truncate_aborted(disk: Disk, path: str, offset: int) -> None:
    """Keep the entries whose markers lie before `offset`."""
    data = disk.load(path)
    if data:
        kept = [entry for entry in decode_aborted(data) if entry.last_offset < offset]
        disk.replace(path, encode_aborted(kept), sync=False) if kept else disk.remove(path)
