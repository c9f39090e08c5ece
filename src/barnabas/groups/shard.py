"""One shard of the group coordinator: the groups of one partition of `__consumer_offsets`.

Each request yields a CoordinatorResult. The runtime appends its records and replays them here
before it asks for the next decision, so a decision rests on all decisions before it. If the append
fails, `on_append_failed` returns the result that replaces it.
"""

import logging
from collections.abc import Collection, Iterable
from itertools import count
from typing import Final, TypeVar, cast

from barnabas.base.errors import ErrorCode
from barnabas.base.randomness import Random
from barnabas.coordinator.result import (
    Answer,
    ArmTimer,
    CoordinatorRecord,
    CoordinatorResult,
    Effect,
    Now,
    TimerKey,
    Waiter,
    failed_reply,
)
from barnabas.groups.classic import classic_events
from barnabas.groups.classic.classic_group import ClassicGroup
from barnabas.groups.classic.classic_join import on_join
from barnabas.groups.classic.classic_leave import on_leave
from barnabas.groups.classic.classic_messages import (
    NO_MEMBER_ID,
    DeleteReply,
    DescribedGroup,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeaveRequest,
    LeftMember,
    ListedGroup,
    SyncReply,
    SyncRequest,
)
from barnabas.groups.classic.classic_record import apply_record, loaded_group
from barnabas.groups.classic.classic_state import GroupEvent, GroupState
from barnabas.groups.classic.classic_sync import on_heartbeat, on_sync
from barnabas.groups.classic.classic_turn import ClassicSettings, Turn
from barnabas.groups.consumer.consumer_messages import (
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
)
from barnabas.groups.group_bytes import GroupBytes
from barnabas.groups.offsets.committed_offsets import Offsets
from barnabas.groups.offsets.offset_messages import OffsetSettings
from barnabas.groups.offsets.shard_offsets import ShardOffsets
from barnabas.groups.records.classic_group_record import NO_TIMESTAMP, GroupMetadata
from barnabas.groups.records.group_records import decode
from barnabas.groups.records.offset_record import OffsetCommit
from barnabas.groups.shard_group import ConsumerSide, ShardGroup
from barnabas.wire.bounds import LONGEST_STRING

log = logging.getLogger(__name__)

Reply = TypeVar("Reply")
LONGEST_NAME_IN_ID: Final = 1_000
_NO_ROOM: Final = ErrorCode.coordinator_not_available  # clients try again later
_SESSION: Final = "session"  # the kind of these timers in groups of both kinds


class GroupCoordinatorShard:
    """`consumer` serves consumer groups; `offsets` are the committed offsets of all groups."""

    def __init__(
        self,
        settings: ClassicSettings,
        offset_settings: OffsetSettings,
        random: Random,
        consumer: ConsumerSide,
        group_bytes: GroupBytes | None = None,
    ) -> None:
        self.groups: dict[str, ShardGroup] = {}
        self._committed = Offsets(offset_settings)
        self.offsets = ShardOffsets(self.groups, self._committed, settings)
        self._settings = settings
        self._random = random
        self._consumer = consumer
        self._bytes = GroupBytes() if group_bytes is None else group_bytes
        self._bytes.add(self)
        self._waiters = map(Waiter, count(1))
        self._loading = True
        self._gave_way: ShardGroup | None = (
            None  # replaced by a classic group, until that is in the log
        )

    def __len__(self) -> int:
        return len(self.groups)

    # -- members of classic groups --------------------------------------------------------------

    def join(self, request: JoinRequest, now: Now) -> CoordinatorResult[JoinReply]:
        error = self._check_join(request)
        if error is not ErrorCode.none:
            return CoordinatorResult(JoinReply(error, request.member_id))
        group = self.groups.get(request.group_id)
        if not self._has_bytes(group, request.member_id, request.size, now):
            return CoordinatorResult(JoinReply(_NO_ROOM, request.member_id))
        # A record holds a member id of 32,767 bytes at most, with more beside it.
        name = (request.group_instance_id or request.client_id)[:LONGEST_NAME_IN_ID]
        new_id = f"{name}-{self._random.uuid()}"
        waiter = next(self._waiters)
        if group is not None and not isinstance(group, ClassicGroup) and not group.is_empty:
            return self._consumer.join(group, request, new_id, waiter, now)
        return self._join_classic(group, request, new_id, waiter, now)

    def _check_join(self, request: JoinRequest) -> ErrorCode:
        shortest, longest = (
            self._settings.min_session_timeout_ms,
            self._settings.max_session_timeout_ms,
        )
        if not request.group_id:
            return ErrorCode.invalid_group_id
        if not shortest <= request.session_timeout_ms <= longest:
            return ErrorCode.invalid_session_timeout
        if request.group_id not in self.groups and request.member_id != NO_MEMBER_ID:
            return ErrorCode.unknown_member_id
        # Compact strings may be longer than those of a record, and one such would fail every sync.
        if not all(map(_fits_record, _names(request))):
            return ErrorCode.invalid_request
        return ErrorCode.none

    def _has_bytes(self, group: ShardGroup | None, member_id: str, size: int, now: Now) -> bool:
        """Return True if the broker may hold `size` bytes of a member, in place of those it has."""
        member = None if group is None else group.members.get(member_id)
        before = 0 if member is None else member.size
        if self._bytes.grow(size - before, now.loop_ms):
            return True
        log.info("member refused, all groups take too much member=%s bytes=%d", member_id, size)
        return False

    def held_bytes(self) -> int:
        return sum(group.held_bytes for group in self.groups.values())

    def _join_classic(
        self, found: ShardGroup | None, request: JoinRequest, new_id: str, waiter: Waiter, now: Now
    ) -> CoordinatorResult[JoinReply]:
        """Replace an empty consumer group; a new group that nobody joined is not kept."""
        group = found if isinstance(found, ClassicGroup) else ClassicGroup(request.group_id)
        turn = self._turn(group, now)
        result = on_join(turn, request, new_id, waiter)
        if group is found or group.holds_nothing:
            return result
        self.groups[request.group_id] = group
        if found is None:
            return result
        self._gave_way = found
        return CoordinatorResult(result.reply, found.tombstones() + result.records, result.effects)

    def sync(self, request: SyncRequest, now: Now) -> CoordinatorResult[SyncReply]:
        group = self.groups.get(request.group_id)
        if group is None:
            return CoordinatorResult(SyncReply(_missing(request.group_id)))
        if isinstance(group, ClassicGroup):
            return on_sync(self._turn(group, now), request, next(self._waiters))
        return self._consumer.sync(group, request, next(self._waiters), now)

    def heartbeat(self, request: HeartbeatRequest, now: Now) -> CoordinatorResult[ErrorCode]:
        group = self.groups.get(request.group_id)
        if group is None:
            return CoordinatorResult(_missing(request.group_id))
        if isinstance(group, ClassicGroup):
            return on_heartbeat(self._turn(group, now), request)
        return self._consumer.heartbeat(group, request, now)

    def leave(self, request: LeaveRequest, now: Now) -> CoordinatorResult[LeaveReply]:
        group = self.groups.get(request.group_id)
        if not request.group_id:
            return CoordinatorResult(LeaveReply(ErrorCode.invalid_group_id))
        if group is None:
            unknown = ErrorCode.unknown_member_id
            members = tuple(LeftMember(*each[:2], unknown) for each in request.members)
            return CoordinatorResult(LeaveReply(members=members))
        if isinstance(group, ClassicGroup):
            return on_leave(self._turn(group, now), request)
        return self._consumer.leave(group, request, now)

    # -- members of consumer groups, and operators -----------------------------------------------

    def consumer_heartbeat(
        self, request: ConsumerHeartbeatRequest, now: Now
    ) -> CoordinatorResult[ConsumerHeartbeatReply]:
        group = self.groups.get(request.group_id)
        if not self._has_bytes(group, request.member_id, request.size, now):
            return CoordinatorResult(ConsumerHeartbeatReply(_NO_ROOM))
        return self._consumer.consumer_heartbeat(group, request, now)

    def describe(self, group_id: str) -> DescribedGroup:
        """A group that is not classic is described as `Dead`."""
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return classic_events.described(group)
        return DescribedGroup(group_id, GroupState.DEAD.value)

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[ListedGroup]:
        """The groups in one of the states and of one of the types, which are in lower case; none
        named means all.
        """
        return [
            listed
            for listed in (group.listed() for group in self.groups.values())
            if (not states or listed.state.lower() in states)
            and (not types or listed.group_type.lower() in types)
        ]

    def delete(self, group_ids: Iterable[str]) -> CoordinatorResult[DeleteReply]:
        """Delete groups that have no members, with their offsets."""
        errors: dict[str, ErrorCode] = {}
        records: list[CoordinatorRecord] = []
        for group_id in dict.fromkeys(group_ids):
            group = self.groups.get(group_id)
            errors[group_id] = (
                ErrorCode.group_id_not_found if group is None else group.check_delete()
            )
            if group is not None and errors[group_id] is ErrorCode.none:
                records += self._committed.decide_delete_all(group_id)
                records += group.tombstones()
        return CoordinatorResult(DeleteReply(errors), tuple(records), is_atomic=False)

    # -- the log --------------------------------------------------------------------------------

    def replay(self, record: CoordinatorRecord, producer_id: int | None = None) -> None:
        """Apply a record, while loading or after it was appended.

        `producer_id` is set for a record of a transaction.
        """
        self._gave_way = None
        told = decode(*record)
        if isinstance(told, OffsetCommit):
            if told.value is not None and told.group_id not in self.groups:
                self.groups[told.group_id] = ClassicGroup(told.group_id)
            if producer_id is None:
                self._committed.replay(told)
            else:
                self._committed.replay_transactional(producer_id, told)
        elif isinstance(told, GroupMetadata):
            self._replay_classic(told)
        elif told is not None:
            self._consumer.replay(self.groups, told)

    def replay_end_of_transaction(self, producer_id: int, is_committed: bool) -> None:
        self._committed.replay_end_of_transaction(producer_id, is_committed)

    def _replay_classic(self, told: GroupMetadata) -> None:
        found = self.groups.get(told.group_id)
        group = found if isinstance(found, ClassicGroup) else None
        if told.value is None:
            if group is not None:
                group.enter(GroupEvent.REMOVED, NO_TIMESTAMP)
                del self.groups[told.group_id]
        elif group is None or self._loading:
            self.groups[told.group_id] = loaded_group(told.group_id, told.value)
        else:
            apply_record(group, told.value)

    def on_loaded(self, now: Now) -> CoordinatorResult[None]:
        """The log was replayed to its end: members have a session timeout to send a heartbeat."""
        self._loading = False
        self._bytes.on_loaded(self)
        records: list[CoordinatorRecord] = []
        effects: list[Effect] = []
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                turn = self._turn(group, now)
                classic_events.on_loaded(turn)
                result = turn.result(None)
            else:
                result = self._consumer.on_loaded(group, now)
            records += result.records
            effects += result.effects
        return CoordinatorResult(None, tuple(records), tuple(effects), is_atomic=False)

    def on_append_failed(
        self, result: CoordinatorResult[Reply], error: ErrorCode, now: Now
    ) -> CoordinatorResult[Reply]:
        """The result in place of one whose records are not in the log.

        Waiting requests get the error. The session of a member whose request came is still renewed.
        """
        effects: list[Effect] = []
        for effect in result.effects:
            if isinstance(effect, Answer):
                effects.append(Answer(effect.waiter, failed_reply(effect.reply, error)))
            elif isinstance(effect, ArmTimer) and self._is_session(effect.key):
                effects.append(effect)
        if self._gave_way is not None:
            effects += self._take_back(self._gave_way, error, now)
        for record in result.records:
            told = decode(*record)
            group = self.groups.get(told.group_id) if isinstance(told, GroupMetadata) else None
            if isinstance(group, ClassicGroup):
                turn = self._turn(group, now)
                classic_events.on_append_failed(turn)
                effects += turn.effects
        return CoordinatorResult(cast(Reply, failed_reply(result.reply, error)), (), tuple(effects))

    def _is_session(self, key: TimerKey) -> bool:
        """True if it is the session timer of a member."""
        kind, group_id, *of_member = key
        group = self.groups.get(group_id)
        return kind == _SESSION and group is not None and of_member[0] in group.members

    def _take_back(self, gave_way: ShardGroup, error: ErrorCode, now: Now) -> list[Effect]:
        """Restore the consumer group that a classic one was to replace."""
        group = self.groups[gave_way.group_id]
        self.groups[gave_way.group_id] = gave_way
        self._gave_way = None
        turn = self._turn(cast(ClassicGroup, group), now)
        classic_events.on_removed(turn, error)
        return turn.effects

    def on_timer(self, key: TimerKey, now: Now) -> CoordinatorResult[None]:
        """A timer expired."""
        kind, group_id, *of_member = key
        group = self.groups.get(group_id)
        if group is None:
            return CoordinatorResult(None)
        if not isinstance(group, ClassicGroup):
            return self._consumer.on_timer(group, key, now)
        turn = self._turn(group, now)
        classic_events.on_timer(turn, kind, *of_member)
        return turn.result(None)

    def _turn(self, group: ClassicGroup, now: Now) -> Turn:
        return Turn(group, self._settings, now)


def _missing(group_id: str) -> ErrorCode:
    return ErrorCode.unknown_member_id if group_id else ErrorCode.invalid_group_id


def _names(request: JoinRequest) -> Iterable[str]:
    """The strings of the request that the group's record holds."""
    yield request.group_id
    yield request.group_instance_id or ""
    yield request.protocol_type
    for offered in request.protocols:
        yield offered.name


def _fits_record(text: str) -> bool:
    return 3 * len(text) <= LONGEST_STRING or len(text.encode()) <= LONGEST_STRING
