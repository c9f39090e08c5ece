"""The history of a run: every operation of every client with its outcome, in order of start.

An operation has one of three outcomes. *ok*: it happened, and its result is known. *failed*: it
did not happen and never will. *unknown*: there was no answer in time, or the answer leaves it
open; it may have happened, or may still happen. An operation that has not ended is unknown, too.
Checkers rely on the difference: a failed write must never be seen, an acknowledged one always.
"""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import Final, TypeVar

from barnabas.base.ids import TopicPartition
from barnabas.sim.checkers.transaction_operations import (
    Begin,
    CommittedPoll,
    CommittedPolled,
    EndTransaction,
    TransactionalCommit,
    TransactionalSend,
)

# Stands for bytes that no producer of the run has sent.
NOT_OURS: Final = -1
NO_OFFSET: Final = -1
_LONGEST_PADDING: Final = 160
# A compacted topic: only the last record of each key is certain to stay.
COMPACTED: Final = "accounts"
# A topic whose oldest records are deleted: by size, and by DeleteRecords.
FADING: Final = "events"
RETAINED_BYTES: Final = 12_288
# The topics of transactions: what producers write, and what is made of it.
TRANSACTIONAL: Final = ("payments", "balances")
_KEYS: Final = 6


class OperationOutcome(Enum):
    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Send:
    """Produce one batch to one partition. Result: Sent."""

    at: TopicPartition
    values: tuple[int, ...]
    acks: int
    producer_id: int
    producer_epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Sent:
    base_offset: int  # NO_OFFSET for a duplicate whose offset the broker no longer knows


@dataclass(frozen=True, slots=True)
class Poll:
    """Fetch from a position, where the previous poll ended. Result: Polled, never empty.

    `topic_id` distinguishes topics of the same name; `group` is the reader's group, if any.
    """

    at: TopicPartition
    topic_id: uuid.UUID
    position: int
    group: str = ""


@dataclass(frozen=True, slots=True)
class Polled:
    records: tuple[tuple[int, int], ...]  # offset and value
    high_watermark: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class Own:
    """Join a classic group and get an assignment. Result: Owned."""

    group: str


@dataclass(frozen=True, slots=True)
class Owned:
    member: str
    generation: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """Send a consumer group heartbeat with the owned partitions. Result: Owned, the new ones.

    `topic_ids` distinguish, per partition, topics of the same name.
    """

    group: str
    member: str
    epoch: int
    partitions: tuple[TopicPartition, ...]
    topic_ids: tuple[uuid.UUID, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit offsets of a group. No result."""

    group: str
    member: str
    generation: int
    offsets: tuple[tuple[TopicPartition, int], ...]


@dataclass(frozen=True, slots=True)
class Recall:
    """Fetch the committed offsets of a group. Result: Recalled."""

    group: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Recalled:
    offsets: tuple[tuple[TopicPartition, int], ...]  # NO_OFFSET without a commit


@dataclass(frozen=True, slots=True)
class Create:
    topic: str
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class Delete:
    topic: str


@dataclass(frozen=True, slots=True)
class Grow:
    topic: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Reassign:
    """Reassign a partition; None cancels its reassignment."""

    at: TopicPartition
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Elect:
    """Elect the preferred leader."""

    at: TopicPartition


@dataclass(frozen=True, slots=True)
class Trim:
    """Delete all records before an offset. No result."""

    at: TopicPartition
    before: int


Asked = (
    Send
    | Poll
    | Own
    | Hold
    | Commit
    | Recall
    | Create
    | Delete
    | Grow
    | Reassign
    | Elect
    | Trim
    | Begin
    | TransactionalSend
    | CommittedPoll
    | TransactionalCommit
    | EndTransaction
)
Got = Sent | Polled | Owned | Recalled | CommittedPolled
A = TypeVar("A", bound=Asked)


@dataclass(slots=True)
class ClientOperation:
    """One operation of one client, with the times of its request and its answer."""

    number: int
    client: str
    asked: Asked
    began: float
    ended: float = inf
    outcome: OperationOutcome = OperationOutcome.UNKNOWN
    got: Got | None = None
    why: str = ""

    def __str__(self) -> str:
        ended = "never" if self.ended == inf else f"{self.ended:.6f}"
        said = " ".join(str(part) for part in (self.got, self.why) if part)
        return f"{self.began:.6f} {ended} {self.client} {self.asked} {self.outcome.value} {said}"


@dataclass(slots=True)
class OperationHistory:
    """All operations of a run; `now` is one clock for all clients."""

    now: Callable[[], float]
    operations: list[ClientOperation] = field(default_factory=list)
    _last_value: int = 0

    def new_value(self) -> int:
        """A value that no producer has sent yet."""
        self._last_value += 1
        return self._last_value

    def begin(self, client: str, asked: Asked, began: float | None = None) -> ClientOperation:
        """Start an operation, at `began` or now."""
        since = self.now() if began is None else began
        operation = ClientOperation(len(self.operations), client, asked, since)
        self.operations.append(operation)
        return operation

    def end(
        self,
        operation: ClientOperation,
        outcome: OperationOutcome,
        got: Got | None = None,
        why: str = "",
    ) -> None:
        operation.ended = self.now()
        operation.outcome, operation.got, operation.why = outcome, got, why

    def of(self, kind: type[A]) -> Iterator[tuple[ClientOperation, A]]:
        """All operations of one kind, with their requests."""
        for operation in self.operations:
            if isinstance(operation.asked, kind):
                yield operation, operation.asked

    def lines(self) -> Iterator[str]:
        """The history as text; equal histories have equal texts."""
        return map(str, self.operations)


def payload(value: int) -> bytes:
    """The record value that carries `value`; its length varies, so that segments differ."""
    return b"%d:" % value + b"." * (value * 7919 % _LONGEST_PADDING)


def key_of(value: int) -> bytes:
    """The key of the record that carries `value`; there are only a few keys."""
    return b"key-%d" % (value % _KEYS)


def value_of(payload_read: bytes | None) -> int:
    """The value that a record carries; NOT_OURS if a byte differs from what was sent."""
    digits = (payload_read or b"").partition(b":")[0]
    if not digits.isdigit():
        return NOT_OURS
    value = int(digits)
    return value if payload(value) == payload_read else NOT_OURS
