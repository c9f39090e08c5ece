"""The online upgrade of a classic group to a consumer group, and the downgrade.

The first member that uses the consumer protocol upgrades a classic group, and the last one that
leaves downgrades it, if `group.consumer.migration.policy` allows; a group without members changes
in any case. Members see a rebalance. Each change is one batch: tombstones of the one kind of group
and records of the other.
"""

import logging
from typing import Final
from uuid import UUID

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.coordinator.result import Answer, ArmTimer, CancelTimer, CoordinatorRecord, Effect
from barnabas.groups.assignors.assignors import NOTHING, Assignment
from barnabas.groups.classic.classic_group import ClassicGroup
from barnabas.groups.classic.classic_member import Member, chosen_protocol
from barnabas.groups.classic.classic_messages import JoinReply, OfferedProtocol, SyncReply
from barnabas.groups.classic.classic_record import assigned_record
from barnabas.groups.classic.classic_state import GroupState
from barnabas.groups.classic.classic_subscription import CONSUMER_PROTOCOL_TYPE
from barnabas.groups.classic.consumer_protocol import (
    read_assignment,
    read_subscription,
    write_assignment,
)
from barnabas.groups.consumer.consumer_group import ConsumerGroup
from barnabas.groups.consumer.consumer_member import ConsumerMember
from barnabas.groups.consumer.consumer_messages import ConsumerSettings, Topics
from barnabas.groups.consumer.consumer_records import (
    current_record,
    epoch_record,
    member_record,
    target_epoch_record,
    target_record,
)
from barnabas.groups.consumer.consumer_replay import apply_record
from barnabas.groups.consumer.consumer_turn import SESSION, ConsumerTurn
from barnabas.groups.consumer.target_assignment import names_by_id
from barnabas.groups.records.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from barnabas.groups.records.group_records import decode

log = logging.getLogger(__name__)

# Kinds of timers of classic groups; a key is (kind, group), of a pending member (kind, group, id).
_REBALANCE: Final = "rebalance"  # a downgraded group has to rebalance
_JOIN: Final = "join"
_SYNC: Final = "sync"
_PENDING: Final = "pending"


# -- from classic to consumer ---------------------------------------------------------------------


def upgraded_group(
    classic: ClassicGroup, settings: ConsumerSettings, topics: Topics
) -> tuple[ConsumerGroup, list[CoordinatorRecord]]:
    """The upgraded group, and the records that upgrade it.

    Members keep their ids, their generation as epoch, and their last assignment.

    Raises  BrokerError, if the group has members and may not be upgraded
    """
    records = list(classic.tombstones())
    group = ConsumerGroup(classic.group_id)
    if not classic.is_empty:
        _check_upgrade(classic, settings)
        try:
            members = _upgraded_members(classic, topics)
        except ValueError as wrong:
            raise BrokerError(
                ErrorCode.group_id_not_found,
                f"Cannot upgrade the classic group {classic.group_id} to consumer group because "
                "the embedded consumer protocol is malformed.",
            ) from wrong
        made = _records_of(classic.group_id, classic.generation_id, members)
        for record in made:
            apply_record(group, decode(record.key, record.value))
        records += made
        log.info(
            "group changes to the consumer protocol group=%s epoch=%d members=%d",
            classic.group_id,
            classic.generation_id,
            len(members),
        )
    return group, records


def leave_classic(classic: ClassicGroup, turn: ConsumerTurn) -> list[Effect]:
    """Answer requests that wait with REBALANCE_IN_PROGRESS, and cancel the classic timers."""
    group_id = classic.group_id
    again = ErrorCode.rebalance_in_progress
    effects: list[Effect] = []
    for member_id, waiter in classic.joining.items():
        effects.append(Answer(waiter, JoinReply(again, member_id)))
    effects += [Answer(waiter, SyncReply(again)) for waiter in classic.syncing.values()]
    classic.joining.clear()
    classic.syncing.clear()
    effects += [CancelTimer((_PENDING, group_id, each)) for each in classic.pending_members]
    effects += [CancelTimer((_JOIN, group_id)), CancelTimer((_SYNC, group_id))]
    for member in classic.members.values():
        at_loop_ms = turn.now.loop_ms + member.session_timeout_ms
        effects.append(ArmTimer((SESSION, group_id, member.member_id), at_loop_ms))
    return effects


def _check_upgrade(classic: ClassicGroup, settings: ConsumerSettings) -> None:
    if not settings.migration_policy.upgrades:
        reason = "the policy does not allow it"
    elif classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        reason = "its members are not consumers"
    elif len(classic.members) > settings.max_size:
        reason = "it has too many members"
    else:
        return
    log.info("group stays classic group=%s: %s", classic.group_id, reason)
    raise BrokerError(
        ErrorCode.group_id_not_found, f"Group {classic.group_id} is not a consumer group."
    )


def _upgraded_members(classic: ClassicGroup, topics: Topics) -> list[ConsumerMember]:
    """A partition that a faulty leader assigned twice belongs to the first member."""
    taken: dict[UUID, frozenset[int]] = {}
    members = []
    for member in classic.members.values():
        assigned = {}
        for topic, partitions in read_assignment(member.assignment, topics).items():
            left = partitions - taken.get(topic, NOTHING)
            taken[topic] = taken.get(topic, NOTHING) | left
            if left:
                assigned[topic] = left
        members.append(_upgraded(member, classic, assigned))
    return members


def _upgraded(member: Member, classic: ClassicGroup, assigned: Assignment) -> ConsumerMember:
    metadata = member.metadata(classic.protocol_name) or member.protocols[0].metadata
    subscription = read_subscription(metadata)
    protocols = tuple(ClassicProtocol(each.name, each.metadata) for each in member.protocols)
    said = ConsumerGroupMemberMetadataValue(
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic_member_metadata=ClassicMemberMetadata(member.session_timeout_ms, protocols),
    )
    epoch = classic.generation_id
    return ConsumerMember(member.member_id, said, epoch, epoch, assigned=assigned)


def _records_of(
    group_id: str, epoch: int, members: list[ConsumerMember]
) -> list[CoordinatorRecord]:
    return [
        *(member_record(group_id, member) for member in members),
        epoch_record(group_id, epoch),
        *(target_record(group_id, member.member_id, member.assigned) for member in members),
        target_epoch_record(group_id, epoch),
        *(current_record(group_id, member) for member in members),
    ]


# -- from consumer to classic ---------------------------------------------------------------------


def may_downgrade(turn: ConsumerTurn, leaving: ConsumerMember) -> bool:
    """True if the group is downgraded when this member, the last that is not classic, leaves."""
    staying = [each for each in turn.group.members.values() if each is not leaving]
    return (
        turn.settings.migration_policy.downgrades
        and not leaving.uses_classic_protocol
        and 0 < len(staying) <= turn.settings.classic_max_size
        and all(member.uses_classic_protocol for member in staying)
    )


def downgrade(turn: ConsumerTurn, leaving: ConsumerMember) -> None:
    """Downgrade the group to a classic one of the members that stay; it rebalances at once.

    The record has the partitions that members own, not their targets: an upgrade before all have
    joined starts from these.
    """
    group = turn.group
    names = names_by_id(group.topics, turn.topics)
    classic = ClassicGroup(group.group_id, GroupState.STABLE, group.group_epoch)
    classic.protocol_type = CONSUMER_PROTOCOL_TYPE
    staying = [each for each in group.members.values() if each is not leaving]
    classic.set_members([_downgraded(member) for member in staying])
    classic.protocol_name = chosen_protocol(list(classic.members.values()))
    assignments = {
        member.member_id: write_assignment(
            _all_owned(member), names, classic.members[member.member_id].protocols[0].metadata
        )
        for member in staying
    }
    turn.records += group.tombstones()
    turn.records.append(assigned_record(classic, assignments, turn.now.wall_ms))
    for member_id in group.members:
        turn.cancel(member_id)
    for member in staying:
        turn.arm_session(member)
    turn.effects.append(ArmTimer((_REBALANCE, group.group_id), turn.now.loop_ms))
    log.info(
        "group changes to the classic protocol group=%s generation=%d members=%d",
        group.group_id,
        group.group_epoch,
        len(staying),
    )


def _all_owned(member: ConsumerMember) -> Assignment:
    return {
        topic: member.assigned.get(topic, NOTHING) | member.revoking.get(topic, NOTHING)
        for topic in (*member.assigned, *member.revoking)
    }


def _downgraded(member: ConsumerMember) -> Member:
    said = member.metadata
    classic = said.classic_member_metadata
    assert classic is not None, "only members that speak the classic protocol stay"
    return Member(
        member.member_id,
        said.instance_id,
        said.client_id,
        said.client_host,
        said.rebalance_timeout_ms,
        classic.session_timeout_ms,
        tuple(OfferedProtocol(each.name, each.metadata) for each in classic.supported_protocols),
    )
