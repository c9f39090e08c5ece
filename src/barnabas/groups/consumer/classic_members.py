"""Members of a consumer group that use the classic protocol: JoinGroup, SyncGroup and the rest.

Their generation is their member epoch. They never assign: no member leads, and the coordinator
assigns. When their assignment changes they get REBALANCE_IN_PROGRESS, join again, and say in the
request which partitions they own.
"""

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.groups.assignors.assignors import NOTHING
from barnabas.groups.classic.classic_messages import (
    NO_MEMBER_ID,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeaveRequest,
    LeavingMember,
    LeftMember,
    SyncReply,
    SyncRequest,
)
from barnabas.groups.classic.classic_subscription import CONSUMER_PROTOCOL_TYPE
from barnabas.groups.classic.consumer_protocol import (
    Subscription,
    by_topic_id,
    read_subscription,
    write_assignment,
)
from barnabas.groups.consumer.consumer_group import ConsumerGroup
from barnabas.groups.consumer.consumer_heartbeat import check_room, own_static_member
from barnabas.groups.consumer.consumer_member import ConsumerMember, MemberState
from barnabas.groups.consumer.consumer_turn import ASSIGNMENT, REJOIN, ConsumerTurn
from barnabas.groups.records.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)

# -- joining --------------------------------------------------------------------------------------


def on_join(turn: ConsumerTurn, request: JoinRequest, new_member_id: str) -> JoinReply:
    """Raises  BrokerError, and the turn is to be dropped, if the client may not join."""
    group = turn.group
    member_id = request.member_id or new_member_id
    check_room(group, member_id, request.size, turn.settings)
    subscription = _offered_subscription(group, request)
    has_no_id = request.member_id == NO_MEMBER_ID
    if has_no_id and request.must_know_its_id and request.group_instance_id is None:
        return JoinReply(ErrorCode.member_id_required, member_id)
    found = _known_member(group, request, member_id)
    formerly, before = None, found
    if found is not None and found.member_id != member_id:
        formerly = found.member_id
        before = turn.replace_member(found, member_id)
    said = _with_said(before, member_id, request, subscription)
    owned = by_topic_id(subscription.owned, turn.topics)
    member = turn.update_member(before, said, owned, formerly)
    turn.arm_session(member)
    turn.cancel(member_id, REJOIN)
    turn.arm(ASSIGNMENT, member_id, request.rebalance_timeout_ms)
    group.asked_to_rejoin.pop(member_id, None)
    return JoinReply(
        member_id=member_id,
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
    )


def _offered_subscription(group: ConsumerGroup, request: JoinRequest) -> Subscription:
    """Classic members must have a protocol in common: the group may become classic again."""
    classic = [member for member in group.members.values() if member.uses_classic_protocol]
    offered = [each.name for each in request.protocols]
    in_common = [
        name for name in offered if all(name in each.classic_protocol_names for each in classic)
    ]
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not in_common:
        raise BrokerError(
            ErrorCode.inconsistent_group_protocol,
            f"Member {request.member_id}'s protocols are not supported.",
        )
    try:
        return read_subscription(request.protocols[0].metadata)
    except ValueError as wrong:
        raise BrokerError(ErrorCode.inconsistent_group_protocol, str(wrong)) from wrong


def _known_member(
    group: ConsumerGroup, request: JoinRequest, member_id: str
) -> ConsumerMember | None:
    """The member that it is, or the static one whose place it takes; None if it is new."""
    if request.group_instance_id is None:
        return group.members.get(member_id)
    found = group.static_member(request.group_instance_id)
    if request.member_id == NO_MEMBER_ID:
        return found
    return own_static_member(found, member_id, request.group_instance_id)


def _with_said(
    before: ConsumerMember | None,
    member_id: str,
    request: JoinRequest,
    subscription: Subscription,
) -> ConsumerMember:
    protocols = tuple(ClassicProtocol(each.name, each.metadata) for each in request.protocols)
    metadata = ConsumerGroupMemberMetadataValue(
        instance_id=request.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        server_assignor=None if before is None else before.metadata.server_assignor,
        classic_member_metadata=ClassicMemberMetadata(request.session_timeout_ms, protocols),
    )
    if before is None:
        return ConsumerMember(member_id, metadata)
    return ConsumerMember(
        member_id,
        metadata,
        before.epoch,
        before.previous_epoch,
        before.state,
        before.assigned,
        before.revoking,
    )


# -- syncing and heartbeats -----------------------------------------------------------------------


def on_sync(turn: ConsumerTurn, request: SyncRequest) -> SyncReply:
    """Raises  BrokerError, if the client is not a member of this epoch."""
    group = turn.group
    member = _classic_member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    classic = member.metadata.classic_member_metadata
    protocol = None if classic is None else classic.supported_protocols[0]
    if protocol is None or not (
        request.protocol_type in (None, CONSUMER_PROTOCOL_TYPE)
        and request.protocol_name in (None, protocol.name)
    ):
        raise BrokerError(ErrorCode.inconsistent_group_protocol)
    if group.group_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _ask_to_rejoin(turn, member)
        return SyncReply(ErrorCode.rebalance_in_progress)
    turn.cancel(member.member_id, ASSIGNMENT)
    turn.arm_session(member)
    names = {topic.topic_id: name for name, topic in group.topics.items()}
    return SyncReply(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=write_assignment(member.assigned, names, protocol.metadata),
    )


def on_heartbeat(turn: ConsumerTurn, request: HeartbeatRequest) -> ErrorCode:
    """Raises  BrokerError, if the client is not a member of this epoch."""
    group = turn.group
    member = _classic_member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    turn.arm_session(member)
    if (
        member.epoch < group.group_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _must_wait(group, member))
    ):
        _ask_to_rejoin(turn, member)
        return ErrorCode.rebalance_in_progress
    return ErrorCode.none


def _ask_to_rejoin(turn: ConsumerTurn, member: ConsumerMember) -> None:
    """The member has its rebalance timeout to join, from the first time it was asked."""
    if member.member_id not in turn.group.asked_to_rejoin:
        turn.group.asked_to_rejoin[member.member_id] = None
        turn.arm(REJOIN, member.member_id, member.metadata.rebalance_timeout_ms)


def _must_wait(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """True if another member still owns partitions of its target."""
    return any(
        partition in group.owners.get(topic, {})
        for topic, partitions in group.target(member.member_id).items()
        for partition in partitions - member.assigned.get(topic, NOTHING)
    )


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> ConsumerMember:
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = own_static_member(group.static_member(instance_id), member_id, instance_id)
    if not member.uses_classic_protocol:
        raise BrokerError(
            ErrorCode.unknown_member_id, f"Member {member_id} does not use the classic protocol."
        )
    return member


def _check_generation(member: ConsumerMember, generation_id: int) -> None:
    if generation_id != member.epoch:
        raise BrokerError(ErrorCode.illegal_generation)


# -- leaving --------------------------------------------------------------------------------------


def on_leave(turn: ConsumerTurn, request: LeaveRequest) -> LeaveReply:
    leaving: dict[str, ConsumerMember] = {}
    left = []
    for each in request.members:
        try:
            member = _leaving_member(turn.group, each)
            leaving[member.member_id] = member
            left.append(LeftMember(member.member_id, each.group_instance_id, ErrorCode.none))
        except BrokerError as refused:
            left.append(LeftMember(each.member_id, each.group_instance_id, refused.code))
    if leaving:
        turn.remove_members(list(leaving.values()), f"{len(leaving)} members left")
    return LeaveReply(members=tuple(left))


def _leaving_member(group: ConsumerGroup, leaving: LeavingMember) -> ConsumerMember:
    """An operator may remove a static member by its instance id alone."""
    instance_id, member_id = leaving.group_instance_id, leaving.member_id
    found = group.static_member(instance_id)
    if found is not None and member_id == NO_MEMBER_ID:
        member_id = found.member_id
    return _classic_member(group, member_id, instance_id)
