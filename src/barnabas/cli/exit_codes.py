"""How a command ends when it cannot do what was asked: one line for the user, and an exit code."""

from typing import Final

OK: Final = 0
FAILED: Final = 1  # the operation was tried, and failed
MISUSED: Final = 2  # the command line is wrong; nothing was tried
SIGNALLED: Final = 128  # plus the signal's number: 130 for Ctrl-C, 143 for SIGTERM
BROKEN_PIPE: Final = 141  # whoever read the output went away, as a C program ends on SIGPIPE


class CommandFailed(Exception):
    """Carries the one line that says what is wrong and what to do."""

    exit_code = FAILED


class Misused(CommandFailed):
    """What the user typed cannot be meant; nothing was tried."""

    exit_code = MISUSED


class Ended(Exception):
    """Whoever began the command, or reads what it prints, wants no more of it."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code
