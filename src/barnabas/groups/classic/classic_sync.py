"""SyncGroup and Heartbeat of classic groups: the leader's assignment is written, then sent.

The broker does not read assignments, so cooperative members, which revoke first and take over in a
second rebalance, need nothing special.
"""

import logging

from barnabas.base.errors import ErrorCode
from barnabas.coordinator.result import Answer, CoordinatorResult, Waiter
from barnabas.groups.classic.classic_group import ClassicGroup
from barnabas.groups.classic.classic_member import NO_ASSIGNMENT
from barnabas.groups.classic.classic_messages import (
    HeartbeatRequest,
    JoinReply,
    SyncReply,
    SyncRequest,
)
from barnabas.groups.classic.classic_rebalance import (
    complete_join_if_all_joined,
    give_up_assignment,
    prepare_rebalance,
    rebalance_or_complete_join,
)
from barnabas.groups.classic.classic_record import assigned_record
from barnabas.groups.classic.classic_state import GroupState
from barnabas.groups.classic.classic_turn import Turn

log = logging.getLogger(__name__)


def on_sync(turn: Turn, request: SyncRequest, waiter: Waiter) -> CoordinatorResult[SyncReply]:
    """Followers wait for the leader; once its assignment is written, each gets its own."""
    group = turn.group
    error = _check_sync(group, request)
    if error is not ErrorCode.none:
        return turn.result(SyncReply(error))
    group.pending_sync.pop(request.member_id, None)
    if not group.pending_sync:
        turn.cancel("sync")
    if group.state is GroupState.STABLE:
        return turn.result(turn.assigned(group.members[request.member_id].assignment))
    turn.wait_to_sync(request.member_id, waiter)
    if group.leader_id == request.member_id:
        _assign(turn, request)
    return turn.result(waiter)


def _check_sync(group: ClassicGroup, request: SyncRequest) -> ErrorCode:
    error = group.check_member_of(
        request.generation_id, request.member_id, request.group_instance_id
    )
    if error is not ErrorCode.none:
        return error
    if request.protocol_type not in (None, group.protocol_type):
        return ErrorCode.inconsistent_group_protocol
    if group.protocol_name is not None and request.protocol_name not in (None, group.protocol_name):
        return ErrorCode.inconsistent_group_protocol
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.rebalance_in_progress
    return ErrorCode.none


def _assign(turn: Turn, request: SyncRequest) -> None:
    """Append the assignment; members that wait get theirs when it is committed."""
    group = turn.group
    if _is_too_large(group, request):
        # As when the append fails; but the record, of as many bytes, is not made first.
        give_up_assignment(turn, ErrorCode.unknown_server_error)
        prepare_rebalance(turn, "the assignment is larger than a record may be")
        return
    forgotten = [each for each in group.members if each not in request.assignments]
    if forgotten:
        log.warning(
            "leader assigned nothing group=%s generation=%d members=%s",
            group.group_id,
            group.generation_id,
            ",".join(forgotten),
        )
    turn.records.append(assigned_record(group, request.assignments, turn.now.wall_ms))
    for member_id, waiter in group.syncing.items():
        assignment = request.assignments.get(member_id, NO_ASSIGNMENT)
        turn.effects.append(Answer(waiter, turn.assigned(assignment)))
        # Its session may have timed out while it waited.
        turn.arm_session(group.members[member_id])


def _is_too_large(group: ClassicGroup, request: SyncRequest) -> bool:
    """True if the log refuses the record whatever else is in it."""
    most = request.largest_record
    return most is not None and most < sum(
        len(request.assignments.get(member_id, NO_ASSIGNMENT)) for member_id in group.members
    )


def on_heartbeat(turn: Turn, request: HeartbeatRequest) -> CoordinatorResult[ErrorCode]:
    group = turn.group
    error = group.check_member_of(
        request.generation_id, request.member_id, request.group_instance_id
    )
    if error is ErrorCode.none:
        turn.arm_session(group.members[request.member_id])
        if group.state is GroupState.PREPARING_REBALANCE:
            error = ErrorCode.rebalance_in_progress
    return turn.result(error)


def on_session_timer(turn: Turn, member_id: str) -> None:
    """Remove a member that sent nothing, unless it waits for a reply."""
    group = turn.group
    if member_id not in group.members or group.satisfies_heartbeat(member_id):
        return
    log.info("member is lost group=%s member=%s", group.group_id, member_id)
    turn.remove(member_id, JoinReply(ErrorCode.unknown_member_id))
    rebalance_or_complete_join(turn, f"member {member_id} is lost")


def on_pending_timer(turn: Turn, member_id: str) -> None:
    """Forget the id of a client that did not join with it."""
    if member_id in turn.group.pending_members:
        turn.group.remove(member_id)
        complete_join_if_all_joined(turn)
