"""A member of a consumer group: metadata, epoch, state, partitions."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from barnabas.groups.assignors.assignors import Assignment
from barnabas.groups.consumer.consumer_messages import LEAVING_FOR_A_WHILE, subscription_bytes
from barnabas.groups.records.consumer_group_records import (
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)


class MemberState(IntEnum):
    """The number is what the record holds."""

    STABLE = 0  # it has its target
    UNREVOKED_PARTITIONS = 1  # it has to revoke partitions, and has not confirmed it
    UNRELEASED_PARTITIONS = 2  # another member still owns partitions of its target
    UNKNOWN = 127  # a newer broker wrote it


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """One member; it is replaced, never changed.

    It owns `assigned` and, until it confirms the revocation, `revoking`.
    """

    member_id: str
    metadata: ConsumerGroupMemberMetadataValue
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Assignment = field(default_factory=dict)
    revoking: Assignment = field(default_factory=dict)

    @property
    def instance_id(self) -> str | None:
        return self.metadata.instance_id

    @property
    def uses_classic_protocol(self) -> bool:
        return self.metadata.classic_member_metadata is not None

    @property
    def size(self) -> int:
        """The bytes that the member takes, without its partitions."""
        said = self.metadata
        names = subscription_bytes(said.subscribed_topic_names, said.subscribed_topic_regex)
        classic = said.classic_member_metadata
        protocols = () if classic is None else classic.supported_protocols
        return names + sum(len(each.name) + len(each.metadata) for each in protocols)

    @property
    def is_away(self) -> bool:
        """True if it is a static member that left for a while and keeps its partitions."""
        return self.epoch == LEAVING_FOR_A_WHILE

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    @property
    def classic_protocol_names(self) -> tuple[str, ...]:
        classic = self.metadata.classic_member_metadata
        return () if classic is None else tuple(each.name for each in classic.supported_protocols)


def as_assignment(topic_partitions: Iterable[TopicPartitions]) -> Assignment:
    return {each.topic_id: frozenset(each.partitions) for each in topic_partitions}


def as_topic_partitions(assignment: Assignment) -> tuple[TopicPartitions, ...]:
    return tuple(
        TopicPartitions(topic_id, tuple(sorted(partitions)))
        for topic_id, partitions in assignment.items()
    )


def member_state(number: int) -> MemberState:
    try:
        return MemberState(number)
    except ValueError:
        return MemberState.UNKNOWN
