"""Waiting for a condition, and the suspension of a process."""

import os
import signal
import time
from collections.abc import Callable
from typing import Final, TypeVar

from barnabas.znodes.zookeeper.zookeeper_server import wait_until_stopped

WITHIN_S: Final = 60.0
_LOOK_AGAIN_S: Final = 0.02

T = TypeVar("T")


def until(
    condition: Callable[[], T],
    what: str | Callable[[], str] = "the condition",
    within_s: float = WITHIN_S,
) -> T:
    """Return what `condition` returns once it is true; a failed request counts as not yet.

    A callable `what` is called only when the wait timed out.
    """
    deadline = time.monotonic() + within_s
    while True:
        try:
            if found := condition():
                return found
        except OSError:
            pass
        if time.monotonic() >= deadline:
            raise AssertionError(f"waited in vain for {what if isinstance(what, str) else what()}")
        time.sleep(_LOOK_AGAIN_S)


def suspend(pid: int) -> None:
    """Send SIGSTOP to a child process; return when all its threads have stopped."""
    os.kill(pid, signal.SIGSTOP)
    wait_until_stopped(pid)
