"""The result of a coordinator's decision: reply, records and effects.

A decision looks at state, request and time. The state that records hold changes only by replaying
them once they are in the log. A reply is sent when the records that it rests on are committed.
"""

from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from barnabas.base.errors import BarnabasError, ErrorCode
from barnabas.log.producers.verification import VerificationGuard
from barnabas.wire.records.batch import NO_SEQUENCE
from barnabas.wire.records.records import EndTransactionMarker

Reply = TypeVar("Reply")
TimerKey: TypeAlias = tuple[str, ...]


class MalformedRecord(BarnabasError):
    """The bytes of a record are not what their type and version promise."""


class Now(NamedTuple):
    """The time of a decision: wall time for records, loop time for timers."""

    wall_ms: int
    loop_ms: float


class CoordinatorRecord(NamedTuple):
    """One record of the internal topic; without a value it is a tombstone."""

    key: bytes
    value: bytes | None


class Waiter(NamedTuple):
    """Stands for a reply that a later `Answer` gives; each is used once."""

    number: int


class ArmTimer(NamedTuple):
    """Call the shard's `on_timer` with this key at this time; replaces a timer of the same key."""

    key: TimerKey
    at_loop_ms: float


class CancelTimer(NamedTuple):
    key: TimerKey


class Answer(NamedTuple):
    """Give a waiting request its reply."""

    waiter: Waiter
    reply: object


class Emit(NamedTuple):
    """Give the owner of the runtime an event, once the records are committed."""

    event: object


class Transaction(NamedTuple):
    """The transaction that records belong to: they count when it commits.

    The first append of a transaction needs the guard with which it was verified.
    """

    producer_id: int
    producer_epoch: int
    guard: VerificationGuard | None = None


class TransactionEnd(NamedTuple):
    """The end marker of a producer's transaction, for one partition."""

    producer_id: int
    producer_epoch: int
    marker: EndTransactionMarker
    transaction_version: int = 0


Effect: TypeAlias = ArmTimer | CancelTimer | Answer | Emit


@runtime_checkable
class CanFail(Protocol):
    """A reply that may rest on records."""

    def failed(self, error: ErrorCode) -> object:
        """The reply of the same kind that is sent if the records cannot be appended."""


class CoordinatorResult(NamedTuple, Generic[Reply]):
    """`reply` is the reply, or the Waiter that will get it.

    The runtime appends and replays the records, then performs the effects. Replies and answers wait
    until the records are committed. If the append fails, the shard's `on_append_failed` returns the
    result that replaces this one.
    """

    reply: Reply | Waiter
    records: tuple[CoordinatorRecord, ...] = ()
    effects: tuple[Effect, ...] = ()
    # Of the batches, which no producer has written: Kafka gives 0 to commits, -1 to all else.
    base_sequence: int = NO_SEQUENCE
    transaction: Transaction | None = None
    # In one batch, or refused before any is appended. If not, a large result may take several.
    is_atomic: bool = True


def failed_reply(reply: object, error: ErrorCode) -> object:
    """The reply when the append failed; a Waiter goes on waiting, None stays None."""
    if isinstance(reply, CanFail):
        return reply.failed(error)
    return error if isinstance(reply, ErrorCode) else reply
