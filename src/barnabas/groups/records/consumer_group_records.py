"""The records of a consumer group (KIP-848): epochs, members, targets, current assignments.

Each record has the fields of its key, and a value; without the value it is a tombstone.
"""

import uuid
from dataclasses import dataclass, field
from typing import Final

from barnabas.wire.message_schema import BYTES, INT8, INT32, STRING, UUID, always_tagged

NO_TIMEOUT: Final = -1


# -- the group ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadataValue:
    epoch: int = field(metadata=INT32)


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """The group's epoch: it grows when members, subscriptions or topics change."""

    group_id: str
    value: ConsumerGroupMetadataValue | None = None


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    partition: int = field(metadata=INT32)
    racks: tuple[str, ...] = field(metadata=STRING)


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """`partition_metadata` is empty if no rack of any partition is known."""

    topic_id: uuid.UUID = field(metadata=UUID)
    topic_name: str = field(metadata=STRING)
    num_partitions: int = field(metadata=INT32)
    partition_metadata: tuple[PartitionMetadata, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadataValue:
    topics: tuple[TopicMetadata, ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadata:
    """The subscribed topics, as they were at the last look."""

    group_id: str
    value: ConsumerGroupPartitionMetadataValue | None = None


# -- its members -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    name: str = field(metadata=STRING)
    metadata: bytes = field(metadata=BYTES)


@dataclass(frozen=True, slots=True)
class ClassicMemberMetadata:
    session_timeout_ms: int = field(metadata=INT32)
    supported_protocols: tuple[ClassicProtocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue:
    """`classic_member_metadata` is set if the member uses the classic protocol.

    Otherwise Kafka 3.9 writes null: an absent field would mean an empty struct.
    """

    instance_id: str | None = field(metadata=STRING, default=None)
    rack_id: str | None = field(metadata=STRING, default=None)
    client_id: str = field(metadata=STRING)
    client_host: str = field(metadata=STRING)
    subscribed_topic_names: tuple[str, ...] = field(metadata=STRING)
    subscribed_topic_regex: str | None = field(metadata=STRING, default=None)
    rebalance_timeout_ms: int = field(metadata=INT32, default=NO_TIMEOUT)
    server_assignor: str | None = field(metadata=STRING, default=None)
    classic_member_metadata: ClassicMemberMetadata | None = field(
        metadata=always_tagged(0), default=None
    )


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadata:
    """A member and its subscription."""

    group_id: str
    member_id: str
    value: ConsumerGroupMemberMetadataValue | None = None


# -- assignments ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    topic_id: uuid.UUID = field(metadata=UUID)
    partitions: tuple[int, ...] = field(metadata=INT32)


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = field(metadata=INT32)


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadata:
    """The group epoch of the members' targets."""

    group_id: str
    value: ConsumerGroupTargetAssignmentMetadataValue | None = None


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: tuple[TopicPartitions, ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMember:
    """The target assignment of a member."""

    group_id: str
    member_id: str
    value: ConsumerGroupTargetAssignmentMemberValue | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue:
    """`state` is the number of a MemberState."""

    member_epoch: int = field(metadata=INT32)
    previous_member_epoch: int = field(metadata=INT32)
    state: int = field(metadata=INT8)
    assigned_partitions: tuple[TopicPartitions, ...]
    partitions_pending_revocation: tuple[TopicPartitions, ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupCurrentMemberAssignment:
    """The current assignment of a member."""

    group_id: str
    member_id: str
    value: ConsumerGroupCurrentMemberAssignmentValue | None = None
