"""The common part of Python drivers: spec, clock, progress, result, rate.

It imports nothing of Barnabas, so that a driver starts fast.
"""

import json
import struct
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
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
    """Some messages were not acknowledged or not received."""


@dataclass(frozen=True, slots=True)
class Spec:
    """The argument of a driver; the contract names the fields of each role."""

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
        """The partition of each message: round robin, or nine of ten times the first."""
        if not self.skew:
            return (number % self.partitions for number in range(self.messages))
        others = max(1, self.partitions - 1)
        return (
            0 if number % 10 else (1 + number // 10 % others) % self.partitions
            for number in range(self.messages)
        )


def main(roles: Mapping[str, Callable[[Spec], dict[str, Any]]]) -> None:
    """Run the role in the last argument and print its result."""
    given: dict[str, Any] = json.loads(sys.argv[-1])
    if given["role"] not in roles:
        sys.exit(f"unknown role {json.dumps(given['role'])}")
    known = {each.name for each in fields(Spec)}
    spec = Spec(**{key: value for key, value in given.items() if key in known})
    try:
        answer = roles[spec.role](spec)
    except MessagesMissing as problem:
        sys.exit(str(problem))
    print(json.dumps(answer), flush=True)


class Tally:
    """Messages received by a consumer since it was first assigned partitions."""

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

    def assigned(self, partitions: Collection[object]) -> None:
        """Start the clock on the first assignment that is not empty.

        kafka-python joins before it has the topic's metadata, and again when it has them: what lies
        between is up to its timers.
        """
        if self._begun is None and partitions:
            self._begun = time.perf_counter()

    def add(self, messages: int, size: int) -> None:
        """Count the messages of a poll."""
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
    """Messages with their send time in the value, sent at a steady rate, and their latencies."""

    def __init__(self, spec: Spec) -> None:
        self.count = int(spec.rate * (WARMING_S + spec.seconds))
        self._rest = bytes(spec.message_bytes - _SENT_AT.size)
        self._every_s = 1 / spec.rate
        self._warming = int(spec.rate * WARMING_S)
        self._took_ms: list[float] = []
        self._deadline = float("inf")

    def due(self) -> Iterator[float]:
        """For each message, the seconds until it is due."""
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
        """The result. Raises MessagesMissing if messages do not arrive."""
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
    """A thread that sends messages once the event is set, and ends with the block."""
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
