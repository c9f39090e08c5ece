"""A decision about a classic group in progress: its records, effects and replies so far."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast

from barnabas.base.errors import ErrorCode
from barnabas.coordinator.result import (
    Answer,
    ArmTimer,
    CancelTimer,
    CoordinatorRecord,
    CoordinatorResult,
    Effect,
    Now,
    Waiter,
)
from barnabas.groups.classic.classic_group import ClassicGroup
from barnabas.groups.classic.classic_member import Member
from barnabas.groups.classic.classic_messages import JoinReply, SyncReply

Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class ClassicSettings:
    """Kafka's properties `group.*`, those of ours for bytes; the last one has no property."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2_147_483_647
    max_bytes: int = 128 * 1024 * 1024
    max_member_bytes: int = 4 * 1024 * 1024
    new_member_join_timeout_ms: int = 300_000


@dataclass(slots=True)
class Turn:
    """Gathers records and effects; only a turn sets the timers and answers of members.

    A timer's key is ("session" | "pending", group, member) or ("join" | "sync", group).
    """

    group: ClassicGroup
    settings: ClassicSettings
    now: Now
    records: list[CoordinatorRecord] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)

    def arm(self, kind: str, delay_ms: float, *of_member: str) -> None:
        key = (kind, self.group.group_id, *of_member)
        self.effects.append(ArmTimer(key, self.now.loop_ms + delay_ms))

    def cancel(self, kind: str, *of_member: str) -> None:
        self.effects.append(CancelTimer((kind, self.group.group_id, *of_member)))

    def arm_session(self, member: Member) -> None:
        self.arm("session", member.session_timeout_ms, member.member_id)

    def answer_join(self, member_id: str, reply: JoinReply) -> None:
        """Answer the JoinGroup of a member, if it waits."""
        waiter = self.group.joining.pop(member_id, None)
        if waiter is not None:
            self.effects.append(Answer(waiter, reply))

    def answer_sync(self, member_id: str, reply: SyncReply) -> bool:
        """Answer the SyncGroup of a member; False if it does not wait."""
        waiter = self.group.syncing.pop(member_id, None)
        if waiter is not None:
            self.effects.append(Answer(waiter, reply))
        return waiter is not None

    def wait_to_join(self, member_id: str, waiter: Waiter) -> Waiter:
        """Park the JoinGroup; an earlier one of the same member, which the client gave up, ends."""
        self.answer_join(member_id, JoinReply(ErrorCode.rebalance_in_progress, member_id))
        self.group.joining[member_id] = waiter
        return waiter

    def wait_to_sync(self, member_id: str, waiter: Waiter) -> Waiter:
        self.answer_sync(member_id, SyncReply(ErrorCode.rebalance_in_progress))
        self.group.syncing[member_id] = waiter
        return waiter

    def remove(
        self,
        member_id: str,
        join_reply: JoinReply,
        sync_error: ErrorCode = ErrorCode.unknown_member_id,
    ) -> None:
        """Remove the member: its requests are answered, its timers cancelled."""
        self.answer_join(member_id, join_reply)
        self.answer_sync(member_id, SyncReply(sync_error))
        if self.group.remove(member_id) is not None:
            self.cancel("session", member_id)

    def joined(self, member_id: str) -> JoinReply:
        """The reply to a member of the current generation; the leader's lists all members."""
        group = self.group
        return JoinReply(
            member_id=member_id,
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader_id or "",
            members=group.as_joined() if group.leader_id == member_id else (),
        )

    def assigned(self, assignment: bytes) -> SyncReply:
        group = self.group
        return SyncReply(
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            assignment=assignment,
        )

    def result(self, reply: Reply | Waiter) -> CoordinatorResult[Reply]:
        """The result of the turn; a request that its own turn answers does not wait."""
        answers: Mapping[Waiter, Answer] = {
            effect.waiter: effect for effect in self.effects if isinstance(effect, Answer)
        }
        own = answers.get(reply) if isinstance(reply, Waiter) else None
        if own is None:
            return CoordinatorResult(reply, tuple(self.records), tuple(self.effects))
        others = tuple(effect for effect in self.effects if effect is not own)
        return CoordinatorResult(cast(Reply, own.reply), tuple(self.records), others)
