"""Errors that pass by themselves, and how long a client goes on trying.

`Steps` is a conversation with a cluster without I/O: a generator that yields requests and pauses,
and gets the responses. So leader look-up, coordinator look-up and retries are written once, for
clients on an event loop and for blocking ones (`AsyncClient`, `BlockingClient`).
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from barnabas.base.clock import machine_stopwatch
from barnabas.base.errors import BarnabasError, ErrorCode, PeerGone
from barnabas.wire.apis import ApiKey

BACKOFF_S: Final = 0.1
_NS_PER_S: Final = 1e9
_E = ErrorCode

# The leader moves, or the broker that was asked knows it better or less well than the client.
STALE_LEADER: Final = frozenset(
    {
        _E.not_leader_or_follower,
        _E.leader_not_available,
        _E.fenced_leader_epoch,
        _E.unknown_leader_epoch,
        _E.replica_not_available,
        _E.offset_not_available,
        _E.kafka_storage_error,
        _E.unknown_topic_or_partition,
        _E.unknown_topic_id,
        _E.inconsistent_topic_id,
    }
)
# A batch that was refused so may be sent again; it may also be in the log already.
PRODUCE_AGAIN: Final = STALE_LEADER | {
    _E.request_timed_out,
    _E.network_exception,
    _E.not_enough_replicas,
    _E.not_enough_replicas_after_append,
}
STALE_COORDINATOR: Final = frozenset(
    {_E.not_coordinator, _E.coordinator_not_available, _E.coordinator_load_in_progress}
)


# Host and port at which a broker listens.
Address: TypeAlias = tuple[str, int]


class RetriableError(BarnabasError):
    """The cluster is changing; a later attempt may succeed."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Send a request to the broker at this address; its response comes back."""

    address: Address
    key: ApiKey
    message: Any


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


Result = TypeVar("Result")
# The response to an Ask is sent back; PeerGone is thrown in where there is none.
Steps: TypeAlias = Generator[Ask | Pause, Any, Result]
# Called after a failed attempt: the pause before the next one, or None to give up.
Retry: TypeAlias = Callable[[], float | None]


def attempts(count: int, pause_s: float = BACKOFF_S) -> Retry:
    """Try so many times in all."""
    pauses = iter([pause_s] * (count - 1))
    return lambda: next(pauses, None)


def within(timeout_s: float) -> Retry:
    """Try until so much time is over."""
    deadline = machine_stopwatch() + round(timeout_s * _NS_PER_S)
    return lambda: None if machine_stopwatch() > deadline else BACKOFF_S


def retried(
    attempt: Callable[[], Steps[Result]],
    retry: Retry,
    fatal: tuple[type[BaseException], ...] = (),
) -> Steps[Result]:
    """Attempt until it succeeds.

    Raises  the last attempt's PeerGone or RetriableError; at once, if it is among `fatal`
    """
    while True:
        try:
            return (yield from attempt())
        except fatal:
            raise
        except (PeerGone, RetriableError):
            pause_s = retry()
            if pause_s is None:
                raise
        yield Pause(pause_s)


def error_words(code: ErrorCode, message: str | None = None) -> str:
    """The broker's own words, or the error's name put plainly, and the name of the error."""
    return f"{(message or code.name.replace('_', ' ')).rstrip('.')} [{code.name.upper()}]"
