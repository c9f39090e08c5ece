"""Request statistics: counts, times of each phase, error codes.

Every request is counted, so counting must cost next to nothing: no locks, no objects of a metrics
library, and of requests that a shortcut serves only some are timed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, Final

from barnabas.base.clock import Stopwatch, machine_stopwatch
from barnabas.wire.schema import Message

# One in so many reads that hold only repeated requests is timed, and stands for all of them.
TIMED_ONE_IN: Final = 16

# The first bucket ends at 1.024 microseconds; each bound is twice the one before.
_FIRST_BITS: Final = 10
_LAST: Final = 27
BOUNDS_S: Final = tuple(2 ** (_FIRST_BITS + bucket) / 1e9 for bucket in range(_LAST))


class Times:
    """A histogram of durations; the last bucket holds those longer than every bound."""

    __slots__ = ("buckets", "total_ns")

    def __init__(self) -> None:
        self.buckets = [0] * (_LAST + 1)
        self.total_ns = 0

    def add(self, took_ns: int, weight: int = 1) -> None:
        """Count `weight` requests of this duration."""
        self.buckets[min((took_ns >> _FIRST_BITS).bit_length(), _LAST)] += weight
        self.total_ns += took_ns * weight

    @property
    def count(self) -> int:
        return sum(self.buckets)


class ApiStatistics:
    """The requests of one API, and the phases that they go through.

    local    on the loop: read, done, and answered or left to wait
    remote   from then on until there is an answer, for those that wait: for other replicas, the
             controller, new records, a thread at a disk
    send     while the client reads its answers more slowly than they come
    """

    __slots__ = ("dispatched", "errors", "local", "remote", "repeated", "send")

    def __init__(self) -> None:
        self.dispatched = 0
        self.repeated = 0  # served by a shortcut
        self.local = Times()
        self.remote = Times()
        self.send = Times()
        self.errors: Counter[int] = Counter()

    @property
    def requests(self) -> int:
        return self.dispatched + self.repeated

    def phases(self) -> Iterator[tuple[str, Times]]:
        yield "local", self.local
        yield "remote", self.remote
        yield "send", self.send


class RequestStatistics:
    """Of all APIs, by their numbers, and of all connections together."""

    __slots__ = (
        "before_any",
        "by_api",
        "received_bytes",
        "refused",
        "sent_bytes",
        "shortcuts",
        "stopwatch",
    )

    def __init__(self, stopwatch: Stopwatch = machine_stopwatch) -> None:
        self.stopwatch = stopwatch
        self.by_api: defaultdict[int, ApiStatistics] = defaultdict(ApiStatistics)
        self.before_any = ApiStatistics()  # of connections that have not asked for anything yet
        self.received_bytes = 0
        self.sent_bytes = 0
        self.refused = 0  # requests that nobody could answer
        self.shortcuts = 0  # that connections keep for requests that are repeated

    def count_errors(self, key: int, response: Message) -> None:
        """Count each error code of a response."""
        errors = self.by_api[key].errors
        for code in error_codes(response):
            errors[code] += 1

    def add_errors(self, key: int, counted: Mapping[int, int]) -> None:
        """Add the error codes of a response that are counted already."""
        errors = self.by_api[key].errors
        for code, count in counted.items():
            errors[code] += count


def error_codes(message: Any) -> Iterator[int]:
    """All that a message has but those that stand for success, however deep they are in it."""
    names, lists = _fields_to_look_at(message.__class__)
    for name in names:
        if code := getattr(message, name):
            yield int(code)
    for name in lists:
        for each in getattr(message, name) or ():
            if not hasattr(each, "__dataclass_fields__"):
                break
            yield from error_codes(each)


@cache
def _fields_to_look_at(kind: type[Any]) -> tuple[list[str], list[str]]:
    """The names of the fields that are error codes, and of those that may hold such."""
    known = fields(kind)
    return (
        [field.name for field in known if field.name == "error_code"],
        [field.name for field in known if "tuple" in str(field.type)],
    )
