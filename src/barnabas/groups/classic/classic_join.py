"""JoinGroup of classic groups: new members, members that rejoin, static members that come back.

A dynamic member first gets an id and joins with it, so a client that never comes back leaves no
member behind. A static member that comes back without its id gets a new one in its old place: the
old id is fenced, and a stable group does not rebalance.
"""

import logging
from dataclasses import replace

from barnabas.base.errors import ErrorCode
from barnabas.coordinator.result import CoordinatorResult, Waiter
from barnabas.groups.classic.classic_group import ClassicGroup
from barnabas.groups.classic.classic_member import Member, chosen_protocol
from barnabas.groups.classic.classic_messages import (
    NO_MEMBER_ID,
    JoinReply,
    JoinRequest,
    SyncReply,
)
from barnabas.groups.classic.classic_rebalance import (
    complete_join_if_all_joined,
    rebalance_or_complete_join,
)
from barnabas.groups.classic.classic_record import replaced_record
from barnabas.groups.classic.classic_state import GroupState
from barnabas.groups.classic.classic_turn import ClassicSettings, Turn

log = logging.getLogger(__name__)


def on_join(
    turn: Turn, request: JoinRequest, new_member_id: str, waiter: Waiter
) -> CoordinatorResult[JoinReply]:
    """`new_member_id` is for a client without one; `waiter` for a member that waits for others."""
    group = turn.group
    member_id = request.member_id
    if not _has_room(group, member_id, turn.settings.max_size):
        turn.remove(member_id, JoinReply(ErrorCode.group_max_size_reached))
        complete_join_if_all_joined(turn)
        return turn.result(JoinReply(ErrorCode.group_max_size_reached))
    if not _has_bytes(group, request, turn.settings):
        return turn.result(JoinReply(ErrorCode.group_max_size_reached, member_id))
    if not group.supports(request.protocol_type, request.protocols):
        return turn.result(JoinReply(ErrorCode.inconsistent_group_protocol, member_id))
    if member_id == NO_MEMBER_ID:
        return _join_without_id(turn, request, new_member_id, waiter)
    if member_id in group.pending_members and request.group_instance_id is None:
        turn.cancel("pending", member_id)
        return _add(turn, request, member_id, waiter)
    error = group.check_member(member_id, request.group_instance_id)
    if error is not ErrorCode.none:
        return turn.result(JoinReply(error, member_id))
    return _rejoin(turn, request, waiter)


def _has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    """While members join, the last ones to come are refused, even if they were members before."""
    if group.is_empty:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        return member_id in group.joining or len(group.joining) < max_size
    return member_id in group.members or len(group.members) < max_size


def _has_bytes(group: ClassicGroup, request: JoinRequest, settings: ClassicSettings) -> bool:
    """True if the group may hold what the client sends, in place of what it sent before."""
    member, size = group.members.get(request.member_id), request.size
    before = 0 if member is None else member.size
    others = group.held_bytes - before
    is_too_much = size > settings.max_member_bytes or others + size > settings.max_bytes
    if is_too_much and size > before:
        log.info(
            "member refused group=%s member=%s bytes=%d group_bytes=%d",
            group.group_id,
            request.member_id,
            size,
            others,
        )
        return False
    return True


def _join_without_id(
    turn: Turn, request: JoinRequest, new_member_id: str, waiter: Waiter
) -> CoordinatorResult[JoinReply]:
    group = turn.group
    if request.group_instance_id is not None:
        old_id = group.static_members.get(request.group_instance_id)
        if old_id is not None:
            return _replace_static(turn, request, old_id, new_member_id, waiter)
    elif request.must_know_its_id:
        group.pending_members[new_member_id] = None
        turn.arm("pending", request.session_timeout_ms, new_member_id)
        return turn.result(JoinReply(ErrorCode.member_id_required, new_member_id))
    return _add(turn, request, new_member_id, waiter)


def _add(
    turn: Turn, request: JoinRequest, member_id: str, waiter: Waiter
) -> CoordinatorResult[JoinReply]:
    group = turn.group
    if not group.members:
        group.protocol_type = request.protocol_type
    group.joined_during_delay = True
    group.put(_member(request, member_id))
    group.new_members.add(member_id)
    turn.wait_to_join(member_id, waiter)
    # It cannot send heartbeats before the reply with its id, and may be gone. A timeout keeps its
    # attempts from leaving members behind; a client that is alive joins again.
    turn.arm("session", turn.settings.new_member_join_timeout_ms, member_id)
    rebalance_or_complete_join(turn, f"new member {member_id}; {request.reason or 'no reason'}")
    return turn.result(waiter)


def _rejoin(turn: Turn, request: JoinRequest, waiter: Waiter) -> CoordinatorResult[JoinReply]:
    """A member joins again: for a rebalance, to cause one as leader, or after a lost reply."""
    group = turn.group
    member = group.members[request.member_id]
    is_same = member.protocols == request.protocols
    leads = group.leader_id == member.member_id
    completing = group.state is GroupState.COMPLETING_REBALANCE
    if is_same and (completing or (group.state is GroupState.STABLE and not leads)):
        # The reply to its join may be lost.
        return turn.result(turn.joined(member.member_id))
    group.put(replace(_member(request, member.member_id), assignment=member.assignment))
    turn.wait_to_join(member.member_id, waiter)
    reason = request.reason or ("the leader joins again" if leads else "it joins again")
    rebalance_or_complete_join(turn, f"member {member.member_id}; {reason}")
    return turn.result(waiter)


def _replace_static(
    turn: Turn, request: JoinRequest, old_id: str, new_id: str, waiter: Waiter
) -> CoordinatorResult[JoinReply]:
    group = turn.group
    old = group.members[old_id]
    member = replace(_member(request, new_id), assignment=old.assignment)
    log.info(
        "static member replaced group=%s instance=%s old=%s new=%s state=%s",
        group.group_id,
        request.group_instance_id,
        old_id,
        new_id,
        group.state.value,
    )
    if group.state is GroupState.STABLE:
        others = [each for each in group.members.values() if each is not old]
        if chosen_protocol([*others, member]) == group.protocol_name:
            return _replace_quietly(turn, request, old, member)
    _fence(turn, old_id)
    group.replace(old_id, member)
    turn.arm_session(member)
    turn.wait_to_join(new_id, waiter)
    rebalance_or_complete_join(turn, f"static member {request.group_instance_id} is back")
    return turn.result(waiter)


def _replace_quietly(
    turn: Turn, request: JoinRequest, old: Member, member: Member
) -> CoordinatorResult[JoinReply]:
    """Keep the assignment under the new id, in force once it is in the log; no rebalance.

    A leader gets `skip_assignment`. In versions without that field it gets its old id as leader, so
    it does not assign.
    """
    group = turn.group
    leads = group.leader_id == old.member_id
    group.replacement = member
    turn.records.append(replaced_record(group, old.member_id, member))
    turn.cancel("session", old.member_id)
    turn.arm_session(member)
    reply = turn.joined(member.member_id)
    if leads and request.may_skip_assignment:
        members = tuple(
            each._replace(member_id=member.member_id, metadata=member.metadata(group.protocol_name))
            if each.member_id == old.member_id
            else each
            for each in group.as_joined()
        )
        reply = replace(reply, leader=member.member_id, members=members, skip_assignment=True)
    return turn.result(reply)


def _fence(turn: Turn, old_id: str) -> None:
    turn.answer_join(old_id, JoinReply(ErrorCode.fenced_instance_id, old_id))
    turn.answer_sync(old_id, SyncReply(ErrorCode.fenced_instance_id))
    turn.cancel("session", old_id)


def _member(request: JoinRequest, member_id: str) -> Member:
    return Member(
        member_id,
        request.group_instance_id,
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocols,
    )
