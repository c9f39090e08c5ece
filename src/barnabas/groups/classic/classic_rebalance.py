"""The rebalance of a classic group: members are called, join, and wait for their assignment.

    EMPTY ----+                        everyone joined, or time is up
              +-- PREPARING_REBALANCE ---------------------------------> COMPLETING_REBALANCE
    STABLE ---+                                                                   |
       ^                                          the leader's assignment is in the log
       +--------------------------------------------------------------------------+

The first members of an empty group are waited for a while, so that they need not rebalance one by
one; members that do not come in time are dropped, but static ones are kept until their session or
the time to ask for an assignment ends.
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
    """Call all members to join, from any state but PREPARING_REBALANCE and DEAD."""
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
    """A member came, went or changed: begin a rebalance, or go on with the one under way."""
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
    """End the time to join, drop who did not come, and begin the generation of those who did.

    If nobody is left the group is written down as empty, and is empty once that is in the log.
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
        # Static members alone are left, and none came: their sessions will end, or they come.
        turn.arm("join", group.rebalance_timeout_ms)


def on_join_timer(turn: Turn) -> None:
    """Time is up; while a first gathering still grows, wait on, but not beyond the timeout."""
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
    """Drop who joined but never asked for its assignment, and let the others begin anew."""
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
    """Whoever waits for an assignment hears the error; nobody has one until the next rebalance."""
    group = turn.group
    for member in list(group.members.values()):
        group.members[member.member_id] = replace(member, assignment=NO_ASSIGNMENT)
        if turn.answer_sync(member.member_id, SyncReply(error)):
            # Its session may have ended while it waited for us.
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
