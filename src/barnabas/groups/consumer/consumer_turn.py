"""A decision about a consumer group in progress: the steps that decisions are made of.

The group changes when the records of the decision are replayed. Only soft state changes at once:
`is_stale` is cleared when the topics turn out to be the same, and `targets_since_ms` is set.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from barnabas.coordinator.result import (
    ArmTimer,
    CancelTimer,
    CoordinatorRecord,
    CoordinatorResult,
    Effect,
    Now,
)
from barnabas.groups.assignors.assignors import Assignment
from barnabas.groups.consumer.consumer_group import ConsumerGroup
from barnabas.groups.consumer.consumer_member import ConsumerMember, MemberState
from barnabas.groups.consumer.consumer_messages import ConsumerSettings, Topics
from barnabas.groups.consumer.consumer_records import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    target_epoch_record,
    target_record,
    topics_record,
)
from barnabas.groups.consumer.reconciliation import Target, law_of_one_owner, reconcile
from barnabas.groups.consumer.target_assignment import (
    chosen_assignor,
    decide_targets,
    subscribed_topics,
)
from barnabas.groups.records.consumer_group_records import TopicMetadata

log = logging.getLogger(__name__)

Reply = TypeVar("Reply")

# To compute the targets of a group takes time in proportion to its members. In one with many, the
# next computation waits so long for each of them: a target for each of thousands of members that
# join at once would keep a broker busy for a minute.
MANY_MEMBERS: Final = 250
PAUSE_MS_PER_MEMBER: Final = 0.1

# Kinds of timers; a key is (kind, group, member).
SESSION = "session"  # it sent no heartbeat
REVOCATION = "revocation"  # it did not confirm a revocation
REJOIN = "rejoin"  # a classic member was asked to join again, and did not
ASSIGNMENT = "assignment"  # a classic member joined, and sent no SyncGroup


@dataclass(slots=True)
class ConsumerTurn:
    """Gathers records and effects."""

    group: ConsumerGroup
    settings: ConsumerSettings
    topics: Topics
    now: Now
    # The right to find a topic by a regex: that of the client whose heartbeat it is.
    may_describe: Callable[[str], bool] | None = None
    records: list[CoordinatorRecord] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)

    def result(self, reply: Reply) -> CoordinatorResult[Reply]:
        return CoordinatorResult(reply, tuple(self.records), tuple(self.effects))

    def arm(self, kind: str, member_id: str, delay_ms: float) -> None:
        key = (kind, self.group.group_id, member_id)
        self.effects.append(ArmTimer(key, self.now.loop_ms + delay_ms))

    def cancel(self, member_id: str, *kinds: str) -> None:
        for kind in kinds or (SESSION, REVOCATION, REJOIN, ASSIGNMENT):
            self.effects.append(CancelTimer((kind, self.group.group_id, member_id)))

    def arm_session(self, member: ConsumerMember) -> None:
        classic = member.metadata.classic_member_metadata
        timeout_ms = classic.session_timeout_ms if classic else self.settings.session_timeout_ms
        self.arm(SESSION, member.member_id, timeout_ms)

    # -- a member joins, sends a heartbeat, or leaves -------------------------------------------

    def replace_member(self, old: ConsumerMember, member_id: str) -> ConsumerMember:
        """Give a static member another id; it keeps its partitions."""
        group_id = self.group.group_id
        new = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
        self.records += member_tombstones(group_id, old.member_id)
        self.records += (
            member_record(group_id, new),
            target_record(group_id, member_id, self.group.target(old.member_id)),
            current_record(group_id, new),
        )
        self.cancel(old.member_id)
        log.info(
            "static member is back group=%s instance=%s old=%s new=%s",
            group_id,
            old.instance_id,
            old.member_id,
            member_id,
        )
        return new

    def update_member(
        self,
        before: ConsumerMember | None,
        member: ConsumerMember,
        owned: Assignment | None,
        formerly: str | None = None,
    ) -> ConsumerMember:
        """Update the member, compute a target if it changed, and reconcile one step.

        `before` is the member in the log after the records so far, None if it is new; `formerly` is
        the id of the member that it replaces.
        """
        group = self.group
        if before is None or before.metadata != member.metadata:
            self.records.append(member_record(group.group_id, member))
        must_bump = _wants_other_topics(before, member)
        is_due = group.group_epoch > group.assignment_epoch and not self._is_too_soon(member)
        if must_bump or self._is_stale or is_due:
            target = self._renewed_target(member, formerly, must_bump)
        else:
            target = Target(group.assignment_epoch, group.target(formerly or member.member_id))
        return self._reconcile(member, target, owned, formerly)

    def _renewed_target(
        self, member: ConsumerMember, formerly: str | None, must_bump: bool
    ) -> Target:
        """The member's part of a new target, or of the current one if that is still valid."""
        group, member_id = self.group, member.member_id
        members = {each: m for each, m in group.members.items() if each != formerly}
        members[member_id] = member
        topics, group_epoch = self._refresh(members, must_bump)
        had = group.target(formerly or member_id)
        if group_epoch == group.assignment_epoch or self._is_too_soon(member):
            return Target(group.assignment_epoch, had)
        targets = self._retarget(group_epoch, members, topics, {**group.targets, member_id: had})
        return Target(group_epoch, targets[member_id])

    def _is_too_soon(self, member: ConsumerMember) -> bool:
        """True if the group has a target that was computed a moment ago, for many members.

        A member that has none yet gets it with its next heartbeat. Not of the classic protocol: it
        would join again at once.
        """
        group = self.group
        count = len(group.members)
        if not group.assignment_epoch or count < MANY_MEMBERS or member.uses_classic_protocol:
            return False
        return self.now.loop_ms < group.targets_since_ms + count * PAUSE_MS_PER_MEMBER

    def remove_members(self, leaving: Collection[ConsumerMember], why: str) -> None:
        """Their partitions are free once this is in the log; the next heartbeat makes a target."""
        group = self.group
        for member in leaving:
            self.records += member_tombstones(group.group_id, member.member_id)
            self.cancel(member.member_id)
        gone = {member.member_id for member in leaving}
        staying = [member for each, member in group.members.items() if each not in gone]
        topics = self._subscribed(staying)
        if topics != group.topics:
            self.records.append(topics_record(group.group_id, topics.values()))
        self._bump(why)

    def _refresh(
        self, members: dict[str, ConsumerMember], must_bump: bool
    ) -> tuple[dict[str, TopicMetadata], int]:
        """The topics, read again if they may have changed, and the group epoch."""
        group = self.group
        if not must_bump and not self._is_stale:
            return group.topics, group.group_epoch
        topics = self._subscribed(members.values())
        if topics != group.topics:
            self.records.append(topics_record(group.group_id, topics.values()))
            must_bump = True
        else:
            group.is_stale = False
        if not must_bump:
            return topics, group.group_epoch
        return topics, self._bump(f"{len(members)} members, {len(topics)} topics")

    @property
    def _is_stale(self) -> bool:
        group = self.group
        return group.is_stale or (group.is_unresolved and self.may_describe is not None)

    def _subscribed(self, members: Iterable[ConsumerMember]) -> dict[str, TopicMetadata]:
        """The subscribed topics that exist. Without a heartbeat of the consumer protocol the
        regexes find no other topics than before: nobody's rights are known."""
        group = self.group
        group.is_unresolved = self.may_describe is None and group.has_regexes
        may_match = self.may_describe or group.topics.__contains__
        return subscribed_topics(members, self.topics, may_match)

    def _bump(self, why: str) -> int:
        group = self.group
        epoch = group.group_epoch + 1
        self.records.append(epoch_record(group.group_id, epoch))
        log.info("group epoch begins group=%s epoch=%d: %s", group.group_id, epoch, why)
        return epoch

    def _retarget(
        self,
        group_epoch: int,
        members: dict[str, ConsumerMember],
        topics: dict[str, TopicMetadata],
        had: dict[str, Assignment],
    ) -> dict[str, Assignment]:
        group_id = self.group.group_id
        assignor = chosen_assignor(members.values(), self.settings.assignors[0])
        targets = decide_targets(assignor, members, topics, had)
        self.group.targets_since_ms = self.now.loop_ms
        self.records += [
            target_record(group_id, member_id, target)
            for member_id, target in targets.items()
            if had.get(member_id) != target or member_id not in self.group.targets
        ]
        self.records.append(target_epoch_record(group_id, group_epoch))
        return targets

    def _reconcile(
        self,
        member: ConsumerMember,
        target: Target,
        owned: Assignment | None,
        formerly: str | None,
    ) -> ConsumerMember:
        group = self.group
        nearer = reconcile(member, target, group.owners, owned, formerly)
        if nearer == member:
            return member
        law_of_one_owner(group.group_id, nearer, group.owners, formerly)
        self.records.append(current_record(group.group_id, nearer))
        if not nearer.uses_classic_protocol:
            if nearer.state is MemberState.UNREVOKED_PARTITIONS:
                self.arm(REVOCATION, nearer.member_id, nearer.metadata.rebalance_timeout_ms)
            else:
                self.cancel(nearer.member_id, REVOCATION)
        return nearer


def _wants_other_topics(before: ConsumerMember | None, member: ConsumerMember) -> bool:
    return before is None or (
        before.metadata.subscribed_topic_names != member.metadata.subscribed_topic_names
        or before.metadata.subscribed_topic_regex != member.metadata.subscribed_topic_regex
    )
