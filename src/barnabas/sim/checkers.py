"""Judges a run: whether a history, and what is there at its end, keep every promise."""

from collections.abc import Iterator

from barnabas.sim.checkers_groups import check_groups
from barnabas.sim.checkers_log import check_log
from barnabas.sim.checkers_replicas import check_replicas
from barnabas.sim.checkers_topics import check_topics
from barnabas.sim.history import History
from barnabas.sim.violations import Final, Kind, Violation

__all__ = ["check"]

# A broker answers so only where something failed that it did not think of.
_UNTHOUGHT = "unknown_server_error"


def check(history: History, final: Final) -> list[Violation]:
    """Every promise that was broken, the same for the same history; empty if all were kept."""
    return [
        *check_log(history, final),
        *check_replicas(final),
        *check_topics(history, final),
        *check_groups(history),
        *_check_errors(history),
    ]


def _check_errors(history: History) -> Iterator[Violation]:
    for operation in history.operations:
        if operation.why == _UNTHOUGHT:
            yield Violation(Kind.UNEXPECTED, str(operation))
