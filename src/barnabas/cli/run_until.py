"""Runs what was asked for until it is done, a signal comes, or nobody reads its output any more."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

from barnabas.cli.exit_codes import BROKEN_PIPE, SIGNALLED, CommandFailed, Ended

Result = TypeVar("Result")

_STOPPING: Final = (signal.SIGINT, signal.SIGTERM)
# Those of a process of our own; none, where a command is run in another's.
_taken: Final[list[int]] = []
_received: Final[list[int]] = []


def take_signals() -> None:
    """In a process of our own: both ways to stop are one."""
    for number in _STOPPING:
        signal.signal(number, _on_signal)
        _taken.append(number)


def _on_signal(number: int, frame: object) -> None:
    _received.append(number)
    raise KeyboardInterrupt


def signalled() -> int:
    """The exit code of what a signal has ended; Ctrl-C's, if nobody knows which."""
    return SIGNALLED + next(iter(_received), signal.SIGINT)


def invoked(command: Callable[..., Result], *arguments: Any, **options: Any) -> Result:
    """Call it; a signal or an output that is closed ends it with the exit code for that."""
    try:
        result = command(*arguments, **options)
        sys.stdout.flush()
    except (KeyboardInterrupt, SystemError) as error:
        # The Kafka client makes a SystemError of a signal that hits one of its calls.
        if isinstance(error, SystemError) and not _received:
            raise
        # One was enough: a second must not break in while clients are being closed.
        for number in _taken:
            signal.signal(number, signal.SIG_IGN)
        raise Ended(signalled()) from None
    except OSError as error:
        # What is still buffered must not fail again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise Ended(BROKEN_PIPE) from None
        raise CommandFailed(f"{error.filename or 'output'}: {error.strerror}") from None
    return result
