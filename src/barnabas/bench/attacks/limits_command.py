"""`barnabas bench limits`: attacks on Barnabas and on Apache Kafka, and what they cost."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from barnabas.bench.bench_options import FOLDER
from barnabas.bench.compare.compare_command import WIDTH, progress
from barnabas.bench.compare.signals import uninterrupted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from barnabas.bench.attacks.attack import Attack
    from barnabas.bench.attacks.attack_run import Systems
    from barnabas.bench.attacks.attack_table import LimitsRow, LimitsTable

FIGURES: Final = Path("bench/results/limits.json")
DOCUMENT: Final = Path("docs/limits.md")
NOTHING_WRITTEN: Final = (
    "Nothing is written: docs/limits.md is for whole runs of all attacks, --results for others."
)
INTERRUPTED: Final = "Interrupted: these are the rows so far."


def limits(
    only: Annotated[
        str,
        typer.Option(
            help="Attacks with one of these words in their name: batch, bomb, announced, sizes,"
            " arrays, at once, client ids, groups, assigned, auto-create, fetch sessions, connect,"
            " idle, stall, drip, half closed, protocols, never read, old produce, old fetch,"
            " partitions, killed."
        ),
    ] = "",
    quick: Annotated[bool, typer.Option(help="Small attacks, in a few minutes.")] = False,
    kafka: Annotated[bool, typer.Option(help="Attack Apache Kafka, too.")] = True,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Directory for limits.md and limits.json; for all attacks at full size they go to"
            " docs and bench/results, and nowhere for anything else."
        ),
    ] = None,
    folder: Annotated[Path | None, FOLDER] = None,
) -> None:
    """Attack a broker as hostile users do, and show its memory and the others' latency.

    Apache Kafka is attacked the same way; it is fetched from Maven Central once. All attacks take
    about half an hour.

    \b
    Examples:
      barnabas bench limits
      barnabas bench limits --only batch,connect
      barnabas bench limits --quick --no-kafka
    """
    from rich.console import Console

    from barnabas.bench.attacks.attack_table import chosen
    from barnabas.bench.server_processes import HAS_PROC
    from barnabas.cli.exit_codes import CommandFailed

    try:
        attacks = chosen([word.strip().lower() for word in only.split(",") if word.strip()])
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from None
    if not HAS_PROC:
        raise CommandFailed("bench limits needs /proc for the memory of brokers")
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    is_whole = not only and not quick and kafka
    # Print and write the rows before a signal ends the command, even one that ended the run.
    with uninterrupted():
        table, facts, why = _attack(console, attacks, quick, kafka, folder)
        if table.interrupted:
            console.print(INTERRUPTED, highlight=False)
            facts["interrupted after"] = f"{len(table.rows)} of {len(attacks)} attacks"
        if results is not None:
            _write(console, table, facts, why, results / FIGURES.name, results / DOCUMENT.name)
        elif is_whole and not table.interrupted:
            _write(console, table, facts, why, FIGURES, DOCUMENT)
        else:
            console.print(NOTHING_WRITTEN, highlight=False)
    if table.interrupted:
        raise KeyboardInterrupt
    if table.failures:
        raise typer.Exit(1)


def _attack(
    console: "Console", attacks: "Sequence[Attack]", quick: bool, kafka: bool, folder: Path | None
) -> "tuple[LimitsTable, dict[str, str | int], str]":
    """The table, the facts on the machine, and why Apache Kafka is not in it."""
    from barnabas.bench.attacks.attack_run import FULL, QUICK
    from barnabas.bench.attacks.attack_table import run
    from barnabas.bench.attacks.limits_document import OURS, THEIRS, as_text
    from barnabas.bench.bench_report import hot_path, in_one_line, machine, revision
    from barnabas.bench.compare.compare_sites import apache_kafka, barnabas
    from barnabas.bench.compare.kafka_release import Unavailable, find_kafka

    facts = {**machine(), OURS: revision(), "hot path": hot_path()}
    facts["load average before"] = f"{os.getloadavg()[0]:.1f}"
    console.print(in_one_line(facts), highlight=False)
    found = find_kafka() if kafka else Unavailable("not asked for")
    systems: list[tuple[str, Systems]] = [(OURS, barnabas)]
    why = ""
    if isinstance(found, Unavailable):
        why = str(found)
        console.print(f"{THEIRS} is not attacked: {why}", highlight=False)
    else:
        release = found
        systems.append((THEIRS, lambda properties: apache_kafka(release, properties)))
    _raise_descriptor_limit()

    def show(row: "LimitsRow") -> None:
        console.print(as_text(row), highlight=False, markup=False)

    with (
        TemporaryDirectory(prefix="barnabas-limits-", dir=folder) as data,
        progress(console) as say,
    ):
        table = run(systems, attacks, QUICK if quick else FULL, Path(data), say, show)
    return table, facts, why


def _write(
    console: "Console",
    table: "LimitsTable",
    facts: dict[str, str | int],
    why: str,
    figures: Path,
    document: Path,
) -> None:
    from barnabas.bench.attacks.limits_document import write

    written = write(table, facts, why, figures, document)
    console.print("written: " + ", ".join(map(str, written)), highlight=False)


def _raise_descriptor_limit() -> None:
    """Attackers and brokers need a descriptor per connection."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
