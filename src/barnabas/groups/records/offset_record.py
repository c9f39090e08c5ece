"""The record of a committed offset, coded by hand: commits are the coordinator's hot path."""

import struct
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from barnabas.coordinator.result import CoordinatorRecord, MalformedRecord
from barnabas.wire.message_codec import MessageCodec, as_utf8
from barnabas.wire.message_schema import INT32, INT64, STRING

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
    """A group's committed offset of a partition; only old clients set an expiry."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int = NO_TIMESTAMP
    expire_timestamp_ms: int = NO_TIMESTAMP


class OffsetCommit(NamedTuple):
    """The commit of a group for a partition; without a value, its tombstone."""

    group_id: str
    topic: str
    partition: int
    value: CommittedOffset | None = None


def key_prefix(group_id: str, topic: str) -> bytes:
    """The first bytes of the keys of all partitions of a topic; the partition follows."""
    group, name = as_utf8(group_id), as_utf8(topic)
    return b"".join(
        (_SHORT.pack(KEY_VERSION), _SHORT.pack(len(group)), group, _SHORT.pack(len(name)), name)
    )


def commit_record(
    prefix: bytes, partition: int, value: CommittedOffset | None
) -> CoordinatorRecord:
    """The record for a partition of the prefix's topic."""
    encoded = None if value is None else _encode_value(value)
    return CoordinatorRecord(prefix + _INT.pack(partition), encoded)


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


def decode_commit(key: bytes | memoryview, value: bytes | memoryview | None) -> OffsetCommit:
    """The record, of any version.

    Raises  MalformedRecord, MalformedMessage, struct.error or UnicodeDecodeError
    """
    group_end = 4 + _SHORT.unpack_from(key, 2)[0]
    topic_end = group_end + 2 + _SHORT.unpack_from(key, group_end)[0]
    # Reading the partition proves that the strings end within the key.
    (partition,) = _INT.unpack_from(key, topic_end)
    if not 4 <= group_end <= topic_end - 2:
        raise MalformedRecord("the key of an offset commit has a string of negative length")
    return OffsetCommit(
        str(key[4:group_end], "utf-8"),
        str(key[group_end + 2 : topic_end], "utf-8"),
        partition,
        None if value is None else _decode_value(value),
    )


def _decode_value(value: bytes | memoryview) -> CommittedOffset:
    (version,) = _SHORT.unpack_from(value)
    if version == _VERSION:
        start = 2 + _OFFSET_EPOCH_AND_LENGTH.size
        offset, leader_epoch, length = _OFFSET_EPOCH_AND_LENGTH.unpack_from(value, 2)
    elif 0 <= version < _VERSION:
        start, leader_epoch = 2 + _OFFSET_AND_LENGTH.size, NO_LEADER_EPOCH
        offset, length = _OFFSET_AND_LENGTH.unpack_from(value, 2)
    elif version == _FLEXIBLE:
        return _decode_flexible(value)
    else:
        raise MalformedRecord(f"an offset commit has a value of version {version}")
    if length < 0:
        raise MalformedRecord("the metadata of an offset commit has a negative length")
    end = start + length
    expire_ms = NO_TIMESTAMP
    if version == _EXPIRING:
        commit_ms, expire_ms = _EXPIRING_TAIL.unpack_from(value, end)
    else:
        (commit_ms,) = _LONG.unpack_from(value, end)
    metadata = str(value[start:end], "utf-8") if length else ""
    return CommittedOffset(offset, leader_epoch, metadata, commit_ms, expire_ms)


@dataclass(frozen=True, slots=True)
class _FlexibleValue:
    """Version 4, which Kafka 3.9 reads and does not write."""

    offset: int = field(metadata=INT64)
    leader_epoch: int = field(metadata=INT32)
    metadata: str = field(metadata=STRING)
    commit_timestamp_ms: int = field(metadata=INT64)


_FLEXIBLE_CODEC: Final = MessageCodec(_FlexibleValue, flexible=True)


def _decode_flexible(value: bytes | memoryview) -> CommittedOffset:
    read = _FLEXIBLE_CODEC.decode(value, _SHORT.size)
    return CommittedOffset(read.offset, read.leader_epoch, read.metadata, read.commit_timestamp_ms)
