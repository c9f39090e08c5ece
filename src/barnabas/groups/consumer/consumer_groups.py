"""Consumer groups of a shard: requests, timers and changes of topics."""

import logging
from collections.abc import Callable, Collection, Mapping, MutableMapping
from typing import cast

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.randomness import Random
from barnabas.coordinator.result import CoordinatorResult, Now, Waiter
from barnabas.groups.classic.classic_group import ClassicGroup
from barnabas.groups.classic.classic_messages import (
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeaveRequest,
    SyncReply,
    SyncRequest,
)
from barnabas.groups.consumer import classic_members
from barnabas.groups.consumer.consumer_describe import described
from barnabas.groups.consumer.consumer_group import ConsumerGroup
from barnabas.groups.consumer.consumer_heartbeat import (
    check_heartbeat,
    leaving_member,
    on_absence,
    on_heartbeat,
)
from barnabas.groups.consumer.consumer_member import ConsumerMember, MemberState
from barnabas.groups.consumer.consumer_messages import (
    JOINING,
    LEAVING_FOR_A_WHILE,
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    ConsumerSettings,
    DescribedConsumerGroup,
    Topics,
)
from barnabas.groups.consumer.consumer_replay import replay
from barnabas.groups.consumer.consumer_turn import REJOIN, REVOCATION, ConsumerTurn
from barnabas.groups.group_upgrade import (
    downgrade,
    leave_classic,
    may_downgrade,
    upgraded_group,
)
from barnabas.groups.records.group_records import GroupRecord
from barnabas.groups.shard_group import ShardGroup

log = logging.getLogger(__name__)


class ConsumerGroups:
    """Serves groups of the consumer protocol, and classic members of theirs.

    `topics` gives the topics of the cluster as they are known at the moment.
    """

    def __init__(
        self, settings: ConsumerSettings, random: Random, topics: Callable[[], Topics]
    ) -> None:
        self._settings = settings
        self._random = random
        self._topics = topics

    # -- members of the consumer protocol -------------------------------------------------------

    def consumer_heartbeat(
        self, group: ShardGroup | None, request: ConsumerHeartbeatRequest, now: Now
    ) -> CoordinatorResult[ConsumerHeartbeatReply]:
        """`group` may be of either kind; None if it does not exist."""
        try:
            check_heartbeat(request, self._settings)
            if request.member_epoch < JOINING:
                return self._leave(group, request, now)
            return self._heartbeat(group, request, now)
        except BrokerError as refused:
            return CoordinatorResult(ConsumerHeartbeatReply(refused.code, refused.message))

    def _heartbeat(
        self, found: ShardGroup | None, request: ConsumerHeartbeatRequest, now: Now
    ) -> CoordinatorResult[ConsumerHeartbeatReply]:
        """A member that joins creates the group, or upgrades a classic one."""
        new_id = str(self._random.uuid()) if not request.member_id else ""
        if isinstance(found, ConsumerGroup):
            turn = self._turn(found, now)
            return turn.result(on_heartbeat(turn, request, new_id))
        if request.member_epoch != JOINING:
            raise _not_found(found, request.group_id)
        if not isinstance(found, ClassicGroup):
            turn = self._turn(ConsumerGroup(request.group_id), now)
            return turn.result(on_heartbeat(turn, request, new_id))
        group, records = upgraded_group(found, self._settings, self._topics())
        turn = self._turn(group, now)
        turn.records += records
        reply = on_heartbeat(turn, request, new_id)
        turn.effects += leave_classic(found, turn)
        return turn.result(reply)

    def _leave(
        self, group: ShardGroup | None, request: ConsumerHeartbeatRequest, now: Now
    ) -> CoordinatorResult[ConsumerHeartbeatReply]:
        if not isinstance(group, ConsumerGroup):
            raise _not_found(group, request.group_id)
        turn = self._turn(group, now)
        member = leaving_member(group, request)
        if request.member_epoch == LEAVING_FOR_A_WHILE:
            return turn.result(on_absence(turn, member))
        _remove(turn, member, f"{member.member_id} left")
        reply = ConsumerHeartbeatReply(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        return turn.result(reply)

    # -- members of the classic protocol --------------------------------------------------------

    def join(
        self, group: ShardGroup, request: JoinRequest, new_id: str, waiter: Waiter, now: Now
    ) -> CoordinatorResult[JoinReply]:
        """Answered at once: no member waits for others."""
        turn = self._turn(group, now)
        try:
            return turn.result(classic_members.on_join(turn, request, new_id))
        except BrokerError as refused:
            return CoordinatorResult(JoinReply(refused.code, request.member_id))

    def sync(
        self, group: ShardGroup, request: SyncRequest, waiter: Waiter, now: Now
    ) -> CoordinatorResult[SyncReply]:
        turn = self._turn(group, now)
        try:
            return turn.result(classic_members.on_sync(turn, request))
        except BrokerError as refused:
            return CoordinatorResult(SyncReply(refused.code))

    def heartbeat(
        self, group: ShardGroup, request: HeartbeatRequest, now: Now
    ) -> CoordinatorResult[ErrorCode]:
        turn = self._turn(group, now)
        try:
            return turn.result(classic_members.on_heartbeat(turn, request))
        except BrokerError as refused:
            return CoordinatorResult(refused.code)

    def leave(
        self, group: ShardGroup, request: LeaveRequest, now: Now
    ) -> CoordinatorResult[LeaveReply]:
        turn = self._turn(group, now)
        return turn.result(classic_members.on_leave(turn, request))

    # -- the log, time, and topics --------------------------------------------------------------

    def replay(self, groups: MutableMapping[str, ShardGroup], record: GroupRecord) -> None:
        """Apply a record of a consumer group."""
        replay(cast(MutableMapping[str, object], groups), record)

    def on_loaded(self, group: ShardGroup, now: Now) -> CoordinatorResult[None]:
        """Members have a session timeout to send a heartbeat; topics may have changed meanwhile."""
        turn = self._turn(group, now)
        turn.group.is_stale = True
        for member in turn.group.members.values():
            turn.arm_session(member)
            if _is_to_revoke(member):
                turn.arm(REVOCATION, member.member_id, member.metadata.rebalance_timeout_ms)
        return turn.result(None)

    def on_timer(
        self, group: ShardGroup, key: tuple[str, ...], now: Now
    ) -> CoordinatorResult[None]:
        """A member timed out; the reason of the timer may be gone."""
        turn = self._turn(group, now)
        kind, _, *of_member = key
        member = turn.group.members.get(of_member[0]) if of_member else None
        if member is None or (kind == REVOCATION and not _is_to_revoke(member)):
            return CoordinatorResult(None)
        if kind == REJOIN:
            turn.group.asked_to_rejoin.pop(member.member_id, None)
        log.info(
            "member is fenced group=%s member=%s timeout=%s",
            turn.group.group_id,
            member.member_id,
            kind,
        )
        _remove(turn, member, f"{member.member_id} is fenced")
        return turn.result(None)

    def on_topics_changed(self, groups: Mapping[str, ShardGroup], changed: Collection[str]) -> None:
        """Topics were created, grew or were deleted: groups look at them at the next heartbeat."""
        for group in groups.values():
            if isinstance(group, ConsumerGroup) and any(map(group.may_want, changed)):
                group.is_stale = True

    # -- asking about a group -------------------------------------------------------------------

    def describe(self, group: ShardGroup | None, group_id: str) -> DescribedConsumerGroup:
        if not isinstance(group, ConsumerGroup):
            refused = _not_found(group, group_id)
            return DescribedConsumerGroup(group_id, refused.code, refused.message)
        return described(group, self._settings.assignors[0], self._topics())

    def _turn(self, group: ShardGroup, now: Now) -> ConsumerTurn:
        return ConsumerTurn(cast(ConsumerGroup, group), self._settings, self._topics(), now)


def _not_found(group: object, group_id: str) -> BrokerError:
    if group is None:
        return BrokerError(ErrorCode.group_id_not_found, f"Consumer group {group_id} not found.")
    return BrokerError(ErrorCode.group_id_not_found, f"Group {group_id} is not a consumer group.")


def _remove(turn: ConsumerTurn, member: ConsumerMember, why: str) -> None:
    if may_downgrade(turn, member):
        downgrade(turn, member)
    else:
        turn.remove_members([member], why)


def _is_to_revoke(member: ConsumerMember) -> bool:
    return (
        member.state is MemberState.UNREVOKED_PARTITIONS
        and not member.uses_classic_protocol
        and not member.is_away
    )
