"""The codec of `__consumer_offsets` records, in Kafka's bytes.

A record's key begins with the number of its type and names its subject: an offset by group, topic
and partition; a group; a member of a group. Its value begins with its own version. A record without
a value is a tombstone: it removes what the key names.
"""

import dataclasses
import logging
import struct
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from barnabas.coordinator.result import CoordinatorRecord, MalformedRecord
from barnabas.groups.records.classic_group_record import GroupMetadata, GroupMetadataValue
from barnabas.groups.records.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadata,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadata,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from barnabas.groups.records.offset_record import (
    CommittedOffset,
    OffsetCommit,
    commit_record,
    decode_commit,
    key_prefix,
)
from barnabas.wire.message_codec import MalformedMessage, VersionedCodec, as_utf8

__all__ = ["CommittedOffset", "GroupRecord", "MalformedRecord", "OffsetCommit", "decode", "encode"]

log = logging.getLogger(__name__)

GroupRecord: TypeAlias = (
    OffsetCommit
    | GroupMetadata
    | ConsumerGroupMetadata
    | ConsumerGroupPartitionMetadata
    | ConsumerGroupMemberMetadata
    | ConsumerGroupTargetAssignmentMetadata
    | ConsumerGroupTargetAssignmentMember
    | ConsumerGroupCurrentMemberAssignment
)

_VERSION: Final = struct.Struct(">h")
_LAST_OFFSET_COMMIT: Final = 1


class _Type(NamedTuple):
    """One type of record: its class, the codec of its value, and the version that is written."""

    record: type[Any]
    value: VersionedCodec
    written: int = 0

    def key_fields(self) -> list[str]:
        return [each.name for each in dataclasses.fields(self.record)][:-1]


# By the version of the key. Classic groups are written in a version that brokers before 3.9 read.
_TYPES: Final = {
    2: _Type(GroupMetadata, VersionedCodec(GroupMetadataValue, newest=4, flexible=4), written=3),
    3: _Type(ConsumerGroupMetadata, VersionedCodec(ConsumerGroupMetadataValue)),
    4: _Type(ConsumerGroupPartitionMetadata, VersionedCodec(ConsumerGroupPartitionMetadataValue)),
    5: _Type(ConsumerGroupMemberMetadata, VersionedCodec(ConsumerGroupMemberMetadataValue)),
    6: _Type(
        ConsumerGroupTargetAssignmentMetadata,
        VersionedCodec(ConsumerGroupTargetAssignmentMetadataValue),
    ),
    7: _Type(
        ConsumerGroupTargetAssignmentMember,
        VersionedCodec(ConsumerGroupTargetAssignmentMemberValue),
    ),
    8: _Type(
        ConsumerGroupCurrentMemberAssignment,
        VersionedCodec(ConsumerGroupCurrentMemberAssignmentValue),
    ),
}
_NUMBERS: Final = {of.record: number for number, of in _TYPES.items()}


def decode(key: bytes | memoryview, value: bytes | memoryview | None) -> GroupRecord | None:
    """The record, or None if its type is unknown: a newer broker wrote it.

    Raises  MalformedRecord, if the bytes are not what their type and version promise
    """
    try:
        (number,) = _VERSION.unpack_from(key)
        if 0 <= number <= _LAST_OFFSET_COMMIT:
            return decode_commit(key, value)
        of = _TYPES.get(number)
        if of is None:
            _log_unknown(number)
            return None
        names = _decode_key(of, key)
        record: GroupRecord = of.record(*names, None if value is None else of.value.decode(value))
        return record
    except (struct.error, UnicodeDecodeError, MalformedMessage) as wrong:
        raise MalformedRecord(f"a record is malformed: {wrong}") from wrong


def _decode_key(of: _Type, key: bytes | memoryview) -> list[str]:
    """The strings that follow the type's number."""
    names, position = [], _VERSION.size
    for _ in of.key_fields():
        (length,) = _VERSION.unpack_from(key, position)
        start, position = position + _VERSION.size, position + _VERSION.size + length
        if not start <= position <= len(key):
            raise MalformedRecord(f"a key has a string of {length} bytes")
        names.append(str(key[start:position], "utf-8"))
    return names


def encode(record: GroupRecord) -> CoordinatorRecord:
    """The record as it is written.

    Raises  BrokerError, if a string in it is longer than a record can hold
    """
    if isinstance(record, OffsetCommit):
        return commit_record(
            key_prefix(record.group_id, record.topic), record.partition, record.value
        )
    number = _NUMBERS[type(record)]
    of = _TYPES[number]
    key = bytearray(_VERSION.pack(number))
    for name in of.key_fields():
        encoded = as_utf8(getattr(record, name))
        key += _VERSION.pack(len(encoded)) + encoded
    value = None if record.value is None else of.value.encode(record.value, of.written)
    return CoordinatorRecord(bytes(key), value)


@cache
def _log_unknown(number: int) -> None:
    """Once for each type."""
    log.warning("ignoring records of an unknown type type=%d", number)
