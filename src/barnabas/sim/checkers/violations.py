"""The final state that checkers compare a history with, and the violations they report."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from barnabas.base.ids import TopicPartition


class ViolationKind(Enum):
    """The guarantees that a history can violate."""

    LOST = "lost write"  # acknowledged with acks=all, but missing at the end
    DUPLICATE = "duplicate"  # one value at two offsets
    PHANTOM = "phantom read"  # a value that was never sent to the partition
    ABORTED = "aborted read"  # a value whose write was rejected
    INCONSISTENT = "inconsistent offsets"  # two values at one offset
    REORDERED = "reordered writes"  # of one producer
    FORGOTTEN = "producer forgotten"  # its next batch was rejected as out of order
    NON_MONOTONE = "non-monotone poll"
    SKIPPED = "skipped poll"
    UNCOMMITTED = "read before committed"  # above the high watermark, or gone later
    DAMAGED = "damaged batch"
    DELETED = "deleted too early"  # neither by DeleteRecords nor by size
    MISSING = "replica missing"  # on an assigned broker, when all brokers serve
    DIVERGED = "replicas differ"
    OWNED_TWICE = "partition owned twice"
    GENERATION_WENT_BACK = "generation went back"
    COMMIT_WENT_BACK = "committed offset went back"
    COMMIT_INVENTED = "committed offset that no member committed"
    GROUP_SKIPPED = "record skipped by a group"
    TOPIC_LOST = "topic lost"
    TOPIC_BACK = "deleted topic is back"
    MISPLACED = "partition is not on its reassigned brokers"
    PRECOMMITTED = "precommitted read"  # before its transaction was asked to commit
    TORN = "torn transaction"  # partly committed, partly not
    CYCLE = "cycle of transactions"
    INVERTED = "inverted read inside a transaction"
    WRITE_INVERTED = "inverted write inside a transaction"
    HANGING = "hanging transaction"  # without a marker, when all brokers serve
    WRONG_MARKER = "marker against the outcome"
    NOT_ONCE = "not exactly once"  # a consumed record with no output, or with two
    UNEXPECTED = "unexpected error"


@dataclass(frozen=True, slots=True)
class Violation:
    kind: ViolationKind
    facts: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.facts}"


@dataclass(frozen=True, slots=True)
class FinalPartition:
    """One partition after all faults, when the cluster is healthy again."""

    at: TopicPartition
    topic_id: uuid.UUID
    high_watermark: int
    records: tuple[tuple[int, int], ...]  # offset and value of all that a consumer reads
    log_start: int = 0
    assigned: tuple[int, ...] = ()  # broker ids
    # The bytes of each broker's log, from the highest log start to the high watermark.
    replicas: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """A transactional batch of a log, or an end marker: then `marker` is set and `values` empty."""

    offset: int
    producer_id: int
    producer_epoch: int
    values: tuple[int, ...] = ()
    marker: bool | None = None  # True: COMMIT


@dataclass(frozen=True, slots=True)
class FinalTransactions:
    """One partition of a transactional topic: its log, and what read_committed returns."""

    at: TopicPartition
    log: tuple[LoggedBatch, ...] = ()
    committed: tuple[tuple[int, int], ...] = ()  # offset and value


@dataclass(frozen=True, slots=True)
class FinalState:
    """All partitions of the topics that the workloads created.

    `offsets` are the committed ones of groups that commit in transactions.
    """

    partitions: tuple[FinalPartition, ...] = ()
    transactional: tuple[FinalTransactions, ...] = ()
    offsets: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
