"""The record of a committed offset, by hand: commits are the group coordinator's hot path."""

import struct
from typing import Final, NamedTuple

from barnabas.groups.outcome import LogRecord
from barnabas.groups.records_parts import (
    LONGEST_STRING,
    Form,
    MalformedRecord,
    Source,
    as_text,
    as_utf8,
)

NO_LEADER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
KEY_VERSION: Final = 1
_EXPIRING: Final = 1  # the only version that has an expire timestamp
_VERSION: Final = 3
_FLEXIBLE: Final = 4

_SHORT, _LONG = struct.Struct(">h"), struct.Struct(">q")
_INT = struct.Struct(">i")
_OFFSET_AND_LENGTH = struct.Struct(">qh")
_OFFSET_EPOCH_AND_LENGTH = struct.Struct(">qih")
_EXPIRING_HEAD = struct.Struct(">hqh")
_EXPIRING_TAIL = struct.Struct(">qq")
_HEAD = struct.Struct(">hqih")
_WITHOUT_METADATA = struct.Struct(">hqihq")


class CommittedOffset(NamedTuple):
    """Where a group has come to in a partition; only old clients say when that shall expire."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int = NO_TIMESTAMP
    expire_timestamp_ms: int = NO_TIMESTAMP


class OffsetCommit(NamedTuple):
    """What a group committed for a partition; without a value it has nothing committed there."""

    group_id: str
    topic: str
    partition: int
    value: CommittedOffset | None = None


def key_prefix(group_id: str, topic: str) -> bytes:
    """What the keys of all partitions of the topic begin with; the partition ends them."""
    group, name = as_utf8(group_id), as_utf8(topic)
    return b"".join(
        (_SHORT.pack(KEY_VERSION), _SHORT.pack(len(group)), group, _SHORT.pack(len(name)), name)
    )


def commit_record(prefix: bytes, partition: int, value: CommittedOffset | None) -> LogRecord:
    """The record for a partition of the topic that the prefix is of."""
    encoded = None if value is None else _encode_value(value)
    return LogRecord(prefix + _INT.pack(partition), encoded)


def _encode_value(value: CommittedOffset) -> bytes:
    offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms = value
    if expire_timestamp_ms != NO_TIMESTAMP:
        text = as_utf8(metadata)
        head = _EXPIRING_HEAD.pack(_EXPIRING, offset, len(text))
        return head + text + _EXPIRING_TAIL.pack(commit_timestamp_ms, expire_timestamp_ms)
    if not metadata:
        return _WITHOUT_METADATA.pack(_VERSION, offset, leader_epoch, 0, commit_timestamp_ms)
    text = as_utf8(metadata)
    head = _HEAD.pack(_VERSION, offset, leader_epoch, len(text))
    return head + text + _LONG.pack(commit_timestamp_ms)


def decode_key(key: memoryview) -> OffsetCommit:
    """Raises  MalformedRecord, or struct.error where the key ends too early."""
    group_id, position = _string(key, 2)
    topic, position = _string(key, position)
    return OffsetCommit(group_id, topic, _INT.unpack_from(key, position)[0])


def decode_value(value: memoryview) -> CommittedOffset:
    """Raises  MalformedRecord, or struct.error where the value ends too early."""
    (version,) = _SHORT.unpack_from(value)
    if version == _VERSION:
        offset, leader_epoch, length = _OFFSET_EPOCH_AND_LENGTH.unpack_from(value, 2)
        metadata, position = _text(value, 16, length)
    elif version == _FLEXIBLE:
        return _decode_flexible(value)
    elif 0 <= version < _VERSION:
        leader_epoch = NO_LEADER_EPOCH
        offset, length = _OFFSET_AND_LENGTH.unpack_from(value, 2)
        metadata, position = _text(value, 12, length)
    else:
        raise MalformedRecord(f"an offset commit of version {version}")
    (commit_timestamp_ms,) = _LONG.unpack_from(value, position)
    expire_timestamp_ms = NO_TIMESTAMP
    if version == _EXPIRING:
        (expire_timestamp_ms,) = _LONG.unpack_from(value, position + 8)
    return CommittedOffset(offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms)


def _decode_flexible(value: memoryview) -> CommittedOffset:
    """Nobody writes this version yet; whatever tags it may carry are passed over."""
    source = Source(value, Form(_FLEXIBLE, flexible=True), 2)
    offset, leader_epoch = source.number(_LONG), source.number(_INT)
    metadata = as_text(source.take(source.length(_SHORT)))
    return CommittedOffset(offset, leader_epoch, metadata, source.number(_LONG))


def _string(buffer: memoryview, position: int) -> tuple[str, int]:
    (length,) = _SHORT.unpack_from(buffer, position)
    return _text(buffer, position + 2, length)


def _text(buffer: memoryview, position: int, length: int) -> tuple[str, int]:
    end = position + length
    if not 0 <= length <= LONGEST_STRING or end > len(buffer):
        raise MalformedRecord(f"a string of {length} bytes at {position}")
    return as_text(buffer[position:end]), end
