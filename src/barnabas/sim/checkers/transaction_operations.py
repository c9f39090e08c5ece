"""The operations of transactional clients, as a history has them.

A transaction has the number of its `Begin` operation; everything inside of it carries that number.
Its outcome follows from its `EndTransaction` operations: it is *committed* if a commit was
acknowledged, *aborted* if no commit was requested that may have arrived, else *undecided*.
"""

from dataclasses import dataclass
from typing import Final

from barnabas.base.ids import TopicPartition

OUTSIDE: Final = -1  # of all transactions


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin a transaction. No result; it is ok if the producer may send."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class TransactionalSend:
    """Produce one batch in a transaction. Result: Sent.

    `sources` has the value of the consumed record behind each of `values`, if there is one.
    """

    transaction: int
    at: TopicPartition
    values: tuple[int, ...]
    sources: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CommittedPoll:
    """Fetch with read_committed from a position. Result: CommittedPolled."""

    transaction: int  # OUTSIDE for plain readers
    at: TopicPartition
    position: int


@dataclass(frozen=True, slots=True)
class CommittedPolled:
    """The records that were read, and the next position: every offset before is read or skipped."""

    records: tuple[tuple[int, int], ...]  # offset and value
    next_position: int


@dataclass(frozen=True, slots=True)
class TransactionalCommit:
    """Commit offsets of a group in a transaction. No result."""

    transaction: int
    group: str
    offsets: tuple[tuple[TopicPartition, int], ...]


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Request the commit or the abort of a transaction. No result."""

    transaction: int
    commit: bool
