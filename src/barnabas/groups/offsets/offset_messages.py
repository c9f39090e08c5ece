"""Requests and replies about committed offsets, independent of the API version."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from barnabas.base.errors import ErrorCode
from barnabas.coordinator.result import CoordinatorRecord
from barnabas.groups.records.offset_record import NO_LEADER_EPOCH, NO_TIMESTAMP

NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class OffsetSettings:
    """`offset.metadata.max.bytes` and `offsets.retention.minutes`.

    Only a test of the safeguards gives out offsets that a transaction may change.
    """

    metadata_max_bytes: int = 4096
    retention_ms: int = 7 * 24 * 3600 * 1000
    awaits_transactions: bool = True


class PartitionCommit(NamedTuple):
    """An offset to commit; only the oldest clients send a timestamp."""

    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str | None = ""
    commit_timestamp_ms: int = NO_TIMESTAMP


class TopicCommits(NamedTuple):
    topic: str
    partitions: Iterable[PartitionCommit]


class AskedTopic(NamedTuple):
    """Partitions of a topic in a request."""

    topic: str
    partitions: Iterable[int]


class PartitionResult(NamedTuple):
    partition: int
    error: ErrorCode


class TopicResults(NamedTuple):
    """The result of each partition of a commit or a deletion, in the order of the request."""

    topic: str
    partitions: Sequence[PartitionResult]


class OffsetsReply(NamedTuple):
    """The reply to a commit or a deletion; with an `error` it has no topics."""

    topics: Sequence[TopicResults] = ()
    error: ErrorCode = ErrorCode.none

    def failed(self, error: ErrorCode) -> "OffsetsReply":
        return OffsetsReply(error=error)


class FetchedOffset(NamedTuple):
    """The committed offset of a partition; -1 if there is none, or with an error."""

    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    error: ErrorCode = ErrorCode.none


class FetchedTopic(NamedTuple):
    topic: str
    partitions: Sequence[FetchedOffset]


class FetchReply(NamedTuple):
    """The reply for one group; with an `error` it has no topics."""

    topics: Sequence[FetchedTopic] = ()
    error: ErrorCode = ErrorCode.none


class Expired(NamedTuple):
    """The tombstones of a group's expired offsets, and whether no offset is left."""

    records: tuple[CoordinatorRecord, ...]
    leaves_none: bool


class OffsetOwner(Protocol):
    """A group, as far as the expiry of offsets needs it."""

    def is_subscribed_to(self, topic: str) -> bool:
        """True if a member subscribes to the topic, so its offsets are kept."""

    def unused_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """The time since when an offset of that commit is unused; None while it is in use."""
