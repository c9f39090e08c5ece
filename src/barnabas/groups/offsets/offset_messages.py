"""What is asked about committed offsets, and what is answered, whatever the version of the API."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from barnabas.base.errors import ErrorCode
from barnabas.coordinator.result import CoordinatorRecord
from barnabas.groups.records.offset_record import NO_LEADER_EPOCH, NO_TIMESTAMP

NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class OffsetSettings:
    """`offset.metadata.max.bytes` and `offsets.retention.minutes`."""

    metadata_max_bytes: int = 4096
    retention_ms: int = 7 * 24 * 3600 * 1000


class PartitionCommit(NamedTuple):
    """An offset to be committed; only the oldest clients say when it was."""

    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str | None = ""
    commit_timestamp_ms: int = NO_TIMESTAMP


class TopicCommits(NamedTuple):
    topic: str
    partitions: Iterable[PartitionCommit]


class AskedTopic(NamedTuple):
    """Partitions of a topic that are asked about."""

    topic: str
    partitions: Iterable[int]


class PartitionResult(NamedTuple):
    partition: int
    error: ErrorCode


class TopicResults(NamedTuple):
    """What became of each partition that a commit or a deletion named, in its order."""

    topic: str
    partitions: Sequence[PartitionResult]


class OffsetsReply(NamedTuple):
    """Answers a commit or a deletion; `error` is of all of it, and then no topics are told."""

    topics: Sequence[TopicResults] = ()
    error: ErrorCode = ErrorCode.none

    def failed(self, error: ErrorCode) -> "OffsetsReply":
        return OffsetsReply(error=error)


class FetchedOffset(NamedTuple):
    """Where a group has come to; the offset is -1 if it committed none, or with an error."""

    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    error: ErrorCode = ErrorCode.none


class FetchedTopic(NamedTuple):
    topic: str
    partitions: Sequence[FetchedOffset]


class FetchReply(NamedTuple):
    """Answers for one group; `error` is of all of it, and then no topics are told."""

    topics: Sequence[FetchedTopic] = ()
    error: ErrorCode = ErrorCode.none


class Expired(NamedTuple):
    """What removes the offsets of a group that are too old, and whether that leaves it none."""

    records: tuple[CoordinatorRecord, ...]
    leaves_none: bool


class OffsetOwner(Protocol):
    """What expiry needs to know of a group."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member wants the topic, so that its offsets are to be kept."""

    def unused_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """Since when an offset of that commit serves nobody; None while it is to be kept."""
