"""What consumers of the classic protocol put into the bytes that a coordinator only relays.

The coordinator reads and writes them where such consumers are members of a consumer group. A newer
version than the newest known one is read as that one: versions only add at the end.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from barnabas.groups.assignors.assignors import Assignment
from barnabas.groups.consumer.consumer_messages import Topics
from barnabas.groups.records.record_schema import (
    INT32,
    NULLABLE_STRING,
    STRING,
    Form,
    Kind,
    MalformedRecord,
    Source,
    array,
    kind,
    struct_of,
)

_VERSION: Final = struct.Struct(">h")
_NEWEST: Final = 3
_LENGTH: Final = struct.Struct(">i")


def _skip_user_data(source: Source) -> None:
    source.take(max(source.number(_LENGTH), 0))


def _write_no_user_data(out: bytearray, _: Any, __: Form) -> None:
    out += _LENGTH.pack(-1)


_USER_DATA: Final = Kind(_skip_user_data, _write_no_user_data)


@dataclass(frozen=True, slots=True)
class NamedPartitions:
    topic: str = field(metadata=kind(STRING))
    partitions: tuple[int, ...] = field(metadata=kind(array(INT32)))


_NAMED_PARTITIONS: Final = array(struct_of(NamedPartitions))


@dataclass(frozen=True, slots=True)
class Subscription:
    topics: tuple[str, ...] = field(metadata=kind(array(STRING)))
    user_data: None = field(metadata=kind(_USER_DATA), default=None)
    owned: tuple[NamedPartitions, ...] = field(
        metadata=kind(_NAMED_PARTITIONS, since=1), default=()
    )
    generation_id: int = field(metadata=kind(INT32, since=2), default=-1)
    rack_id: str | None = field(metadata=kind(NULLABLE_STRING, since=3), default=None)


@dataclass(frozen=True, slots=True)
class ClassicAssignment:
    assigned: tuple[NamedPartitions, ...] = field(metadata=kind(_NAMED_PARTITIONS))
    user_data: None = field(metadata=kind(_USER_DATA), default=None)


def read_subscription(metadata: bytes) -> Subscription:
    """Raises ValueError if the bytes are not a consumer's."""
    found: Subscription = _read(struct_of(Subscription), metadata)
    return found


def read_assignment(assignment: bytes, topics: Topics) -> Assignment:
    """What the bytes assign, but for topics that are no more; raises ValueError as above."""
    found = _read(struct_of(ClassicAssignment), assignment) if assignment else None
    return by_topic_id(found.assigned, topics) if found is not None else {}


def write_subscription(subscription: Subscription, version: int) -> bytes:
    return _write(struct_of(Subscription), subscription, version)


def write_assignment(assignment: Assignment, names: Mapping[UUID, str], metadata: bytes) -> bytes:
    """In the version that the member's metadata is of; topics without a name are left out."""
    assigned = tuple(
        NamedPartitions(names[topic_id], tuple(sorted(partitions)))
        for topic_id, partitions in assignment.items()
        if topic_id in names
    )
    (version,) = _VERSION.unpack_from(metadata)
    return _write(struct_of(ClassicAssignment), ClassicAssignment(assigned), version)


def by_topic_id(named: Iterable[NamedPartitions], topics: Topics) -> Assignment:
    found = [(topics.get(each.topic), each.partitions) for each in named]
    return {
        topic.topic_id: frozenset(partitions) for topic, partitions in found if topic and partitions
    }


def _read(of: Kind, data: bytes) -> Any:
    try:
        (version,) = _VERSION.unpack_from(data)
        if version < 0:
            raise ValueError(f"version {version}")
        form = Form(min(version, _NEWEST), flexible=False)
        return of.read(Source(memoryview(data), form, _VERSION.size))
    except (struct.error, MalformedRecord) as short:
        raise ValueError(str(short)) from short


def _write(of: Kind, message: object, version: int) -> bytes:
    form = Form(max(0, min(version, _NEWEST)), flexible=False)
    out = bytearray(_VERSION.pack(form.version))
    of.write(out, message, form)
    return bytes(out)
