"""Judges a run: whether a history, and what is there at its end, keep every promise."""

from collections.abc import Iterator
from itertools import chain
from typing import Final as Constant

from barnabas.sim.checkers.group_checkers import check_groups
from barnabas.sim.checkers.history import History
from barnabas.sim.checkers.log_checkers import check_log
from barnabas.sim.checkers.replica_checkers import check_replicas
from barnabas.sim.checkers.topic_checkers import check_topics
from barnabas.sim.checkers.violations import Final, Kind, Violation

__all__ = ["check"]

MOST_OF_A_KIND: Constant = 3
# A broker answers so only where something failed that it did not think of.
_UNTHOUGHT = "unknown_server_error"


def check(history: History, final: Final) -> list[Violation]:
    """Every promise that was broken, the same for the same history; empty if all were kept.

    Of each kind no more than a few, with how many more there are.
    """
    found: dict[Kind, list[Violation]] = {}
    for violation in chain(
        check_log(history, final),
        check_replicas(final),
        check_topics(history, final),
        check_groups(history),
        _check_errors(history),
    ):
        found.setdefault(violation.kind, []).append(violation)
    return [each for kind, all_of_it in found.items() for each in _shortened(kind, all_of_it)]


def _shortened(kind: Kind, found: list[Violation]) -> list[Violation]:
    if len(found) <= MOST_OF_A_KIND:
        return found
    return [
        *found[:MOST_OF_A_KIND],
        Violation(kind, f"and {len(found) - MOST_OF_A_KIND} more of this kind"),
    ]


def _check_errors(history: History) -> Iterator[Violation]:
    for operation in history.operations:
        if operation.why == _UNTHOUGHT:
            yield Violation(Kind.UNEXPECTED, str(operation))
