"""What is asked of a classic group and what it answers, whatever the version on the wire.

A reply's `failed` is what is said instead of it when the records it rests on cannot be written.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.base.errors import ErrorCode

NO_MEMBER_ID = ""
NO_GENERATION = -1


class OfferedProtocol(NamedTuple):
    """A way of assigning that a member can take part in; only members understand the metadata."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinRequest:
    group_id: str
    member_id: str  # NO_MEMBER_ID when the client has none
    client_id: str
    client_host: str  # as Kafka writes it down: a slash and the address
    protocol_type: str
    protocols: tuple[OfferedProtocol, ...]  # the preferred first
    session_timeout_ms: int
    rebalance_timeout_ms: int  # the session timeout where the version has none (0)
    group_instance_id: str | None = None
    must_know_its_id: bool = True  # since version 4: a dynamic member joins with an id of ours
    may_skip_assignment: bool = True  # since version 9: a leader can be told not to assign
    reason: str | None = None


class JoinedMember(NamedTuple):
    """What the leader hears of a member."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinReply:
    error: ErrorCode = ErrorCode.none
    member_id: str = NO_MEMBER_ID
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None  # an empty string where the version cannot have none (< 7)
    leader: str = NO_MEMBER_ID
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()  # only for the leader

    def failed(self, error: ErrorCode) -> "JoinReply":
        return JoinReply(error)


@dataclass(frozen=True, slots=True)
class SyncRequest:
    group_id: str
    member_id: str
    generation_id: int
    group_instance_id: str | None = None
    protocol_type: str | None = None  # None where the version has none (< 5)
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)  # by member; the leader's only


@dataclass(frozen=True, slots=True)
class SyncReply:
    error: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""

    def failed(self, error: ErrorCode) -> "SyncReply":
        return SyncReply(error)


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """Answered by a bare error code."""

    group_id: str
    member_id: str
    generation_id: int
    group_instance_id: str | None = None


class LeavingMember(NamedTuple):
    """One who leaves; without a member id, the static member of that instance id is removed."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveRequest:
    group_id: str
    members: tuple[LeavingMember, ...]  # exactly one where the version has no list (< 3)


class LeftMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class LeaveReply:
    """Where the version has no list, the error of the one member is the error of all (< 3)."""

    error: ErrorCode = ErrorCode.none
    members: tuple[LeftMember, ...] = ()  # in the order of the request

    def failed(self, error: ErrorCode) -> "LeaveReply":
        return LeaveReply(error)


class CommitClaim(NamedTuple):
    """Who commits offsets: a member of a generation, or nobody in particular (-1 and no member)."""

    group_id: str
    member_id: str = NO_MEMBER_ID
    generation_id: int = NO_GENERATION  # the member epoch under the consumer protocol
    group_instance_id: str | None = None
    is_transactional: bool = False
    knows_group_id_not_found: bool = True  # since version 9 of OffsetCommit; never TxnOffsetCommit


class DescribedMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """A group that does not exist, or is not a classic one, is described as `Dead`."""

    group_id: str
    state: str
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()
    error: ErrorCode = ErrorCode.none


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True)
class DeleteReply:
    errors: Mapping[str, ErrorCode]  # by group, in the order of the request

    def failed(self, error: ErrorCode) -> "DeleteReply":
        """Groups that could not be deleted anyway keep their reason."""
        return DeleteReply(
            {
                group: error if code is ErrorCode.none else code
                for group, code in self.errors.items()
            }
        )
