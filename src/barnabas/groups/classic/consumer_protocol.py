"""The consumer protocol: the bytes that classic consumers exchange through the coordinator.

The coordinator relays them, and reads and writes them where such consumers are members of a
consumer group. A version newer than the newest known one is read as that one: versions only add
fields at the end.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from barnabas.groups.assignors.assignors import Assignment
from barnabas.groups.consumer.consumer_messages import Topics
from barnabas.wire.message_codec import NEVER, VersionedCodec
from barnabas.wire.message_schema import BYTES, INT32, STRING, since

_NEWEST: Final = 3


@dataclass(frozen=True, slots=True)
class NamedPartitions:
    topic: str = field(metadata=STRING)
    partitions: tuple[int, ...] = field(metadata=INT32)


@dataclass(frozen=True, slots=True)
class Subscription:
    topics: tuple[str, ...] = field(metadata=STRING)
    user_data: bytes | None = field(metadata=BYTES, default=None)
    owned: tuple[NamedPartitions, ...] = field(metadata=since(1), default=())
    generation_id: int = field(metadata=since(2, INT32), default=-1)
    rack_id: str | None = field(metadata=since(3, STRING), default=None)


@dataclass(frozen=True, slots=True)
class ClassicAssignment:
    assigned: tuple[NamedPartitions, ...]
    user_data: bytes | None = field(metadata=BYTES, default=None)


_SUBSCRIPTION: Final = VersionedCodec(
    Subscription, newest=_NEWEST, flexible=NEVER, reads_newer=True
)
_ASSIGNMENT: Final = VersionedCodec(
    ClassicAssignment, newest=_NEWEST, flexible=NEVER, reads_newer=True
)


def read_subscription(metadata: bytes) -> Subscription:
    """Raises  ValueError, if the bytes are not a consumer's."""
    found: Subscription = _SUBSCRIPTION.decode(metadata)
    return found


def read_assignment(assignment: bytes, topics: Topics) -> Assignment:
    """The partitions that the bytes assign, but for topics that are gone; raises as above."""
    found = _ASSIGNMENT.decode(assignment) if assignment else None
    return by_topic_id(found.assigned, topics) if found is not None else {}


def write_subscription(subscription: Subscription, version: int) -> bytes:
    return _SUBSCRIPTION.encode(subscription, _known(version))


def write_assignment(assignment: Assignment, names: Mapping[UUID, str], metadata: bytes) -> bytes:
    """In the version of the member's metadata; topics without a name are left out."""
    assigned = tuple(
        NamedPartitions(names[topic_id], tuple(sorted(partitions)))
        for topic_id, partitions in assignment.items()
        if topic_id in names
    )
    version = _known(VersionedCodec.version(metadata))
    return _ASSIGNMENT.encode(ClassicAssignment(assigned), version)


def _known(version: int) -> int:
    return max(0, min(version, _NEWEST))


def by_topic_id(named: Iterable[NamedPartitions], topics: Topics) -> Assignment:
    found = [(topics.get(each.topic), each.partitions) for each in named]
    return {
        topic.topic_id: frozenset(partitions) for topic, partitions in found if topic and partitions
    }
