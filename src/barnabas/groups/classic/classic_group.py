"""One classic group: generation, protocol, leader, members, and the requests that wait.

The log holds generation, protocol, leader, members and their assignment as of the last record.
Members that join, and who waits for an assignment, are soft: clients join again when they are lost.
"""

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from barnabas.base.errors import ErrorCode
from barnabas.base.laws import law
from barnabas.coordinator.result import CoordinatorRecord, Waiter
from barnabas.groups.classic.classic_member import Member
from barnabas.groups.classic.classic_messages import (
    MEMBER_BYTES,
    NO_MEMBER_ID,
    CommitClaim,
    JoinedMember,
    ListedGroup,
    OfferedProtocol,
)
from barnabas.groups.classic.classic_state import NEXT, GroupEvent, GroupState
from barnabas.groups.classic.classic_subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from barnabas.groups.records.classic_group_record import GroupMetadata
from barnabas.groups.records.group_records import encode

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ClassicGroup:
    """`members` keeps the order of joining; `static_members` are member ids by instance id."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    generation_id: int = 0
    protocol_type: str | None = None  # None: a simple group, which only has offsets
    protocol_name: str | None = None
    leader_id: str | None = None
    state_timestamp_ms: int | None = None  # wall time; None if an old record lacks it
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    topics: frozenset[str] | None = None  # subscribed to; None if it cannot be known

    # Soft state, only in memory:
    joining: dict[str, Waiter] = field(default_factory=dict)
    syncing: dict[str, Waiter] = field(default_factory=dict)
    new_members: set[str] = field(default_factory=set)  # did not get their first reply
    pending_members: dict[str, None] = field(default_factory=dict)  # got an id, did not join yet
    pending_sync: dict[str, None] = field(default_factory=dict)  # did not send SyncGroup yet
    initial_delay_left_ms: int | None = None  # None unless the first members join
    joined_during_delay: bool = False
    replacement: Member | None = None  # takes a static member's place once that is in the log
    size: int = 0  # the bytes that members take
    _support: Counter[str] = field(default_factory=Counter)  # of members, by protocol

    # -- members ------------------------------------------------------------------------------

    def put(self, member: Member) -> None:
        """Add the member, or replace the one of the same id."""
        self._forget(member.member_id)
        self.members[member.member_id] = member
        self._support.update(member.protocol_names)
        self.size += member.size
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.pending_members.pop(member.member_id, None)

    def remove(self, member_id: str) -> Member | None:
        """Remove a member or a pending one; after a leader the oldest member leads.

        Keeps   GRP-3  whoever waits as a member is answered before the member is forgotten
        """
        law(
            member_id not in self.joining and member_id not in self.syncing,
            "GRP-3 whoever waits as a member is answered before the member is forgotten",
            group=self.group_id,
            member=member_id,
        )
        self.pending_members.pop(member_id, None)
        self.pending_sync.pop(member_id, None)
        self.new_members.discard(member_id)
        member = self._forget(member_id)
        if member is None:
            return None
        del self.members[member_id]
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def set_members(self, members: Iterable[Member]) -> None:
        """Replace all members; `pending_sync` keeps those that are still members."""
        self.members, self.static_members = {}, {}
        self._support.clear()
        self.size = 0
        for member in members:
            self.put(member)
        self.pending_sync = {each: None for each in self.pending_sync if each in self.members}

    def replace(self, old_id: str, member: Member) -> None:
        """Give a static member another id; a leader stays leader."""
        led = self.leader_id == old_id
        self.remove(old_id)
        self.put(member)
        if led:
            self.leader_id = member.member_id

    def _forget(self, member_id: str) -> Member | None:
        member = self.members.get(member_id)
        if member is not None:
            self._support.subtract(member.protocol_names)
            self.size -= member.size
        return member

    @property
    def held_bytes(self) -> int:
        """The bytes that members take, pending ones too."""
        return self.size + MEMBER_BYTES * len(self.pending_members)

    def all_joined(self) -> bool:
        return len(self.joining) == len(self.members) and not self.pending_members

    def elect_joined_leader(self) -> bool:
        """Elect a leader among the members that joined; False if none has."""
        if self.leader_id not in self.joining:
            elected = next((each for each in self.members if each in self.joining), None)
            if elected is None:
                return False
            self.leader_id = elected
        return True

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    def satisfies_heartbeat(self, member_id: str) -> bool:
        """True if it need not send heartbeats: it waits for a reply. New members may be gone."""
        waits = member_id in self.joining or member_id in self.syncing
        return waits and member_id not in self.new_members

    def as_joined(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(m.member_id, m.group_instance_id, m.metadata(self.protocol_name))
            for m in self.members.values()
        )

    # -- state and agreement --------------------------------------------------------------------

    def enter(self, event: GroupEvent, wall_ms: int) -> None:
        """Change to the state that the event leads to.

        Keeps   GRP-1  a group changes state as its table allows
        """
        following = NEXT[self.state].get(event)
        law(
            following is not None,
            "GRP-1 a group changes state as its table allows",
            group=self.group_id,
            state=self.state,
            event=event,
        )
        if following is not None:
            self.state = following
            self.state_timestamp_ms = wall_ms

    def begin_generation(self, generation_id: int, protocol_name: str | None) -> None:
        """Keeps   GRP-2  a group's generation never goes back."""
        law(
            generation_id >= self.generation_id,
            "GRP-2 a group's generation never goes back",
            group=self.group_id,
            old=self.generation_id,
            new=generation_id,
        )
        self.generation_id = generation_id
        self.protocol_name = protocol_name
        self.topics = self._subscribed_topics()

    def supports(self, protocol_type: str, protocols: Iterable[OfferedProtocol]) -> bool:
        """True if a client that offers these protocols may become a member."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        return self.protocol_type == protocol_type and any(
            self._support[offered.name] == len(self.members) for offered in protocols
        )

    def is_subscribed_to(self, topic: str) -> bool:
        """True if a member subscribes to the topic; unreadable metadata may mean any topic."""
        if self.topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.topics

    def _subscribed_topics(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        if self.members and self.protocol_name is None:
            return None
        try:
            return frozenset(
                topic
                for member in self.members.values()
                for topic in subscribed_topics(member.metadata(self.protocol_name))
            )
        except ValueError as unreadable:
            log.info("subscription not readable group=%s reason=%s", self.group_id, unreadable)
            return None

    # -- checks ----------------------------------------------------------------------------------

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        if group_instance_id is not None:
            known = self.static_members.get(group_instance_id)
            if known is None:
                return ErrorCode.unknown_member_id
            if known != member_id:
                return ErrorCode.fenced_instance_id
        if member_id == NO_MEMBER_ID or member_id not in self.members:
            return ErrorCode.unknown_member_id
        return ErrorCode.none

    def check_member_of(
        self, generation_id: int, member_id: str, group_instance_id: str | None
    ) -> ErrorCode:
        error = self.check_member(member_id, group_instance_id)
        if error is ErrorCode.none and generation_id != self.generation_id:
            return ErrorCode.illegal_generation
        return error

    def check_commit(self, claim: CommitClaim) -> ErrorCode:
        """The error if the claim may not commit offsets; transactions may in any state.

        Without generation (an admin, a consumer that assigns itself) the group must be empty.
        """
        if claim.generation_id < 0 and self.is_empty:
            return ErrorCode.none
        if not claim.names_nobody:
            error = self.check_member_of(
                claim.generation_id, claim.member_id, claim.group_instance_id
            )
            if error is not ErrorCode.none:
                return error
        elif not claim.is_transactional:
            return ErrorCode.unknown_member_id
        if self.state is GroupState.COMPLETING_REBALANCE and not claim.is_transactional:
            return ErrorCode.rebalance_in_progress
        return ErrorCode.none

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Any client may fetch the offsets of a classic group."""
        return ErrorCode.none

    def check_offset_delete(self) -> ErrorCode:
        """Of members, only consumers say which topics they subscribe to."""
        if self.is_empty or self.protocol_type == CONSUMER_PROTOCOL_TYPE:
            return ErrorCode.none
        return ErrorCode.non_empty_group

    def check_delete(self) -> ErrorCode:
        return ErrorCode.none if self.is_empty else ErrorCode.non_empty_group

    # -- description -----------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def holds_nothing(self) -> bool:
        """True if the group was only looked at: it need not be kept."""
        return self.is_empty and self.generation_id == 0 and not self.pending_members

    def unused_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """The time since when an offset of that commit is unused; None while it is in use.

        Offsets of topics that members subscribe to are always kept, see `is_subscribed_to`.
        """
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.is_empty:
            return (
                commit_timestamp_ms if self.state_timestamp_ms is None else self.state_timestamp_ms
            )
        if self.state is GroupState.STABLE and self.topics is not None:
            return commit_timestamp_ms
        return None

    def listed(self) -> ListedGroup:
        return ListedGroup(self.group_id, self.protocol_type or "", self.state.value, "classic")

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        return (encode(GroupMetadata(self.group_id)),)
