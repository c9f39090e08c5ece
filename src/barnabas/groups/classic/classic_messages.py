"""Requests and replies of classic groups, independent of the API version.

A reply's `failed` is the reply that is sent instead if its records cannot be appended.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from barnabas.base.errors import ErrorCode

NO_MEMBER_ID = ""
NO_GENERATION = -1


# The memory of a member beside the bytes that its client sent, about.
MEMBER_BYTES: Final = 1_024


class OfferedProtocol(NamedTuple):
    """A protocol that a member supports; only members understand the metadata."""

    name: str
    metadata: bytes


def offered_bytes(protocols: Iterable[OfferedProtocol]) -> int:
    """The bytes that a member of a classic group takes."""
    return MEMBER_BYTES + sum(len(each.name) + len(each.metadata) for each in protocols)


@dataclass(frozen=True, slots=True)
class JoinRequest:
    group_id: str
    member_id: str  # NO_MEMBER_ID when the client has none
    client_id: str
    client_host: str  # as Kafka writes it: a slash and the address
    protocol_type: str
    protocols: tuple[OfferedProtocol, ...]  # the preferred first
    session_timeout_ms: int
    rebalance_timeout_ms: int  # the session timeout where the version has none (0)
    group_instance_id: str | None = None
    must_know_its_id: bool = True  # since version 4: a dynamic member first gets an id
    may_skip_assignment: bool = True  # since version 9
    reason: str | None = None

    @property
    def size(self) -> int:
        return offered_bytes(self.protocols)


class JoinedMember(NamedTuple):
    """A member in the leader's reply."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinReply:
    error: ErrorCode = ErrorCode.none
    member_id: str = NO_MEMBER_ID
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None  # an empty string in versions < 7
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
    largest_record: int | None = None  # that the group's log takes, if that is known


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
    """The reply is an error code."""

    group_id: str
    member_id: str
    generation_id: int
    group_instance_id: str | None = None


class LeavingMember(NamedTuple):
    """A member that leaves; without a member id, the static member of that instance id."""

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
    """In versions without a list of members (< 3) the member's error is the reply's error."""

    error: ErrorCode = ErrorCode.none
    members: tuple[LeftMember, ...] = ()  # in the order of the request

    def failed(self, error: ErrorCode) -> "LeaveReply":
        return LeaveReply(error)


class CommitClaim(NamedTuple):
    """The sender of a commit: a member of a generation, or no member (-1 and no member id)."""

    group_id: str
    member_id: str = NO_MEMBER_ID
    generation_id: int = NO_GENERATION  # the member epoch under the consumer protocol
    group_instance_id: str | None = None
    is_transactional: bool = False
    knows_group_id_not_found: bool = True  # since version 9 of OffsetCommit; never TxnOffsetCommit

    @property
    def names_nobody(self) -> bool:
        """True if it claims no generation and no member."""
        return (
            self.generation_id < 0
            and self.member_id == NO_MEMBER_ID
            and self.group_instance_id is None
        )


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
        """Groups that cannot be deleted keep their own error."""
        return DeleteReply(
            {
                group: error if code is ErrorCode.none else code
                for group, code in self.errors.items()
            }
        )
