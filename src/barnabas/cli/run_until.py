"""Command execution until it is done, a signal arrives, or its output is closed."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

from barnabas.cli.exit_codes import BROKEN_PIPE, SIGNALLED, CommandFailed, Ended

Result = TypeVar("Result")

_STOPPING: Final = (signal.SIGINT, signal.SIGTERM)
# Signals handled in a process of our own; empty where a command runs inside another program.
_taken: Final[list[int]] = []
_received: Final[list[int]] = []


def take_signals() -> None:
    """Raise KeyboardInterrupt on SIGINT and SIGTERM. Only for a process of our own."""
    for number in _STOPPING:
        signal.signal(number, _on_signal)
        _taken.append(number)


def _on_signal(number: int, frame: object) -> None:
    _received.append(number)
    raise KeyboardInterrupt


def signalled() -> int:
    """The exit code of a command ended by a signal; Ctrl-C's if the signal is unknown."""
    return SIGNALLED + next(iter(_received), signal.SIGINT)


def invoked(command: Callable[..., Result], *arguments: Any, **options: Any) -> Result:
    """Call `command`. Raises Ended with the exit code on a signal or a closed output."""
    try:
        result = command(*arguments, **options)
        sys.stdout.flush()
    except (KeyboardInterrupt, SystemError) as error:
        # The Kafka client raises SystemError when a signal interrupts one of its calls.
        if isinstance(error, SystemError) and not _received:
            raise
        # A second signal must not interrupt the closing of clients.
        for number in _taken:
            signal.signal(number, signal.SIG_IGN)
        raise Ended(signalled()) from None
    except OSError as error:
        # Buffered output must not fail again at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise Ended(BROKEN_PIPE) from None
        raise CommandFailed(f"{error.filename or 'output'}: {error.strerror}") from None
    return result
