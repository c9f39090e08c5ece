"""The verdict on a run: all checkers over its history and final state."""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from barnabas.sim.checkers.group_checkers import check_groups
from barnabas.sim.checkers.history import OperationHistory
from barnabas.sim.checkers.log_checkers import check_log
from barnabas.sim.checkers.replica_checkers import check_replicas
from barnabas.sim.checkers.topic_checkers import check_topics
from barnabas.sim.checkers.transaction_checkers import check_transactions
from barnabas.sim.checkers.violations import FinalState, Violation, ViolationKind

__all__ = ["check"]

MOST_OF_A_KIND: Final = 3
# A broker returns this error only for a failure it does not handle.
_UNTHOUGHT = "unknown_server_error"


def check(history: OperationHistory, final: FinalState) -> list[Violation]:
    """Every violation, in a deterministic order; empty if there is none.

    Lists only a few of each kind, and the number of the others.
    """
    found: dict[ViolationKind, list[Violation]] = {}
    for violation in chain(
        check_log(history, final),
        check_replicas(final),
        check_topics(history, final),
        check_groups(history),
        check_transactions(history, final),
        _check_errors(history),
    ):
        found.setdefault(violation.kind, []).append(violation)
    return [each for kind, all_of_it in found.items() for each in _shortened(kind, all_of_it)]


def _shortened(kind: ViolationKind, found: list[Violation]) -> list[Violation]:
    if len(found) <= MOST_OF_A_KIND:
        return found
    return [
        *found[:MOST_OF_A_KIND],
        Violation(kind, f"and {len(found) - MOST_OF_A_KIND} more of this kind"),
    ]


def _check_errors(history: OperationHistory) -> Iterator[Violation]:
    for operation in history.operations:
        if operation.why == _UNTHOUGHT:
            yield Violation(ViolationKind.UNEXPECTED, str(operation))
