"""A shard with a log of its own, in virtual time: what a broker does with outcomes, in brief.

Records are appended and replayed at once, but answers wait for `commit()` where a test holds
commits back; `fail_appends` makes the log refuse.
"""

from dataclasses import replace
from typing import Any, TypeVar
from unittest.mock import Mock

from barnabas.base.errors import ErrorCode
from barnabas.base.randomness import Random
from barnabas.coordinator.active_shard import TIMER_AGAIN_MS
from barnabas.coordinator.result import (
    Answer,
    ArmTimer,
    CancelTimer,
    CoordinatorRecord,
    CoordinatorResult,
    Now,
    Waiter,
)
from barnabas.groups.classic.classic_group import ClassicGroup
from barnabas.groups.classic.classic_messages import (
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeaveRequest,
    LeavingMember,
    OfferedProtocol,
    SyncReply,
    SyncRequest,
)
from barnabas.groups.classic.classic_state import GroupState
from barnabas.groups.classic.classic_turn import ClassicSettings
from barnabas.groups.offsets.offset_messages import OffsetSettings
from barnabas.groups.shard import GroupCoordinatorShard
from barnabas.groups.shard_group import ConsumerSide

Reply = TypeVar("Reply")
WALL_AT_START = 1_700_000_000_000
GROUP = "billing"
NO_CONSUMER_SIDE: ConsumerSide = Mock(spec=ConsumerSide)  # all groups are classic ones here


class Pending:
    """A request: `reply` is None until it is answered."""

    def __init__(self) -> None:
        self.reply: object = None

    def give(self, reply: object) -> None:
        assert self.reply is None, f"answered twice: {self.reply} and {reply}"
        self.reply = reply


class Driver:
    def __init__(
        self, log: list[CoordinatorRecord] | None = None, seed: int = 1, **settings: int
    ) -> None:
        self.seed = seed
        self.settings = ClassicSettings(**settings)
        self.shard = GroupCoordinatorShard(
            self.settings, OffsetSettings(), Random(seed), NO_CONSUMER_SIDE
        )
        self.log: list[CoordinatorRecord] = log or []
        self.loop_ms = 0.0
        self.timers: dict[tuple[str, ...], float] = {}
        self.waiting: dict[Waiter, Pending] = {}
        self.requests: list[Pending] = []
        self.fail_appends: ErrorCode | None = None
        self.hold_commits = False
        self._uncommitted: list[tuple[Pending, object]] = []
        for record in self.log:
            self.shard.replay(record)
        self._perform(self.shard.on_loaded(self.now), Pending())

    @property
    def now(self) -> Now:
        return Now(WALL_AT_START + int(self.loop_ms), self.loop_ms)

    @property
    def group(self) -> ClassicGroup:
        group = self.shard.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def state(self) -> GroupState:
        return self.group.state

    # -- what clients ask -----------------------------------------------------------------------

    def ask(self, result: CoordinatorResult[Reply]) -> Pending:
        pending = Pending()
        self.requests.append(pending)
        self._perform(result, pending)
        return pending

    def join(self, member_id: str = "", **fields: Any) -> Pending:
        return self.ask(self.shard.join(join_request(member_id, **fields), self.now))

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        **fields: Any,
    ) -> Pending:
        request = SyncRequest(GROUP, member_id, generation, assignments=assignments or {}, **fields)
        return self.ask(self.shard.sync(request, self.now))

    def heartbeat(
        self, member_id: str, generation: int, instance_id: str | None = None
    ) -> ErrorCode:
        request = HeartbeatRequest(GROUP, member_id, generation, instance_id)
        reply = self.ask(self.shard.heartbeat(request, self.now)).reply
        assert isinstance(reply, ErrorCode)
        return reply

    def leave(self, *members: LeavingMember) -> LeaveReply:
        reply = self.ask(self.shard.leave(LeaveRequest(GROUP, members), self.now)).reply
        assert isinstance(reply, LeaveReply)
        return reply

    # -- several steps --------------------------------------------------------------------------

    def first_join(self, **fields: Any) -> tuple[str, Pending]:
        """Get an id, and join with it."""
        required = joined(self.join(**fields), ErrorCode.member_id_required)
        return required.member_id, self.join(required.member_id, **fields)

    def stable(self, count: int, **fields: Any) -> list[str]:
        """A stable group of that many dynamic members, the first of which leads."""
        members = [self.first_join(**fields) for _ in range(count)]
        self.run_timers(self.settings.initial_rebalance_delay_ms * 2)
        generation = joined(members[0][1]).generation_id
        ids = [member_id for member_id, _ in members]
        shares = {member_id: member_id.encode() for member_id in ids}
        for member_id in reversed(ids):
            self.sync(member_id, generation, shares if member_id == ids[0] else None)
        return ids

    # -- time and the log -----------------------------------------------------------------------

    def run_timers(self, for_ms: float) -> None:
        """Let that much time pass; what is due on the way happens in its order."""
        end = self.loop_ms + for_ms
        while self.timers:
            key = min(self.timers, key=self.timers.__getitem__)
            if self.timers[key] > end:
                break
            self.loop_ms = max(self.loop_ms, self.timers.pop(key))
            result = self.shard.on_timer(key, self.now)
            if result.records and self.fail_appends is not None:
                self.timers[key] = self.loop_ms + TIMER_AGAIN_MS
            self._perform(result, Pending())
        self.loop_ms = end

    def commit(self) -> None:
        """Commit what was appended, and give the answers that waited for that."""
        answers, self._uncommitted = self._uncommitted, []
        for pending, reply in answers:
            pending.give(reply)

    def reloaded(self) -> "Driver":
        """Another broker that leads the same log now."""
        same = {name: getattr(self.settings, name) for name in ClassicSettings.__slots__}
        return Driver(list(self.log), self.seed + 1, **same)

    def _perform(self, result: CoordinatorResult[Reply], pending: Pending) -> None:
        if result.records and self.fail_appends is not None:
            result = self.shard.on_append_failed(result, self.fail_appends, self.now)
            assert not result.records
        for record in result.records:
            self.log.append(record)
            self.shard.replay(record)
        if isinstance(result.reply, Waiter):
            self.waiting[result.reply] = pending
        else:
            self._answer(pending, result.reply)
        for effect in result.effects:
            if isinstance(effect, ArmTimer):
                assert isinstance(effect.key, tuple)
                self.timers[effect.key] = effect.at_loop_ms
            elif isinstance(effect, CancelTimer):
                assert isinstance(effect.key, tuple)
                self.timers.pop(effect.key, None)
            elif isinstance(effect, Answer):
                self._answer(self.waiting.pop(effect.waiter), effect.reply)

    def _answer(self, pending: Pending, reply: object) -> None:
        if self.hold_commits:
            self._uncommitted.append((pending, reply))
        elif reply is not None:
            pending.give(reply)


def subscription(*topics: str) -> bytes:
    """The metadata that a consumer joins with, in version 0."""
    encoded = [topic.encode() for topic in topics]
    names = b"".join(len(name).to_bytes(2, "big") + name for name in encoded)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


def join_request(member_id: str = "", **fields: Any) -> JoinRequest:
    request = JoinRequest(
        GROUP,
        member_id,
        "client",
        "/127.0.0.1",
        "consumer",
        (OfferedProtocol("range", subscription("orders")),),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
    )
    return replace(request, **fields)


def joined(pending: Pending, error: ErrorCode = ErrorCode.none) -> JoinReply:
    assert isinstance(pending.reply, JoinReply), pending.reply
    assert pending.reply.error is error
    return pending.reply


def synced(pending: Pending, error: ErrorCode = ErrorCode.none) -> SyncReply:
    assert isinstance(pending.reply, SyncReply), pending.reply
    assert pending.reply.error is error
    return pending.reply
