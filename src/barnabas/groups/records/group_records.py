"""The records of `__consumer_offsets` in Kafka's own bytes: what a shard's state is made of.

A record's key begins with a number that tells its type, and names what the record is about: an
offset by group, topic and partition; a group; a member of a group. Its value begins with its own
version. A record without a value removes what its key names.
"""

import dataclasses
import logging
import struct
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from barnabas.groups.outcome import LogRecord
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
from barnabas.groups.records.record_schema import (
    STRING,
    Form,
    Kind,
    MalformedRecord,
    Source,
    struct_of,
)

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
    """How one type of record is kept: its value's versions, and which of them is written."""

    record: type[Any]
    value: Kind
    written: int = 0
    newest: int = 0
    flexible: int = 0

    def form(self, version: int) -> Form:
        if not 0 <= version <= self.newest:
            raise MalformedRecord(f"{self.record.__name__} has a value of version {version}")
        return Form(version, version >= self.flexible)

    def key_fields(self) -> list[str]:
        return [each.name for each in dataclasses.fields(self.record)][:-1]


# By the version of the key. Classic groups are written as brokers before 3.9 can still read them.
_TYPES: Final = {
    2: _Type(GroupMetadata, struct_of(GroupMetadataValue), written=3, newest=4, flexible=4),
    3: _Type(ConsumerGroupMetadata, struct_of(ConsumerGroupMetadataValue)),
    4: _Type(ConsumerGroupPartitionMetadata, struct_of(ConsumerGroupPartitionMetadataValue)),
    5: _Type(ConsumerGroupMemberMetadata, struct_of(ConsumerGroupMemberMetadataValue)),
    6: _Type(
        ConsumerGroupTargetAssignmentMetadata,
        struct_of(ConsumerGroupTargetAssignmentMetadataValue),
    ),
    7: _Type(
        ConsumerGroupTargetAssignmentMember, struct_of(ConsumerGroupTargetAssignmentMemberValue)
    ),
    8: _Type(
        ConsumerGroupCurrentMemberAssignment, struct_of(ConsumerGroupCurrentMemberAssignmentValue)
    ),
}
_NUMBERS: Final = {of.record: number for number, of in _TYPES.items()}


def decode(key: bytes | memoryview, value: bytes | memoryview | None) -> GroupRecord | None:
    """The record, or None if its type is not known: a newer broker wrote it.

    Raises  MalformedRecord, if the bytes are not what their type and version promise
    """
    try:
        (number,) = _VERSION.unpack_from(key)
        if 0 <= number <= _LAST_OFFSET_COMMIT:
            return decode_commit(key, value)
        of = _TYPES.get(number)
        if of is None:
            _tell_unknown(number)
            return None
        return _decode(of, memoryview(key), None if value is None else memoryview(value))
    except struct.error as short:
        raise MalformedRecord(f"a record ends early: {short}") from short
    except UnicodeDecodeError as wrong:
        raise MalformedRecord(f"a string is not UTF-8: {wrong}") from wrong


def _decode(of: _Type, key: memoryview, value: memoryview | None) -> GroupRecord:
    source = Source(key, Form(0, flexible=False), _VERSION.size)
    names = [STRING.read(source) for _ in of.key_fields()]
    read = None
    if value is not None:
        form = of.form(_VERSION.unpack_from(value)[0])
        read = of.value.read(Source(value, form, _VERSION.size))
    record: GroupRecord = of.record(*names, read)
    return record


def encode(record: GroupRecord) -> LogRecord:
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
        STRING.write(key, getattr(record, name), Form(0, flexible=False))
    if record.value is None:
        return LogRecord(bytes(key), None)
    value = bytearray(_VERSION.pack(of.written))
    of.value.write(value, record.value, of.form(of.written))
    return LogRecord(bytes(key), bytes(value))


@cache
def _tell_unknown(number: int) -> None:
    """Once for each type."""
    log.warning("records of an unknown type are passed over type=%d", number)
