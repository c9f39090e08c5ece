"""`barnabas bench compare`: Barnabas beside Apache Kafka, or any two clusters beside each other."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from rich.console import Console

RESULTS: Final = Path("bench/results")
AGAINST_LIMITS: Final = ("raw", "produce", "fetch", "clients", "latency", "idle")


def compare(
    bootstrap: Annotated[
        list[str] | None,
        typer.Option(help="A cluster that runs; given twice, one is set beside the other."),
    ] = None,
    only: Annotated[str, typer.Option(help="Cases with one of these words in their name.")] = "",
    full: Annotated[
        bool,
        typer.Option(help="All combinations, and 10,000 partitions: for hours."),
    ] = False,
    quick: Annotated[bool, typer.Option(help="Little of each, to see that it runs.")] = False,
    repeat: Annotated[int | None, typer.Option(min=1, help="Rounds of each case.")] = None,
    results: Annotated[Path, typer.Option(help="Where table, JSON, PNG and HTML go.")] = RESULTS,
    folder: Annotated[
        Path | None, typer.Option(help="Where the data goes; deleted afterwards.")
    ] = None,
) -> None:
    """Barnabas and Apache Kafka in turn, on this machine, with the same clients: ratios.

    Kafka is fetched from Maven Central once; where that cannot be, Barnabas is measured against
    the limits of the machine only.

    \b
    Examples:
      barnabas bench compare
      barnabas bench compare --only latency,start --repeat 7
      barnabas bench compare --bootstrap one:9092 --bootstrap other:9092
    """
    if bootstrap and len(bootstrap) != 2:
        raise typer.BadParameter("--bootstrap is given twice or not at all")
    from rich.console import Console

    from barnabas.bench.compare_cases import CASES, Effort
    from barnabas.bench.compare_run import compare as run
    from barnabas.bench.compare_show import NO_PICTURE, show, write
    from barnabas.bench.compare_sites import apache_kafka, barnabas, elsewhere
    from barnabas.bench.kafka_release import VERSION, Unavailable, find_kafka
    from barnabas.bench.report import machine

    console, facts = Console(), machine()
    console.print(", ".join(f"{name} {value}" for name, value in facts.items()), highlight=False)
    if bootstrap:
        ours, theirs = map(elsewhere, bootstrap)
    else:
        found = find_kafka()
        if isinstance(found, Unavailable):
            console.print(f"No Apache Kafka {VERSION} here ({found}): against raw limits only.")
            _against_limits(console, quick, folder)
            return
        ours, theirs = barnabas(), apache_kafka(found)
    cases = [
        case
        for case in CASES
        if (full or not case.full) and not (bootstrap and (case.local or case.fresh))
    ]
    cases = [case for case in cases if _is_wanted(case.key, only)]
    if not cases:
        raise typer.BadParameter(f"no case has any of {only!r} in its name")
    effort = Effort(1, 4_000_000, 1.0, 500) if quick else Effort(5, 200_000_000, 10.0, 50_000)
    if repeat is not None:
        effort = Effort(repeat, effort.total_bytes, effort.seconds, effort.requests)
    with (
        TemporaryDirectory(prefix="barnabas-compare-", dir=folder) as data,
        console.status("starting both") as status,
    ):
        outcome = run(ours, theirs, cases, effort, Path(data), status.update)
    show(console, outcome)
    written = write(outcome, facts, results)
    if not any(path.suffix == ".png" for path in written):
        console.print(NO_PICTURE)
    console.print("written: " + ", ".join(map(str, written)), highlight=False)
    if outcome.failures:
        raise typer.Exit(1)


def _is_wanted(key: str, only: str) -> bool:
    words: Sequence[str] = [word.strip() for word in only.split(",") if word.strip()]
    return not words or any(word in key for word in words)


def _against_limits(console: "Console", quick: bool, folder: Path | None) -> None:
    from barnabas.bench.plan import FULL, SMOKE
    from barnabas.bench.sections import run

    with TemporaryDirectory(prefix="barnabas-compare-", dir=folder) as data:
        outcome = run(AGAINST_LIMITS, SMOKE if quick else FULL, Path(data), console)
    if outcome.failures:
        raise typer.Exit(1)
