"""The records of a consumer group (KIP-848): epochs, members, what they shall have and have now.

Each record has the fields of its key, and a value; without the value, what the key names is gone.
"""

import uuid
from dataclasses import dataclass, field
from typing import Final

from barnabas.groups.records.record_schema import (
    BYTES,
    INT8,
    INT32,
    NULLABLE_STRING,
    STRING,
    UUID,
    array,
    kind,
    optional,
    struct_of,
)

NO_TIMEOUT: Final = -1


# -- the group ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadataValue:
    epoch: int = field(metadata=kind(INT32))


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """The group's epoch: it grows when members, subscriptions or topics change."""

    group_id: str
    value: ConsumerGroupMetadataValue | None = None


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    partition: int = field(metadata=kind(INT32))
    racks: tuple[str, ...] = field(metadata=kind(array(STRING)))


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """`partition_metadata` is empty if no rack of any partition is known."""

    topic_id: uuid.UUID = field(metadata=kind(UUID))
    topic_name: str = field(metadata=kind(STRING))
    num_partitions: int = field(metadata=kind(INT32))
    partition_metadata: tuple[PartitionMetadata, ...] = field(
        metadata=kind(array(struct_of(PartitionMetadata))), default=()
    )


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadataValue:
    topics: tuple[TopicMetadata, ...] = field(metadata=kind(array(struct_of(TopicMetadata))))


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadata:
    """The topics that the group is subscribed to, as they were when it last looked."""

    group_id: str
    value: ConsumerGroupPartitionMetadataValue | None = None


# -- its members -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    name: str = field(metadata=kind(STRING))
    metadata: bytes = field(metadata=kind(BYTES))


@dataclass(frozen=True, slots=True)
class ClassicMemberMetadata:
    session_timeout_ms: int = field(metadata=kind(INT32))
    supported_protocols: tuple[ClassicProtocol, ...] = field(
        metadata=kind(array(struct_of(ClassicProtocol)))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue:
    """`classic_member_metadata` is there if the member speaks the classic protocol.

    If not, Kafka 3.9 writes that down, too: for it, what is absent means an empty one.
    """

    instance_id: str | None = field(metadata=kind(NULLABLE_STRING), default=None)
    rack_id: str | None = field(metadata=kind(NULLABLE_STRING), default=None)
    client_id: str = field(metadata=kind(STRING))
    client_host: str = field(metadata=kind(STRING))
    subscribed_topic_names: tuple[str, ...] = field(metadata=kind(array(STRING)))
    subscribed_topic_regex: str | None = field(metadata=kind(NULLABLE_STRING), default=None)
    rebalance_timeout_ms: int = field(metadata=kind(INT32), default=NO_TIMEOUT)
    server_assignor: str | None = field(metadata=kind(NULLABLE_STRING), default=None)
    classic_member_metadata: ClassicMemberMetadata | None = field(
        metadata=kind(optional(struct_of(ClassicMemberMetadata)), tag=0), default=None
    )


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadata:
    """A member and its subscription."""

    group_id: str
    member_id: str
    value: ConsumerGroupMemberMetadataValue | None = None


# -- who gets what -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    topic_id: uuid.UUID = field(metadata=kind(UUID))
    partitions: tuple[int, ...] = field(metadata=kind(array(INT32)))


_TOPIC_PARTITIONS: Final = array(struct_of(TopicPartitions))


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = field(metadata=kind(INT32))


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadata:
    """The group epoch that the members' targets were made for."""

    group_id: str
    value: ConsumerGroupTargetAssignmentMetadataValue | None = None


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: tuple[TopicPartitions, ...] = field(metadata=kind(_TOPIC_PARTITIONS))


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMember:
    """What a member shall have in the end."""

    group_id: str
    member_id: str
    value: ConsumerGroupTargetAssignmentMemberValue | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue:
    """`state` is the number of the member's state on its way to the target."""

    member_epoch: int = field(metadata=kind(INT32))
    previous_member_epoch: int = field(metadata=kind(INT32))
    state: int = field(metadata=kind(INT8))
    assigned_partitions: tuple[TopicPartitions, ...] = field(metadata=kind(_TOPIC_PARTITIONS))
    partitions_pending_revocation: tuple[TopicPartitions, ...] = field(
        metadata=kind(_TOPIC_PARTITIONS)
    )


@dataclass(frozen=True, slots=True)
class ConsumerGroupCurrentMemberAssignment:
    """What a member has now."""

    group_id: str
    member_id: str
    value: ConsumerGroupCurrentMemberAssignmentValue | None = None
