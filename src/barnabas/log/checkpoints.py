"""The text of Kafka's checkpoint files: a version, a count, and that many lines.

    0                    0
    2                    2
    orders 0 1500        0 0
    orders 1 1498        3 1200

On the left one of the `*-offset-checkpoint` files of a log directory, on the right
the `leader-epoch-checkpoint` of a partition. An empty file holds no entries:
Kafka creates them so. A writer replaces the whole file, so that a reader
sees the old text or the new one.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from barnabas.base.errors import BarnabasError
from barnabas.base.ids import TopicPartition
from barnabas.log.leader_epochs import EpochEntry

_VERSION: Final = "0"
_OFFSET_LINE: Final = re.compile(r"(\S+)\s+(\d{1,10})\s+(\d{1,19})", re.ASCII)
_EPOCH_LINE: Final = re.compile(r"(\d{1,10})\s+(\d{1,19})", re.ASCII)


class CorruptCheckpoint(BarnabasError):
    """A checkpoint's text cannot be trusted; the message says why, its reader knows which file."""


def encode_offset_checkpoint(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _encode(
        [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    )


def decode_offset_checkpoint(data: bytes) -> dict[TopicPartition, int]:
    """The offset of each partition. Raises CorruptCheckpoint."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partition, offset in _decode(data, _OFFSET_LINE)
    }


def encode_epoch_checkpoint(entries: Iterable[EpochEntry]) -> bytes:
    return _encode([f"{epoch} {start_offset}" for epoch, start_offset in entries])


def decode_epoch_checkpoint(data: bytes) -> list[EpochEntry]:
    """The entries in the order of the file, for LeaderEpochs. Raises CorruptCheckpoint."""
    return [
        EpochEntry(int(epoch), int(start_offset))
        for epoch, start_offset in _decode(data, _EPOCH_LINE)
    ]


def _encode(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in (_VERSION, str(len(lines)), *lines)).encode()


def _decode(data: bytes, line_format: re.Pattern[str]) -> list[Sequence[str]]:
    if not data:
        return []
    if not data.endswith(b"\n"):
        raise CorruptCheckpoint("cut off: the last line has no end")
    try:
        version, *rest = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(f"not UTF-8 at byte {error.start}") from error
    if version != _VERSION:
        raise CorruptCheckpoint(f"unknown version {version!r}, expected {_VERSION!r}")
    if not rest or not re.fullmatch(r"\d{1,10}", rest[0], re.ASCII):
        raise CorruptCheckpoint(f"line 2 should count the entries, not {''.join(rest[:1])!r}")
    count, *lines = rest
    entries = [_fields(line, number, line_format) for number, line in enumerate(lines, 3)]
    if len(entries) != int(count):
        raise CorruptCheckpoint(f"{count} entries expected, {len(entries)} found")
    return entries


def _fields(line: str, number: int, line_format: re.Pattern[str]) -> Sequence[str]:
    match = line_format.fullmatch(line)
    if match is None:
        raise CorruptCheckpoint(f"line {number} is malformed: {line!r}")
    return match.groups()
