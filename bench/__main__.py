"""The command line of the bench: which sections run, how often, and where the figures go."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console

from bench.plan import FULL, SMOKE
from bench.report import machine, write_json
from bench.sections import SECTIONS, run


def chosen(only: str) -> list[str]:
    """The sections to run, in the order of the report. Raises BadParameter for an unknown name."""
    wanted = [name.strip() for name in only.split(",") if name.strip()] or list(SECTIONS)
    for name in wanted:
        if name not in SECTIONS:
            raise typer.BadParameter(f"no section {name!r}; there are: {', '.join(SECTIONS)}")
    return [name for name in SECTIONS if name in wanted]


def main(
    only: Annotated[str, typer.Option(help=f"Sections: {','.join(SECTIONS)}.")] = "",
    repeat: Annotated[int | None, typer.Option(min=1, help="Rounds of each measurement.")] = None,
    smoke: Annotated[bool, typer.Option(help="A few seconds, to see that it runs.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file too.")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where the data goes, up to 1 GB; deleted afterwards.")
    ] = None,
) -> None:
    """How fast Barnabas is on this machine, beside what the machine itself can do.

    Examples: python -m bench | python -m bench --only produce,fetch --repeat 9 --json figures.json
    """
    names = chosen(only)
    plan = SMOKE if smoke else FULL
    if repeat is not None:
        plan = replace(plan, repeat=repeat)
    facts, console = machine(), Console()
    console.print(", ".join(f"{name} {value}" for name, value in facts.items()), highlight=False)
    if smoke:
        console.print("Smoke run: too short for its figures to mean anything.", style="yellow")
    console.print()
    with TemporaryDirectory(prefix="barnabas-bench-", dir=folder) as data:
        outcome = run(names, plan, Path(data), console)
    if json is not None:
        write_json(json, facts, outcome.sections)
    if outcome.failures:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
