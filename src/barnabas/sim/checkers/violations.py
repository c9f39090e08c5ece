"""What checkers compare a history with, and what they tell when the two do not agree."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from barnabas.base.ids import TopicPartition


class Kind(Enum):
    """Each promise that a history can break."""

    LOST = "lost write"  # acknowledged by all in sync, and not there at the end
    DUPLICATE = "duplicate"  # one value at two offsets
    PHANTOM = "phantom read"  # a value that nobody sent there
    ABORTED = "aborted read"  # a value of which its sender was told that it was refused
    INCONSISTENT = "inconsistent offsets"  # two values at one offset
    REORDERED = "reordered writes"  # of one producer, in another order than it sent them
    FORGOTTEN = "producer forgotten"  # what comes next in its order was refused
    NON_MONOTONE = "non-monotone poll"
    SKIPPED = "skipped poll"
    UNCOMMITTED = "read before committed"  # above the high watermark, or gone later
    DAMAGED = "damaged batch"
    DELETED = "deleted too early"  # by nobody's wish, and not by size either
    MISSING = "replica missing"  # where the partition is assigned, when all brokers serve
    DIVERGED = "replicas differ"
    OWNED_TWICE = "partition owned twice"
    GENERATION_WENT_BACK = "generation went back"
    COMMIT_WENT_BACK = "committed offset went back"
    COMMIT_INVENTED = "committed offset that nobody committed"
    GROUP_SKIPPED = "record skipped by a group"
    TOPIC_LOST = "topic lost"
    TOPIC_BACK = "deleted topic is back"
    MISPLACED = "partition is not where it was moved to"
    UNEXPECTED = "unexpected error"


@dataclass(frozen=True, slots=True)
class Violation:
    kind: Kind
    facts: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.facts}"


@dataclass(frozen=True, slots=True)
class FinalPartition:
    """One partition when all faults are over and the cluster is whole again."""

    at: TopicPartition
    topic_id: uuid.UUID
    high_watermark: int
    records: tuple[tuple[int, int], ...]  # offset and value of all a consumer can read
    log_start: int = 0  # the first that it could
    assigned: tuple[int, ...] = ()  # the brokers that shall have it
    # By broker that has a log of it, the batches up to the high watermark, byte by byte; from
    # where all have some.
    replicas: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Final:
    """All partitions of the topics that the workloads made."""

    partitions: tuple[FinalPartition, ...] = ()
