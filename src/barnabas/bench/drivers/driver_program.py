"""The parts that drivers in Python share: spec, clock, progress, answer, pace.

It imports nothing of Barnabas: a driver is a client's process, and starts fast.
"""

import json
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from statistics import quantiles
from typing import Any, Final

PROGRESS_EVERY_S: Final = 0.01
POLL_S: Final = 0.1
WARMING_S: Final = 0.5  # messages that are sent so soon do not count for a latency
CAME_WITHIN_S: Final = 30.0
_SENT_AT: Final = struct.Struct(">d")


class MessagesMissing(Exception):
    """Some messages were not acknowledged, or did not come back."""


@dataclass(frozen=True, slots=True)
class Spec:
    """The argument of a driver; a role uses those fields that the contract names for it."""

    role: str
    bootstrap: str
    topic: str
    partitions: int = 1
    messages: int = 0
    message_bytes: int = 1000
    skew: bool = False
    group: str = ""
    protocol: str = "classic"
    shared: bool = False
    rate: int = 200
    seconds: float = 1.0

    @property
    def value(self) -> bytes:
        return bytes(index % 251 for index in range(self.message_bytes))

    def targets(self) -> Iterator[int]:
        """The partition of each message: each in turn, or nine of ten times the first."""
        if not self.skew:
            return (number % self.partitions for number in range(self.messages))
        others = max(1, self.partitions - 1)
        return (
            0 if number % 10 else (1 + number // 10 % others) % self.partitions
            for number in range(self.messages)
        )


def main(roles: Mapping[str, Callable[[Spec], dict[str, Any]]]) -> None:
    """Run the role that the last argument names and print its answer."""
    given: dict[str, Any] = json.loads(sys.argv[-1])
    if given["role"] not in roles:
        sys.exit(f"there is no role {json.dumps(given['role'])}")
    known = {each.name for each in fields(Spec)}
    spec = Spec(**{key: value for key, value in given.items() if key in known})
    try:
        answer = roles[spec.role](spec)
    except MessagesMissing as problem:
        sys.exit(str(problem))
    print(json.dumps(answer), flush=True)


class Tally:
    """Messages that a consumer got, since its first assignment."""

    def __init__(self, spec: Spec) -> None:
        self.messages = 0
        self.bytes = 0
        self._spec = spec
        self._begun: float | None = None
        self._first = self._ended = self._ended_at = 0.0
        self._printed = 0.0
        self._reported = 0
        self._stop = threading.Event()
        if spec.shared:
            threading.Thread(target=self._wait_for_stop, daemon=True).start()

    @property
    def is_done(self) -> bool:
        return self._stop.is_set() if self._spec.shared else self.messages >= self._spec.messages

    def assigned(self, *_: object) -> None:
        """Start the clock; later assignments do not."""
        if self._begun is None:
            self._begun = time.perf_counter()

    def add(self, messages: int, size: int) -> None:
        """Count what a poll brought, be it nothing."""
        now = time.perf_counter()
        if messages:
            self._first = self._first or now
            self.messages += messages
            self.bytes += size
            self._ended = now
            self._ended_at = time.time()
        if self._spec.shared and self.messages > self._reported:
            self._report(now)

    def _report(self, now: float) -> None:
        if now - self._printed >= PROGRESS_EVERY_S:
            self._printed, self._reported = now, self.messages
            print(json.dumps([self._ended_at, self.messages]), flush=True)

    def answer(self) -> dict[str, Any]:
        found: dict[str, Any] = {"messages": self.messages, "bytes": self.bytes}
        if not self._spec.shared:
            if self._begun is None:
                raise MessagesMissing("the client did not report its assignment")
            found["first_s"] = self._first - self._begun
            found["seconds"] = self._ended - self._begun
        return found

    def _wait_for_stop(self) -> None:
        sys.stdin.readline()
        self._stop.set()


class Paced:
    """Messages with their send time in the value, at an even pace, and when they came back."""

    def __init__(self, spec: Spec) -> None:
        self.count = int(spec.rate * (WARMING_S + spec.seconds))
        self._rest = bytes(spec.message_bytes - _SENT_AT.size)
        self._every_s = 1 / spec.rate
        self._warming = int(spec.rate * WARMING_S)
        self._took_ms: list[float] = []
        self._deadline = float("inf")

    def due(self) -> Iterator[float]:
        """Seconds until the next message is to be sent, for each of them."""
        start = time.perf_counter()
        for number in range(self.count):
            yield max(0.0, start + number * self._every_s - time.perf_counter())
        self._deadline = time.perf_counter() + CAME_WITHIN_S

    def value(self) -> bytes:
        return _SENT_AT.pack(time.perf_counter()) + self._rest

    def came(self, value: bytes) -> None:
        (sent,) = _SENT_AT.unpack_from(value)
        self._took_ms.append(1e3 * (time.perf_counter() - sent))

    @property
    def is_done(self) -> bool:
        """Raises MessagesMissing if the last ones do not come."""
        if len(self._took_ms) >= self.count:
            return True
        if time.perf_counter() > self._deadline:
            raise MessagesMissing(f"{len(self._took_ms)} of {self.count} messages came back")
        return False

    def answer(self) -> dict[str, Any]:
        counted = self._took_ms[self._warming :]
        cuts = quantiles(counted, n=100)
        return {"p50_ms": cuts[49], "p99_ms": cuts[98], "messages": len(counted)}


@contextmanager
def sending(
    paced: Paced, send: Callable[[bytes], object], flush: Callable[[], object]
) -> Iterator[threading.Event]:
    """A thread that sends paced messages once the event is set, and has ended after the block."""
    reading = threading.Event()

    def send_all() -> None:
        reading.wait()
        for pause in paced.due():
            time.sleep(pause)
            send(paced.value())
        flush()

    # A daemon: nobody sets the event if the consumer fails before.
    sender = threading.Thread(target=send_all, daemon=True)
    sender.start()
    yield reading
    sender.join()
