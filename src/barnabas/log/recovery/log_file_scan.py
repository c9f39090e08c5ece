"""The scan of a `.log` file that a crash or a bad disk may have damaged."""

from collections.abc import Iterator
from struct import Struct
from typing import Final
from zlib import crc32

from barnabas.base.errors import ConfigError
from barnabas.disk.disk import DataFile
from barnabas.wire.records.batch import HEADER_SIZE, MAGIC, BatchHeader, check_crc, read_header

_AT_ONCE: Final = 4 * 1024 * 1024

# The header of every message before there were batches: offset, size, CRC-32 of the rest, magic.
_OLD: Final = Struct(">qiIb")
_OLD_OVERHEAD, _OLD_CRC_START = 12, 16


def valid_batches(file: DataFile, base_offset: int, limit: int) -> Iterator[BatchHeader]:
    """The headers of the batches from the start on that are whole, unharmed and in order.

    They lie between `base_offset` and `limit`. The scan ends at the first batch that fails a check,
    whatever follows.
    """
    chunk, chunk_at, position = memoryview(b""), 0, 0
    next_offset, epoch = base_offset, -1
    while position + HEADER_SIZE <= file.size:
        at = position - chunk_at
        if at + HEADER_SIZE > len(chunk):
            chunk, chunk_at, at = _read(file, position, 0), position, 0
        header = read_header(chunk, at)
        size = header.size
        if header.magic != MAGIC or not HEADER_SIZE <= size <= file.size - position:
            return
        # The CRC does not cover offset and epoch: only their order shows damage.
        if not next_offset <= header.base_offset <= header.last_offset < limit:
            return
        if at + size > len(chunk):
            chunk, chunk_at, at = _read(file, position, size), position, 0
        if header.leader_epoch < epoch or not check_crc(chunk[at : at + size]):
            return
        yield header
        position += size
        next_offset, epoch = header.next_offset, header.leader_epoch


def _read(file: DataFile, position: int, size: int) -> memoryview:
    return memoryview(file.read(position, min(max(size, _AT_ONCE), file.size - position)))


def refuse_old_format(file: DataFile, position: int, path: str) -> None:
    """Refuse data of a format before Kafka 0.11, so that it is not truncated as damage.

    Raises  ConfigError if there is a whole message of magic 0 or 1 at `position`
    """
    head = file.read(position, _OLD.size)
    if len(head) < _OLD.size:
        return
    _, size, crc, magic = _OLD.unpack(head)
    if magic in (0, 1) and _OLD_CRC_START < size <= file.size - position - _OLD_OVERHEAD:
        message = file.read(position, _OLD_OVERHEAD + size)
        if crc32(message[_OLD_CRC_START:]) == crc:
            raise ConfigError(
                f"{path} holds messages of format {magic}, older than Kafka 0.11, which are not"
                " read; let Kafka copy them to a new topic, or move the partition elsewhere"
            )
