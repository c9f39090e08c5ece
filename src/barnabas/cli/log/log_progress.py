"""A progress bar for reading large files, on a terminal only."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_WORTH_A_BAR: Final = 64 * 1024 * 1024
# Small enough for smooth progress, large enough to cost nothing.
_STEP: Final = 4 * 1024 * 1024


@contextmanager
def reading_progress(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of bytes just read."""
    if total < _WORTH_A_BAR or not sys.stderr.isatty():
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task, waiting = bar.add_task(what, total=total), 0

        def advance(size: int) -> None:
            nonlocal waiting
            waiting += size
            if waiting >= _STEP:
                bar.advance(task, waiting)
                waiting = 0

        yield advance
