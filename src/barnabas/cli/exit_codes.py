"""Exit codes, and the exceptions that end a command with one line on stderr."""

import os
import shutil
import sys
from typing import Final

OK: Final = 0
FAILED: Final = 1  # the operation failed
MISUSED: Final = 2  # usage error; nothing was attempted
SIGNALLED: Final = 128  # plus the signal number: 130 for Ctrl-C, 143 for SIGTERM
BROKEN_PIPE: Final = 141  # the reader closed the output, as SIGPIPE ends a C program


class CommandFailed(Exception):
    """The operation failed; the message says what is wrong and what to do, in one line."""

    exit_code = FAILED


class Misused(CommandFailed):
    """The command line is wrong; nothing was attempted."""

    exit_code = MISUSED


class Ended(Exception):
    """A signal or a closed output ended the command."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


def program() -> str:
    """The name of this program in hints: its path if the shell does not find it otherwise."""
    started = sys.argv[0]
    if os.path.basename(started) == "barnabas" and shutil.which("barnabas") is None:
        return started
    return "barnabas"
