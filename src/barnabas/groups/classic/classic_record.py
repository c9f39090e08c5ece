"""The record of a classic group: made from the group, and replayed into it.

The record holds the chosen protocol, and each member's metadata for that protocol.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from barnabas.coordinator.result import CoordinatorRecord
from barnabas.groups.classic.classic_group import ClassicGroup
from barnabas.groups.classic.classic_member import NO_ASSIGNMENT, Member
from barnabas.groups.classic.classic_messages import OfferedProtocol
from barnabas.groups.classic.classic_state import GroupEvent, GroupState
from barnabas.groups.records.classic_group_record import (
    NO_TIMEOUT,
    NO_TIMESTAMP,
    GroupMetadata,
    GroupMetadataValue,
    MemberMetadata,
)
from barnabas.groups.records.group_records import encode


def deserted_record(group: ClassicGroup, wall_ms: int) -> CoordinatorRecord:
    """The group without members, in its next generation."""
    return _record(
        group.group_id,
        GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation_id + 1,
            protocol=None,
            leader=None,
            current_state_timestamp_ms=wall_ms,
            members=(),
        ),
    )


def assigned_record(
    group: ClassicGroup, assignments: Mapping[str, bytes], wall_ms: int
) -> CoordinatorRecord:
    """The group with its leader's assignment; a member that the leader left out gets nothing."""
    members = [
        replace(member, assignment=assignments.get(member.member_id, NO_ASSIGNMENT))
        for member in group.members.values()
    ]
    return _record_of_members(group, members, group.leader_id, wall_ms)


def replaced_record(group: ClassicGroup, old_id: str, member: Member) -> CoordinatorRecord:
    """The group with the static member under its new id, and the timestamp of its state."""
    members = [member if m.member_id == old_id else m for m in group.members.values()]
    leader = member.member_id if group.leader_id == old_id else group.leader_id
    timestamp_ms = NO_TIMESTAMP if group.state_timestamp_ms is None else group.state_timestamp_ms
    return _record_of_members(group, members, leader, timestamp_ms)


def loaded_group(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group of the record; nobody waits."""
    group = ClassicGroup(group_id, GroupState.STABLE if value.members else GroupState.EMPTY)
    _take(group, value, {})
    return group


def apply_record(group: ClassicGroup, value: GroupMetadataValue) -> None:
    """Apply a record that was just appended.

    Members that waited for an assignment are answered by the same decision. Protocols that members
    offered beside the chosen one are still known, other than after loading.
    """
    known = dict(group.members)
    if group.replacement is not None:
        known[group.replacement.member_id] = group.replacement
    if not value.members:
        group.enter(GroupEvent.DESERTED, value.current_state_timestamp_ms)
    elif group.state is GroupState.STABLE:
        group.enter(GroupEvent.REPLACED, value.current_state_timestamp_ms)
    else:
        group.enter(GroupEvent.ASSIGNED, value.current_state_timestamp_ms)
    group.replacement = None
    group.syncing.clear()
    _take(group, value, known)


def _take(group: ClassicGroup, value: GroupMetadataValue, known: Mapping[str, Member]) -> None:
    members = []
    for stored in value.members:
        member = _member(value.protocol, stored)
        before = known.get(stored.member_id)
        members.append(member if before is None else replace(member, protocols=before.protocols))
    group.set_members(members)
    group.leader_id = value.leader
    group.protocol_type = value.protocol_type or None
    timestamp_ms = value.current_state_timestamp_ms
    group.state_timestamp_ms = None if timestamp_ms == NO_TIMESTAMP else timestamp_ms
    group.begin_generation(value.generation, value.protocol)


def _member(protocol: str | None, stored: MemberMetadata) -> Member:
    offered = () if protocol is None else (OfferedProtocol(protocol, stored.subscription),)
    rebalance_timeout_ms = stored.rebalance_timeout_ms
    return Member(
        stored.member_id,
        stored.group_instance_id,
        stored.client_id,
        stored.client_host,
        stored.session_timeout_ms if rebalance_timeout_ms == NO_TIMEOUT else rebalance_timeout_ms,
        stored.session_timeout_ms,
        offered,
        stored.assignment,
    )


def _record_of_members(
    group: ClassicGroup, members: Iterable[Member], leader: str | None, timestamp_ms: int
) -> CoordinatorRecord:
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=leader,
        current_state_timestamp_ms=timestamp_ms,
        members=tuple(
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=member.assignment,
            )
            for member in members
        ),
    )
    return _record(group.group_id, value)


def _record(group_id: str, value: GroupMetadataValue) -> CoordinatorRecord:
    return encode(GroupMetadata(group_id, value))
