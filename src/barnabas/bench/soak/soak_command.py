"""`barnabas bench soak`: a cluster under load, and whether anything in it grows."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from barnabas.bench.bench_options import FOLDER
from barnabas.bench.compare.compare_command import RESULTS, WIDTH
from barnabas.bench.compare.signals import uninterrupted

if TYPE_CHECKING:
    from rich.console import Console

    from barnabas.bench.bench_plan import Say

MINUTES: Final = 60.0
FEWEST_MINUTES: Final = 10.0
PRINTED_EVERY_S: Final = 30.0
NOTHING_WRITTEN: Final = (
    f"Nothing is written: bench/results is for runs of {FEWEST_MINUTES:g} minutes and more,"
    " --results for others."
)
INTERRUPTED: Final = "Interrupted: the verdict is on the samples so far."


def soak(
    minutes: Annotated[float, typer.Option(min=0.1, help="Length of the run.")] = MINUTES,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Directory for soak.md, soak.json and soak.png; bench/results for runs of ten"
            " minutes and more."
        ),
    ] = None,
    folder: Annotated[Path | None, FOLDER] = None,
) -> None:
    """Run three brokers under load, and judge if memory, descriptors, threads or latency grow.

    The load: records, a group that a member joins and leaves, compaction, retention, topics that
    come and go. The first ten minutes of an hour, and the first three of ten, are not judged. The
    command fails if something grows.

    \b
    Examples:
      barnabas bench soak
      barnabas bench soak --minutes 10
    """
    from rich.console import Console

    from barnabas.base.errors import ConfigError
    from barnabas.bench.bench_report import hot_path, in_one_line, machine, revision
    from barnabas.bench.server_processes import HAS_PROC, ServerFailed
    from barnabas.bench.soak import soak_run, soak_show
    from barnabas.cli.exit_codes import CommandFailed

    if not HAS_PROC:
        raise CommandFailed("bench soak needs /proc for the memory of brokers")
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    facts = {**machine(), "Barnabas": revision(), "hot path": hot_path()}
    console.print(in_one_line(facts), highlight=False)
    # Print the verdict before a signal ends the command, even one that ended the run.
    with uninterrupted(), TemporaryDirectory(prefix="barnabas-soak-", dir=folder) as data:
        try:
            with _progress(console) as say:
                found = soak_run.soak(minutes, Path(data), say)
        except (ConfigError, ServerFailed) as problem:
            raise CommandFailed(f"the cluster does not start: {problem}") from None
        soak_show.show(console, found)
        is_whole = minutes >= FEWEST_MINUTES and not found.interrupted
        into = results or (RESULTS if is_whole else None)
        written = soak_show.write(found, facts, into) if into else []
        told = "written: " + ", ".join(map(str, written)) if written else NOTHING_WRITTEN
        console.print(INTERRUPTED if found.interrupted else told, highlight=False)
    if found.interrupted:
        raise KeyboardInterrupt
    if found.trends and not found.is_flat:
        raise typer.Exit(1)


@contextmanager
def _progress(console: "Console") -> "Iterator[Say]":
    """One changing line on a terminal; elsewhere a line every half minute."""
    if console.is_terminal:
        with console.status("starting three brokers") as status:
            yield status.update
        return
    printed = float("-inf")

    def say(text: str) -> None:
        nonlocal printed
        if time.perf_counter() - printed >= PRINTED_EVERY_S:
            printed = time.perf_counter()
            console.print(text, highlight=False)

    yield say
