"""How far a pipeline is: a line that moves on a terminal, now and then a line elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from barnabas.base.clock import Stopwatch, machine_stopwatch

_A_SECOND: Final = 1_000_000_000
_LINE_EVERY_S: Final = 5


class Progress(NamedTuple):
    """`records` are done, `lag` are there and not yet done; None if nobody knows."""

    records: int
    lag: int | None
    note: str = ""


Show = Callable[[Progress], None]


class Rate:
    """Records a second, over all and since the last look."""

    def __init__(self, stopwatch: Stopwatch = machine_stopwatch) -> None:
        self._stopwatch = stopwatch
        self._begin = self._last = stopwatch()
        self._records = 0

    def seen(self, records: int) -> float:
        """The rate since the last call, in which `records` in all had been seen."""
        now = self._stopwatch()
        rate = (records - self._records) * _A_SECOND / max(1, now - self._last)
        self._last, self._records = now, records
        return max(0.0, rate)

    def overall(self, records: int) -> float:
        return records * _A_SECOND / max(1, self._stopwatch() - self._begin)

    @property
    def seconds(self) -> float:
        return (self._stopwatch() - self._begin) / _A_SECOND


def words(progress: Progress, rate: float) -> str:
    """`12,000 records, 4,000/s, 100 behind`."""
    said = [f"{progress.records:,} records", f"{rate:,.0f}/s"]
    if progress.lag is not None:
        said.append(f"{progress.lag:,} behind" if progress.lag else "nothing behind")
    return ", ".join([*said, *([progress.note] if progress.note else [])])


@contextmanager
def shown(what: str, stopwatch: Stopwatch = machine_stopwatch) -> Iterator[Show]:
    """Gives a function that is told how far it is; on a terminal nothing of it stays."""
    rate = Rate(stopwatch)
    if not sys.stderr.isatty():
        yield _Lines(what, rate, stopwatch).show
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
        task = bar.add_task(what, total=None)

        def show(progress: Progress) -> None:
            total = None if progress.lag is None else progress.records + progress.lag
            said = f"{what}: {words(progress, rate.seen(progress.records))}"
            bar.update(task, completed=progress.records, total=total, description=said)

        yield show


class _Lines:
    """Says how far it is only now and then, and never the same twice."""

    def __init__(self, what: str, rate: Rate, stopwatch: Stopwatch) -> None:
        self._what = what
        self._rate = rate
        self._stopwatch = stopwatch
        self._said_at = stopwatch()
        self._last: Progress | None = None

    def show(self, progress: Progress) -> None:
        now = self._stopwatch()
        if progress == self._last or now - self._said_at < _LINE_EVERY_S * _A_SECOND:
            return
        self._said_at, self._last = now, progress
        said = words(progress, self._rate.seen(progress.records))
        print(f"{self._what}: {said}", file=sys.stderr, flush=True)
