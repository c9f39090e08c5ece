"""The progress display of a pipeline: a live line on a terminal, a line now and then elsewhere."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from barnabas.base.clock import Stopwatch, machine_stopwatch

_A_SECOND: Final = 1_000_000_000
_LINE_EVERY_S: Final = 5


class PipelineProgress(NamedTuple):
    """`records` are processed and `lag` are still to process; a lag of None is unknown."""

    records: int
    lag: int | None
    note: str = ""


ShowProgress = Callable[[PipelineProgress], None]


class Rate:
    """Records per second: overall, and since the last call."""

    def __init__(self, stopwatch: Stopwatch = machine_stopwatch) -> None:
        self._stopwatch = stopwatch
        self._begin = self._last = stopwatch()
        self._records = 0

    def since_last(self, records: int) -> float:
        """The rate since the last call, given the total number of records so far."""
        now = self._stopwatch()
        rate = (records - self._records) * _A_SECOND / max(1, now - self._last)
        self._last, self._records = now, records
        return max(0.0, rate)

    def overall(self, records: int) -> float:
        return records * _A_SECOND / max(1, self._stopwatch() - self._begin)

    @property
    def seconds(self) -> float:
        return (self._stopwatch() - self._begin) / _A_SECOND


def progress_line(progress: PipelineProgress, rate: float) -> str:
    """A line such as `12,000 records, 4,000/s, lag 100`."""
    parts = [f"{progress.records:,} records", f"{rate:,.0f}/s"]
    if progress.lag is not None:
        parts.append(f"lag {progress.lag:,}")
    if progress.note:
        parts.append(progress.note)
    return ", ".join(parts)


@contextmanager
def show_progress(what: str, stopwatch: Stopwatch = machine_stopwatch) -> Iterator[ShowProgress]:
    """Yield a function that displays progress. On a terminal the display vanishes at the end."""
    rate = Rate(stopwatch)
    if not sys.stderr.isatty():
        yield _LineProgress(what, rate, stopwatch).show
        return
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        # The first query starts Python workers and compiles its plan, which takes seconds.
        task = bar.add_task(f"{what}: starting the first query", total=None)

        def show(progress: PipelineProgress) -> None:
            total = None if progress.lag is None else progress.records + progress.lag
            line = f"{what}: {progress_line(progress, rate.since_last(progress.records))}"
            bar.update(task, completed=progress.records, total=total, description=line)

        yield show


@contextmanager
def show_status(what: str, stopwatch: Stopwatch = machine_stopwatch) -> Iterator[None]:
    """Show what the command is doing, on a terminal, and how long it took at the end."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    # A copy of stderr: the block may redirect its own.
    with os.fdopen(os.dup(2), "w") as terminal:
        console, begin = Console(file=terminal, force_terminal=True, highlight=False), stopwatch()
        with console.status(f"{what}..."):
            yield
        console.print(f"[dim]{what}: {(stopwatch() - begin) / _A_SECOND:.1f} s[/]")


class _LineProgress:
    """Prints a line at most every few seconds, and never the same one twice."""

    def __init__(self, what: str, rate: Rate, stopwatch: Stopwatch) -> None:
        self._what = what
        self._rate = rate
        self._stopwatch = stopwatch
        self._printed_at = stopwatch()
        self._last: PipelineProgress | None = None

    def show(self, progress: PipelineProgress) -> None:
        now = self._stopwatch()
        if progress == self._last or now - self._printed_at < _LINE_EVERY_S * _A_SECOND:
            return
        self._printed_at, self._last = now, progress
        line = progress_line(progress, self._rate.since_last(progress.records))
        print(f"{self._what}: {line}", file=sys.stderr, flush=True)
