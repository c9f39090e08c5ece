"""The timeouts of a session with ZooKeeper, as tests pass them to `connect`."""

from typing import Final, TypedDict


class Timeouts(TypedDict):
    session_timeout_ms: int
    connection_timeout_ms: int


TIMEOUTS: Final[Timeouts] = {"session_timeout_ms": 6_000, "connection_timeout_ms": 10_000}
PATIENT: Final[Timeouts] = {"session_timeout_ms": 60_000, "connection_timeout_ms": 10_000}
