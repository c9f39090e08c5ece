"""LeaveGroup of classic groups: by member id, or by instance id for static members."""

import logging

from barnabas.base.errors import ErrorCode
from barnabas.coordinator.result import CoordinatorResult
from barnabas.groups.classic.classic_messages import (
    NO_MEMBER_ID,
    JoinReply,
    LeaveReply,
    LeaveRequest,
    LeavingMember,
    LeftMember,
)
from barnabas.groups.classic.classic_rebalance import (
    complete_join_if_all_joined,
    rebalance_or_complete_join,
)
from barnabas.groups.classic.classic_turn import Turn

log = logging.getLogger(__name__)


def on_leave(turn: Turn, request: LeaveRequest) -> CoordinatorResult[LeaveReply]:
    """Each member has its own error; one rebalance begins for all that left."""
    before = len(turn.group.members)
    errors = [_leave(turn, member) for member in request.members]
    if len(turn.group.members) < before:
        rebalance_or_complete_join(turn, "members left")
    else:
        complete_join_if_all_joined(turn)
    left = tuple(
        LeftMember(member.member_id, member.group_instance_id, error)
        for member, error in zip(request.members, errors, strict=True)
    )
    return turn.result(LeaveReply(members=left))


def _leave(turn: Turn, leaving: LeavingMember) -> ErrorCode:
    group = turn.group
    member_id = leaving.member_id
    if member_id == NO_MEMBER_ID:
        member_id = group.static_members.get(leaving.group_instance_id or "", NO_MEMBER_ID)
        if member_id == NO_MEMBER_ID:
            return ErrorCode.unknown_member_id
    elif member_id in group.pending_members:
        turn.cancel("pending", member_id)
    else:
        error = group.check_member(member_id, leaving.group_instance_id)
        if error is not ErrorCode.none:
            return error
    log.info(
        "member leaves group=%s member=%s reason=%s",
        group.group_id,
        member_id,
        leaving.reason or "no reason",
    )
    turn.remove(member_id, JoinReply(ErrorCode.unknown_member_id))
    return ErrorCode.none
