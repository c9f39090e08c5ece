"""Retries of a continuous table: a failure ends the command only if it lasts.

While brokers are restarted a partition may have no leader. A step that failed changed nothing, so
it can run again.
"""

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Final

from barnabas.base.clock import Stopwatch, machine_stopwatch
from barnabas.cli.exit_codes import CommandFailed

RETRIED_FOR_S: Final = 300
_A_SECOND: Final = 1_000_000_000


class Retries:
    """A context for each attempt. It suppresses CommandFailed for five minutes in a row.

    Each new failure is printed. One after which Spark does not answer is raised at once.
    """

    def __init__(
        self, spark_answers: Callable[[], bool], stopwatch: Stopwatch = machine_stopwatch
    ) -> None:
        self._spark_answers = spark_answers
        self._stopwatch = stopwatch
        self._failing_since: int | None = None
        self._printed = ""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if failure is None:
            self._failing_since, self._printed = None, ""
            return False
        if not isinstance(failure, CommandFailed):
            return False
        now = self._stopwatch()
        if self._failing_since is None:
            self._failing_since = now
        is_long = now - self._failing_since >= RETRIED_FOR_S * _A_SECOND
        if is_long or not self._spark_answers():
            return False
        if str(failure) != self._printed:
            self._printed = str(failure)
            print(f"{failure}; trying again", file=sys.stderr, flush=True)
        return True
