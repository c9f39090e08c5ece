"""What clients asked of the cluster and what came of it: every operation, in the order begun.

An operation has one of three ends. *ok*: it happened, and what it gave is known. *failed*: it did
not happen and never will. *unknown*: nobody answered in time, or the answer leaves it open; it may
have happened, or may yet. So is every operation that has not ended. Checkers rest on the
difference: what failed must never be seen, what was promised must always be.
"""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import Final, TypeVar

from barnabas.base.ids import TopicPartition

# In place of a value, for bytes that no producer of ours can have sent.
NOT_OURS: Final = -1
NO_OFFSET: Final = -1
_LONGEST_PADDING: Final = 160
# Of what is sent to this topic only the last record of each key is sure to stay.
COMPACTED: Final = "accounts"
# Of what is sent to this topic the oldest goes: by size, and when someone deletes it.
FADING: Final = "events"
RETAINED_BYTES: Final = 12_288
_KEYS: Final = 6


class Outcome(Enum):
    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Send:
    """One batch for one partition, as one producer numbers it. Gives Sent."""

    at: TopicPartition
    values: tuple[int, ...]
    acks: int
    producer_id: int
    producer_epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Sent:
    base_offset: int  # NO_OFFSET, if the broker only knows that it has the batch


@dataclass(frozen=True, slots=True)
class Poll:
    """Read on from a position, which a former poll led to. Gives Polled; empty ones are not kept.

    `topic_id` tells a topic from one that had its name before; `group` is whom the reader is for.
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
    """Become a member of a group and be told what to read. Gives Owned."""

    group: str


@dataclass(frozen=True, slots=True)
class Owned:
    member: str
    generation: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """Say what a member owns, and be told what it shall own from now on. Gives Owned.

    `topic_ids` tell, partition by partition, a topic from one that had its name before.
    """

    group: str
    member: str
    epoch: int
    partitions: tuple[TopicPartition, ...]
    topic_ids: tuple[uuid.UUID, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """Remember how far the group has read. Gives nothing."""

    group: str
    member: str
    generation: int
    offsets: tuple[tuple[TopicPartition, int], ...]


@dataclass(frozen=True, slots=True)
class Recall:
    """Ask how far the group has read. Gives Recalled."""

    group: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Recalled:
    offsets: tuple[tuple[TopicPartition, int], ...]  # NO_OFFSET where nothing was committed


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
    """Move a partition to other brokers; without any, cancel such a move."""

    at: TopicPartition
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Elect:
    """Let the preferred replica lead."""

    at: TopicPartition


@dataclass(frozen=True, slots=True)
class Trim:
    """Delete all records before an offset. Gives nothing."""

    at: TopicPartition
    before: int


Asked = (
    Send | Poll | Own | Hold | Commit | Recall | Create | Delete | Grow | Reassign | Elect | Trim
)
Got = Sent | Polled | Owned | Recalled
A = TypeVar("A", Send, Poll, Own, Hold, Commit, Recall, Create, Delete, Grow, Reassign, Elect, Trim)


@dataclass(slots=True)
class Operation:
    """One operation of one client, between the two times that the client knows of."""

    number: int
    client: str
    asked: Asked
    began: float
    ended: float = inf
    outcome: Outcome = Outcome.UNKNOWN
    got: Got | None = None
    why: str = ""

    def __str__(self) -> str:
        ended = "never" if self.ended == inf else f"{self.ended:.6f}"
        said = " ".join(str(part) for part in (self.got, self.why) if part)
        return f"{self.began:.6f} {ended} {self.client} {self.asked} {self.outcome.value} {said}"


@dataclass(slots=True)
class History:
    """Grows only; `now` is the time of whoever looks at all clients, so theirs can be compared."""

    now: Callable[[], float]
    operations: list[Operation] = field(default_factory=list)
    _last_value: int = 0

    def new_value(self) -> int:
        """A value that nobody has sent yet."""
        self._last_value += 1
        return self._last_value

    def begin(self, client: str, asked: Asked, began: float | None = None) -> Operation:
        """An operation that is under way, from `began` or now on."""
        since = self.now() if began is None else began
        operation = Operation(len(self.operations), client, asked, since)
        self.operations.append(operation)
        return operation

    def end(
        self, operation: Operation, outcome: Outcome, got: Got | None = None, why: str = ""
    ) -> None:
        operation.ended = self.now()
        operation.outcome, operation.got, operation.why = outcome, got, why

    def of(self, kind: type[A]) -> Iterator[tuple[Operation, A]]:
        """All operations of one kind, with what they asked."""
        for operation in self.operations:
            if isinstance(operation.asked, kind):
                yield operation, operation.asked

    def lines(self) -> Iterator[str]:
        """The whole history as text, the same for the same history."""
        return map(str, self.operations)


def payload(value: int) -> bytes:
    """The bytes of a record that carries `value`; of many lengths, so that segments differ."""
    return b"%d:" % value + b"." * (value * 7919 % _LONGEST_PADDING)


def key_of(value: int) -> bytes:
    """The key of the record that carries `value`: one of a few."""
    return b"key-%d" % (value % _KEYS)


def value_of(payload_read: bytes | None) -> int:
    """The value that a record carries, NOT_OURS if a byte of it is not as it was sent."""
    digits = (payload_read or b"").partition(b":")[0]
    if not digits.isdigit():
        return NOT_OURS
    value = int(digits)
    return value if payload(value) == payload_read else NOT_OURS
