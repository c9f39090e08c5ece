"""Counts of what a broker does at once for transactions, where partitions have a sole replica.

Elsewhere a request waits for replicas, in a task of its own; a seed with sole replicas is to take
the path without any wait.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from barnabas.base.errors import ErrorCode
from barnabas.server.broker import Broker

ADDED: Final = "AddPartitionsToTxn answered at once"
ENDED: Final = "EndTxn answered at once"
MARKED: Final = "end marker written at once"


def count_at_once(broker: Broker, visited: Counter[str]) -> None:
    """Count from now on, for as long as the broker runs."""
    _count(broker.transactions, "add_at_once", ADDED, visited)
    _count(broker.transactions, "end_at_once", ENDED, visited)
    _count(broker.markers, "write_at_once", MARKED, visited)


def _count(part: object, name: str, what: str, visited: Counter[str]) -> None:
    act: Callable[..., ErrorCode | None] = getattr(part, name)

    def counted(*given: Any) -> ErrorCode | None:
        code = act(*given)
        if code is ErrorCode.none:
            visited[what] += 1
        elif code is not None:  # None: it was left to those who can wait
            visited[f"{what}, refused"] += 1
        return code

    setattr(part, name, counted)
