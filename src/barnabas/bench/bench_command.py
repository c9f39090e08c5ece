"""`barnabas bench`: sections, rounds and output.

Measurements are imported on use, so that `barnabas --help` stays fast.
"""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer

from barnabas.bench.attacks.limits_command import limits
from barnabas.bench.bench_guard import guard
from barnabas.bench.bench_options import FOLDER
from barnabas.bench.bench_plan import FULL, SMOKE
from barnabas.bench.compare.compare_command import compare
from barnabas.bench.soak.soak_command import soak
from barnabas.cli.subcommands import PlainGroup

NAMES: Final = (
    "raw",
    "produce",
    "fetch",
    "sessions",
    "clients",
    "latency",
    "idle",
    "subscribed",
    "log",
    "timers",
    "replication",
    "failover",
    "restart",
    "growth",
    "groups",
    "spark",
    "sinks",
    "tables",
)
STDOUT: Final = Path("-")

app = typer.Typer(cls=PlainGroup, add_completion=False, rich_markup_mode=None)
app.command()(compare)
app.command()(guard)
app.command()(limits)
app.command()(soak)


def chosen(only: str) -> list[str]:
    """The sections to run, in report order. Raises BadParameter for an unknown name."""
    wanted = [name.strip() for name in only.split(",") if name.strip()] or list(NAMES)
    for name in wanted:
        if name not in NAMES:
            raise typer.BadParameter(f"unknown section {name!r}; expected {', '.join(NAMES)}")
    return [name for name in NAMES if name in wanted]


def counts(option: str, text: str) -> tuple[int, ...]:
    """Numbers with commas between them. Raises BadParameter."""
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(f"{option}: {text!r} is not a list of numbers")
    return tuple(map(int, parts))


@app.callback(invoke_without_command=True)
def bench(
    ctx: typer.Context,
    only: Annotated[str, typer.Option(help=f"Sections: {','.join(NAMES)}.")] = "",
    repeat: Annotated[int | None, typer.Option(min=1, help="Rounds per measurement.")] = None,
    smoke: Annotated[bool, typer.Option(help="A smoke run of a few seconds.")] = False,
    partitions: Annotated[
        str, typer.Option(help="Partitions of the section growth, such as 100,1000,100000.")
    ] = "",
    rows: Annotated[
        str, typer.Option(help="Rows of the section tables, such as 1000000,100000000.")
    ] = "",
    json: Annotated[
        Path | None, typer.Option(help="Also write the figures to this file; - for stdout.")
    ] = None,
    folder: Annotated[Path | None, FOLDER] = None,
) -> None:
    """Measure Barnabas, compared with the limits of this machine.

    \b
    Examples:
      barnabas bench
      barnabas bench --only produce,fetch --repeat 9 --json figures.json
    """
    if ctx.invoked_subcommand is not None:
        return
    measure(only, repeat, smoke, json, folder, partitions, rows)


def measure(
    only: str,
    repeat: int | None,
    smoke: bool,
    json: Path | None,
    folder: Path | None,
    partitions: str = "",
    rows: str = "",
) -> None:
    """Run the sections and print them. Raises Exit(1) if a response was wrong."""
    names = chosen(only)
    plan = SMOKE if smoke else FULL
    if repeat is not None:
        plan = replace(plan, repeat=repeat)
    if partitions:
        plan = replace(plan, growth_partitions=counts("--partitions", partitions))
    if rows:
        plan = replace(plan, table_rows=counts("--rows", rows))
    from rich.console import Console

    from barnabas.bench.bench_report import as_json, in_one_line, machine
    from barnabas.bench.sections import run

    facts, console = machine(), Console(stderr=json == STDOUT)
    console.print(in_one_line(facts), highlight=False)
    if smoke:
        console.print("Smoke run: too short for meaningful figures.", style="yellow")
    console.print()
    with TemporaryDirectory(prefix="barnabas-bench-", dir=folder) as data:
        outcome = run(names, plan, Path(data), console)
    if json is not None:
        text = as_json(facts, outcome.sections)
        typer.echo(text, nl=False) if json == STDOUT else json.write_text(text)
    if outcome.failures:
        raise typer.Exit(1)
