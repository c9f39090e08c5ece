"""The rebalance of a classic group: members join again and wait for their assignment.

    EMPTY ----+                        everyone joined, or time is up
              +-- PREPARING_REBALANCE ---------------------------------> COMPLETING_REBALANCE
    STABLE ---+                                                                   |
       ^                                          the leader's assignment is in the log
       +--------------------------------------------------------------------------+

The first rebalance of an empty group is delayed, so members do not rebalance one by one. Members
that do not join in time are removed. Static members stay until their session or the time to send
SyncGroup ends.
"""

import logging
from dataclasses import replace

from barnabas.base.errors import ErrorCode
from barnabas.groups.classic.classic_member import NO_ASSIGNMENT, chosen_protocol
from barnabas.groups.classic.classic_messages import JoinReply, SyncReply
from barnabas.groups.classic.classic_record import deserted_record
from barnabas.groups.classic.classic_state import GroupEvent, GroupState
from barnabas.groups.classic.classic_turn import Turn

log = logging.getLogger(__name__)

_GONE = JoinReply(ErrorCode.unknown_member_id)


def prepare_rebalance(turn: Turn, reason: str) -> None:
    """Begin a rebalance, from any state but PREPARING_REBALANCE and DEAD."""
    group = turn.group
    if group.state is GroupState.COMPLETING_REBALANCE:
        give_up_assignment(turn, ErrorCode.rebalance_in_progress)
    group.pending_sync.clear()
    turn.cancel("sync")
    was_empty = group.is_empty
    log.info(
        "rebalance begins group=%s state=%s generation=%d reason=%s",
        group.group_id,
        group.state.value,
        group.generation_id,
        reason,
    )
    group.enter(GroupEvent.REBALANCE, turn.now.wall_ms)
    if was_empty:
        _gather(turn)
    elif group.all_joined():
        complete_join(turn)
    else:
        turn.arm("join", group.rebalance_timeout_ms)


def rebalance_or_complete_join(turn: Turn, reason: str) -> None:
    """A member joined, left or changed: begin a rebalance, or go on with the current one."""
    if turn.group.state is GroupState.PREPARING_REBALANCE:
        complete_join_if_all_joined(turn)
    elif turn.group.state is not GroupState.DEAD:
        prepare_rebalance(turn, reason)


def complete_join_if_all_joined(turn: Turn) -> None:
    group = turn.group
    gathers = group.initial_delay_left_ms is not None
    if group.state is GroupState.PREPARING_REBALANCE and group.all_joined() and not gathers:
        complete_join(turn)


def complete_join(turn: Turn) -> None:
    """Remove the members that did not join, and begin a generation of the others.

    Without members the group is written as empty, and is empty once that is in the log.
    """
    group = turn.group
    turn.cancel("join")
    group.initial_delay_left_ms = None
    late = [m for m in group.members.values() if m.member_id not in group.joining]
    for member in late:
        if not member.is_static:
            turn.remove(member.member_id, _GONE)
    if not group.members:
        log.info("group is empty group=%s", group.group_id)
        turn.records.append(deserted_record(group, turn.now.wall_ms))
    elif group.elect_joined_leader():
        _begin_generation(turn)
    else:
        # Only static members are left, and none joined: they join later, or time out.
        turn.arm("join", group.rebalance_timeout_ms)


def on_join_timer(turn: Turn) -> None:
    """The join time is over; the first rebalance waits on while members join, up to the timeout."""
    group = turn.group
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    left = group.initial_delay_left_ms
    if left and group.joined_during_delay:
        delay = min(turn.settings.initial_rebalance_delay_ms, left)
        group.joined_during_delay = False
        group.initial_delay_left_ms = left - delay
        turn.arm("join", delay)
    else:
        complete_join(turn)


def on_sync_timer(turn: Turn) -> None:
    """Remove the members that joined but sent no SyncGroup, and rebalance the others."""
    group = turn.group
    if not group.pending_sync or group.state not in (
        GroupState.COMPLETING_REBALANCE,
        GroupState.STABLE,
    ):
        return
    silent = list(group.pending_sync)
    for member_id in silent:
        turn.remove(member_id, _GONE)
    prepare_rebalance(turn, f"{', '.join(silent)} did not ask for an assignment")


def give_up_assignment(turn: Turn, error: ErrorCode) -> None:
    """Answer every SyncGroup with the error; nobody is assigned until the next rebalance."""
    group = turn.group
    for member in list(group.members.values()):
        group.members[member.member_id] = replace(member, assignment=NO_ASSIGNMENT)
        if turn.answer_sync(member.member_id, SyncReply(error)):
            # Its session may have timed out while it waited.
            turn.arm_session(member)


def _gather(turn: Turn) -> None:
    group = turn.group
    delay = turn.settings.initial_rebalance_delay_ms
    group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay, 0)
    group.joined_during_delay = False
    turn.arm("join", delay)


def _begin_generation(turn: Turn) -> None:
    group = turn.group
    group.enter(GroupEvent.JOINED, turn.now.wall_ms)
    members = list(group.members.values())
    group.begin_generation(group.generation_id + 1, chosen_protocol(members))
    for member in members:
        turn.answer_join(member.member_id, turn.joined(member.member_id))
        turn.arm_session(member)
    group.new_members.clear()
    group.pending_sync = dict.fromkeys(group.members)
    turn.arm("sync", group.rebalance_timeout_ms)
    log.info(
        "generation begins group=%s generation=%d members=%d protocol=%s leader=%s",
        group.group_id,
        group.generation_id,
        len(members),
        group.protocol_name,
        group.leader_id,
    )
