"""One finding of the doctor: what is wrong or unknown, where, and what to do about it."""

from typing import Final, NamedTuple

PROBLEM: Final = "problem"  # something fails, or will
WARNING: Final = "warning"  # something may be meant so
UNCHECKED: Final = "unchecked"  # this could not be checked
LEVELS: Final = (PROBLEM, WARNING, UNCHECKED)


class Finding(NamedTuple):
    """The finding of one check; `check` names the check in scripts."""

    level: str
    check: str
    what: str
    todo: str


def problem(check: str, what: str, todo: str) -> Finding:
    return Finding(PROBLEM, check, what, todo)


def warning(check: str, what: str, todo: str) -> Finding:
    return Finding(WARNING, check, what, todo)


def unchecked(check: str, what: str, todo: str) -> Finding:
    return Finding(UNCHECKED, check, what, todo)


def first_of(names: list[str], most: int = 5) -> str:
    """`a, b, c and 4 more`."""
    rest = f" and {len(names) - most} more" if names[most:] else ""
    return ", ".join(names[:most]) + rest
