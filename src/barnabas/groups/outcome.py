"""What a decision about a group results in: an answer, records to be written, and effects.

Deciders look at the state, at a request and at the time, and change nothing that records tell of:
that changes only by replaying the records, once they are in the log. An answer is given when the
records that it rests on are committed.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from barnabas.base.errors import ErrorCode

Reply = TypeVar("Reply")


class Now(NamedTuple):
    """The time of a decision: by the wall, for what is written down; by the loop, for waiting."""

    wall_ms: int
    loop_ms: float


class LogRecord(NamedTuple):
    """One record of `__consumer_offsets`; without a value it removes what the key had."""

    key: bytes
    value: bytes | None


class Waiter(NamedTuple):
    """Stands for an answer that is given later, by an `Answer`; each is used once."""

    number: int


class ArmTimer(NamedTuple):
    """Come back to the shard with this key at this time, unless it is armed anew or cancelled."""

    key: Hashable
    at_loop_ms: float


class CancelTimer(NamedTuple):
    key: Hashable


class Answer(NamedTuple):
    """Give a waiting request its reply."""

    waiter: Waiter
    reply: object


@runtime_checkable
class CanFail(Protocol):
    """A reply that may rest on records."""

    def failed(self, error: ErrorCode) -> object:
        """What is said instead if the records cannot be written: a reply of its own kind."""


Effect: TypeAlias = ArmTimer | CancelTimer | Answer


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Reply]):
    """`reply` is the answer, or the Waiter that will get it.

    The effects are carried out, and the reply is given, after the records were appended; replies
    and answers wait until they are committed, too. If they cannot be appended nothing happens but
    that the request, and whoever is answered here, hears `on_failure`.
    """

    reply: Reply | Waiter
    records: tuple[LogRecord, ...] = ()
    effects: tuple[Effect, ...] = ()
    on_failure: ErrorCode | None = None
