"""ConsumerGroupHeartbeat: members join, change their subscription, get assignments, leave."""

import logging
from dataclasses import replace

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.groups.assignors.assignors import NOTHING, Assignment
from barnabas.groups.consumer.consumer_group import ConsumerGroup
from barnabas.groups.consumer.consumer_member import ConsumerMember
from barnabas.groups.consumer.consumer_messages import (
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    UNCHANGED_MS,
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    ConsumerSettings,
)
from barnabas.groups.consumer.consumer_records import current_record
from barnabas.groups.consumer.consumer_regex import TopicRegex
from barnabas.groups.consumer.consumer_turn import ConsumerTurn
from barnabas.groups.records.consumer_group_records import ConsumerGroupMemberMetadataValue

log = logging.getLogger(__name__)


# -- invalid requests ---------------------------------------------------------------------------


def check_heartbeat(request: ConsumerHeartbeatRequest, settings: ConsumerSettings) -> None:
    """Raises  BrokerError with Kafka's message, if the request is invalid for any group."""
    _refuse(not request.group_id.strip(), "GroupId can't be empty.")
    _refuse(_is_blank(request.instance_id), "InstanceId can't be empty.")
    _refuse(_is_blank(request.rack_id), "RackId can't be empty.")
    if request.member_epoch != JOINING or request.knows_its_id:
        _refuse(not request.member_id.strip(), "MemberId can't be empty.")
    if request.member_epoch == JOINING:
        _check_first(request)
    elif request.member_epoch == LEAVING_FOR_A_WHILE:
        _refuse(request.instance_id is None, "InstanceId can't be null.")
    else:
        _refuse(request.member_epoch < LEAVING, "MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in settings.assignors:
        raise BrokerError(
            ErrorCode.unsupported_assignor,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(settings.assignors)}.",
        )
    if request.subscribed_topic_regex:
        _check_regex(request.subscribed_topic_regex)


def _check_first(request: ConsumerHeartbeatRequest) -> None:
    _refuse(
        request.rebalance_timeout_ms == UNCHANGED_MS,
        "RebalanceTimeoutMs must be provided in first request.",
    )
    _refuse(
        request.owned is None or bool(request.owned),
        "TopicPartitions must be empty when (re-)joining.",
    )
    _refuse(
        not request.subscribed_topic_names and not request.subscribed_topic_regex,
        "SubscribedTopicNames must be set in first request."
        if not request.knows_its_id
        else "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null "
        "when (re-)joining.",
    )


def _check_regex(regex: str) -> None:
    try:
        TopicRegex.of(regex)
    except ValueError as wrong:
        raise BrokerError(
            ErrorCode.invalid_regular_expression,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {wrong}.",
        ) from wrong


def _refuse(is_wrong: bool, message: str) -> None:
    if is_wrong:
        raise BrokerError(ErrorCode.invalid_request, message)


def _is_blank(text: str | None) -> bool:
    return text is not None and not text.strip()


# -- members and clients that join --------------------------------------------------------------


def on_heartbeat(
    turn: ConsumerTurn, request: ConsumerHeartbeatRequest, new_member_id: str
) -> ConsumerHeartbeatReply:
    """The heartbeat of a member, or of a client that joins; the turn holds records and effects.

    Raises  BrokerError, and the turn is to be dropped, if the client is not that member
    """
    group = turn.group
    turn.may_describe = request.may_describe
    member_id = request.member_id or new_member_id
    check_room(group, member_id, request.size, turn.settings)
    found = _known_member(group, request, member_id)
    formerly, before, owned = None, found, request.owned
    if found is not None and found.member_id != member_id:
        formerly = found.member_id
        before = turn.replace_member(found, member_id)
    elif found is not None and request.member_epoch == JOINING:
        # It claims to own nothing, but this may be a request that was delayed.
        owned = None
    if before is None:
        log.info("member joins group=%s member=%s", group.group_id, member_id)
    said = _with_said(before, member_id, request)
    member = turn.update_member(before, said, owned, formerly)
    turn.arm_session(member)
    # A client with the previous epoch did not get the reply with the last one.
    is_told = (
        request.is_full
        or before is None
        or before.assigned != member.assigned
        or before.epoch != request.member_epoch
    )
    return ConsumerHeartbeatReply(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=turn.settings.heartbeat_interval_ms,
        assignment=member.assigned if is_told else None,
    )


def check_room(group: ConsumerGroup, member_id: str, size: int, settings: ConsumerSettings) -> None:
    """Raises BrokerError if the group may not hold this member, or `size` bytes of it."""
    known = group.members.get(member_id)
    before = 0 if known is None else known.size
    others = group.size - before
    is_too_much = size > settings.max_member_bytes or others + size > settings.max_bytes
    if is_too_much and size > before:
        raise BrokerError(
            ErrorCode.group_max_size_reached,
            f"The consumer group cannot hold {size} bytes of member {member_id}: it has {others}"
            f" of {settings.max_bytes} bytes, and a member {settings.max_member_bytes} at most.",
        )
    if len(group.members) >= settings.max_size and member_id not in group.members:
        raise BrokerError(
            ErrorCode.group_max_size_reached,
            f"The consumer group has reached its maximum capacity of {settings.max_size} members.",
        )


def _known_member(
    group: ConsumerGroup, request: ConsumerHeartbeatRequest, member_id: str
) -> ConsumerMember | None:
    """The member that it is, or the static one whose place it takes; None if it is new."""
    if request.instance_id is None:
        if request.member_epoch == JOINING:
            return group.members.get(member_id)
        member = group.member(member_id)
    else:
        found = group.static_member(request.instance_id)
        if request.member_epoch == JOINING:
            if found is not None and found.member_id != member_id and not found.is_away:
                raise BrokerError(
                    ErrorCode.unreleased_instance_id,
                    f"Static member {member_id} with instance id {request.instance_id} cannot "
                    f"join the group because the instance id is owned by {found.member_id} member.",
                )
            return found or group.members.get(member_id)
        member = own_static_member(found, member_id, request.instance_id)
    _check_epoch(member, request.member_epoch, request.owned)
    return member


def own_static_member(
    found: ConsumerMember | None, member_id: str, instance_id: str
) -> ConsumerMember:
    """Raises BrokerError if nobody has the instance id, or another one has."""
    if found is None:
        raise BrokerError(ErrorCode.unknown_member_id, f"Instance id {instance_id} is unknown.")
    if found.member_id != member_id:
        raise BrokerError(
            ErrorCode.fenced_instance_id,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{found.member_id}.",
        )
    return found


def _check_epoch(member: ConsumerMember, epoch: int, owned: Assignment | None) -> None:
    """The previous epoch is valid, too: the reply with the last one may be lost."""
    if epoch == member.epoch:
        return
    if epoch == member.previous_epoch < member.epoch and _is_within(owned, member.assigned):
        return
    relation = "greater" if epoch > member.epoch else "smaller"
    raise BrokerError(
        ErrorCode.fenced_member_epoch,
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by "
        f"the group coordinator ({member.epoch}). The member must abandon all its partitions and "
        "rejoin.",
    )


def _is_within(owned: Assignment | None, assigned: Assignment) -> bool:
    return owned is not None and all(
        partitions <= assigned.get(topic, NOTHING) for topic, partitions in owned.items()
    )


def _with_said(
    before: ConsumerMember | None, member_id: str, request: ConsumerHeartbeatRequest
) -> ConsumerMember:
    """The member with the fields of the request; it uses the consumer protocol."""
    if before is None:
        blank = ConsumerGroupMemberMetadataValue(
            client_id="", client_host="", subscribed_topic_names=()
        )
        before = ConsumerMember(member_id, blank)
    known = before.metadata
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    regex = request.subscribed_topic_regex
    metadata = ConsumerGroupMemberMetadataValue(
        instance_id=known.instance_id if request.instance_id is None else request.instance_id,
        rack_id=known.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed_topic_names=(
            known.subscribed_topic_names if names is None else tuple(sorted(set(names)))
        ),
        subscribed_topic_regex=known.subscribed_topic_regex if regex is None else regex or None,
        rebalance_timeout_ms=(
            known.rebalance_timeout_ms if timeout_ms == UNCHANGED_MS else timeout_ms
        ),
        server_assignor=(
            known.server_assignor if request.server_assignor is None else request.server_assignor
        ),
    )
    return replace(before, metadata=metadata)


# -- members that leave -------------------------------------------------------------------------


def leaving_member(group: ConsumerGroup, request: ConsumerHeartbeatRequest) -> ConsumerMember:
    """Raises  BrokerError, if there is no such member or its instance id belongs to another."""
    if request.instance_id is None:
        return group.member(request.member_id)
    found = group.static_member(request.instance_id)
    return own_static_member(found, request.member_id, request.instance_id)


def on_absence(turn: ConsumerTurn, member: ConsumerMember) -> ConsumerHeartbeatReply:
    """A static member leaves for a while: it keeps its partitions until its session times out."""
    away = replace(member, epoch=LEAVING_FOR_A_WHILE, revoking={})
    turn.records.append(current_record(turn.group.group_id, away))
    log.info(
        "static member is away group=%s instance=%s member=%s",
        turn.group.group_id,
        member.instance_id,
        member.member_id,
    )
    return ConsumerHeartbeatReply(member_id=member.member_id, member_epoch=LEAVING_FOR_A_WHILE)
