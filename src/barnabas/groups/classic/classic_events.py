"""Events of a classic group: timers, loading, removal, failed appends."""

import logging
from typing import Final

from barnabas.base.errors import ErrorCode
from barnabas.groups.classic.classic_group import ClassicGroup
from barnabas.groups.classic.classic_messages import (
    DescribedGroup,
    DescribedMember,
    JoinReply,
    SyncReply,
)
from barnabas.groups.classic.classic_rebalance import (
    on_join_timer,
    on_sync_timer,
    prepare_rebalance,
)
from barnabas.groups.classic.classic_state import GroupEvent, GroupState
from barnabas.groups.classic.classic_sync import on_pending_timer, on_session_timer
from barnabas.groups.classic.classic_turn import Turn

log = logging.getLogger(__name__)


def on_timer(turn: Turn, kind: str, *of_member: str) -> None:
    """A timer that `Turn.arm` armed expired; its reason may be gone.

    The downgrade of a consumer group arms ("rebalance", group), due at once.
    """
    if kind in _OF_GROUP:
        _OF_GROUP[kind](turn)
    elif kind in _OF_MEMBER:
        _OF_MEMBER[kind](turn, *of_member)


def on_rebalance_timer(turn: Turn) -> None:
    if turn.group.state is GroupState.STABLE:
        prepare_rebalance(turn, "it has become a classic group")


_OF_GROUP: Final = {
    "join": on_join_timer,
    "sync": on_sync_timer,
    "rebalance": on_rebalance_timer,
}
_OF_MEMBER: Final = {"session": on_session_timer, "pending": on_pending_timer}


def on_loaded(turn: Turn) -> None:
    """This broker coordinates the group now: members have a session timeout to send a heartbeat."""
    group = turn.group
    for member in group.members.values():
        turn.arm_session(member)
    if len(group.members) > turn.settings.max_size:
        prepare_rebalance(turn, f"{len(group.members)} members are too many")


def on_removed(turn: Turn, error: ErrorCode) -> None:
    """The group is removed or no longer classic; requests that wait get the error."""
    group = turn.group
    for member_id in list(group.joining):
        turn.answer_join(member_id, JoinReply(error, member_id))
    for member_id in list(group.syncing):
        turn.answer_sync(member_id, SyncReply(error))
    for member_id in group.members:
        turn.cancel("session", member_id)
    for member_id in group.pending_members:
        turn.cancel("pending", member_id)
    turn.cancel("join")
    turn.cancel("sync")
    group.enter(GroupEvent.REMOVED, turn.now.wall_ms)


def on_append_failed(turn: Turn) -> None:
    """The group's record is not in the log; the requests that rest on it get the error.

    An assignment is given up: members join again. A static member keeps its old id. A group without
    members is empty nevertheless: under another coordinator the members in the log time out.
    """
    group = turn.group
    group.replacement = None
    if group.state is GroupState.COMPLETING_REBALANCE:
        for member_id in group.syncing:
            turn.arm_session(group.members[member_id])
        group.syncing.clear()
        prepare_rebalance(turn, "the assignment could not be written")
    elif group.state is GroupState.PREPARING_REBALANCE and not group.members:
        log.warning("empty group could not be written group=%s", group.group_id)
        group.enter(GroupEvent.DESERTED, turn.now.wall_ms)
        group.begin_generation(group.generation_id + 1, None)


def described(group: ClassicGroup) -> DescribedGroup:
    """Only a stable group has the metadata of its members."""
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group.group_id,
        group.state.value,
        group.protocol_type or "",
        (group.protocol_name or "") if is_stable else "",
        tuple(
            DescribedMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.metadata(group.protocol_name) if is_stable else b"",
                member.assignment,
            )
            for member in group.members.values()
        ),
    )
