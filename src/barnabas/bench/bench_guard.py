"""`barnabas bench guard`: fails when a ratio to the machine's limit has fallen by a third.

It compares ratios, not speeds: both sides of a ratio are measured in this run, and the ratio is
compared with the recorded one. A ratio that has fallen is measured again before it counts, since
a busy machine can lower it, too.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from barnabas.bench.bench_options import FOLDER
from barnabas.bench.bench_plan import SMOKE, BenchPlan

if TYPE_CHECKING:
    from rich.console import Console

    from barnabas.bench.bench_report import Section

RECORDED: Final = Path("bench/recorded.json")
SECTIONS: Final = ("produce", "fetch", "sessions", "log")
LEAST_SHARE: Final = 2 / 3
PLAN: Final = replace(
    SMOKE,
    repeat=5,
    run_seconds=0.25,
    run_bytes=60_000_000,
    produce_sizes=(1024, 15 * 1024, 16 * 1024),
    fetch_sizes=(16 * 1024, 128 * 1024),
    fetch_log_bytes=32_000_000,
    settle_seconds=2.5,
    log_bytes=16 * 1024 * 1024,
)
# Of the log section, only rows compared with a plain file; its other rows are times.
_GUARDED: Final = re.compile(r"(produce|fetch|sessions)|log .*(append|read on)")

Ratios = dict[str, float]


def guard(
    record: Annotated[bool, typer.Option(help="Record the ratios of this run.")] = False,
    recorded: Annotated[Path, typer.Option(help="File of the recorded ratios.")] = RECORDED,
    folder: Annotated[Path | None, FOLDER] = None,
) -> None:
    """Check for slowdowns, by ratios to this machine's limits; takes under two minutes.

    Exit code 1 if a ratio fell by more than a third from the recorded one.
    """
    from rich.console import Console

    from barnabas.bench.bench_report import hot_path

    console, kind = Console(), hot_path()
    book: dict[str, Ratios] = json.loads(recorded.read_text()) if recorded.exists() else {}
    now = _measured(SECTIONS, PLAN, folder, console)
    if record:
        recorded.parent.mkdir(parents=True, exist_ok=True)
        book[kind] = {name: round(ratio, 3) for name, ratio in now.items()}
        recorded.write_text(json.dumps(book, indent=2, sort_keys=True) + "\n")
        console.print(f"recorded: {recorded} ({kind})")
        return
    if kind not in book:
        console.print(f"no recorded ratios for {kind} in {recorded}; record them with --record")
        raise typer.Exit(1)
    fell = fallen(book[kind], now)
    if fell:
        console.print(f"measuring again: {', '.join(fell)}", highlight=False)
        again = sorted({name.split(" ", 1)[0] for name in fell})
        now = better(now, _measured(again, PLAN, folder, console))
        fell = fallen(book[kind], now)
    _show(console, book[kind], now)
    console.print(
        f"{len(book[kind]) - len(fell)} of {len(book[kind])} ratios are as recorded or at most a"
        " third below"
    )
    if fell:
        raise typer.Exit(1)


def _show(console: "Console", recorded: Mapping[str, float], now: Mapping[str, float]) -> None:
    from rich.table import Table

    table = Table(title="Ratios to this machine's limits", title_justify="left")
    table.add_column("")
    for head in ("now", "recorded", "now to recorded"):
        table.add_column(head, justify="right")
    fell = fallen(recorded, now)
    for name, before in recorded.items():
        ratio = now.get(name, 0.0)
        style = "red" if name in fell else "green"
        share = f"{ratio / before:.2f}" if before else ""
        table.add_row(name, f"{ratio:.2f}", f"{before:.2f}", share, style=style)
    for name in (each for each in now if each not in recorded):
        table.add_row(name, f"{now[name]:.2f}", "not recorded", "")
    console.print(table)


def fallen(recorded: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    """Recorded ratios that are missing now, or lower by more than a third."""
    return [name for name, ratio in recorded.items() if now.get(name, 0.0) < LEAST_SHARE * ratio]


def better(first: Mapping[str, float], second: Mapping[str, float]) -> Ratios:
    """The better of two runs for each row."""
    return {name: max(ratio, second.get(name, 0.0)) for name, ratio in first.items()} | {
        name: ratio for name, ratio in second.items() if name not in first
    }


def ratios(sections: "Iterable[Section]") -> Ratios:
    """The guarded rows of a report, by section and name without varying parts."""
    found: Ratios = {}
    for section in sections:
        for row in section.rows:
            name = f"{section.key} {re.sub(r' [(].*[)]', '', row.name)}"
            if row.ratio is not None and _GUARDED.match(name):
                found[name] = row.ratio
    return found


def _measured(
    names: Iterable[str], plan: BenchPlan, folder: Path | None, console: "Console"
) -> Ratios:
    from barnabas.bench.sections import run

    with TemporaryDirectory(prefix="barnabas-guard-", dir=folder) as data:
        outcome = run(list(names), plan, Path(data), console, goals=False)
    if outcome.failures:
        raise typer.Exit(1)
    return ratios(outcome.sections)
