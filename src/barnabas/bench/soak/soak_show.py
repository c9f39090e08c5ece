"""The result of a soak on the terminal, as Markdown, JSON and a picture."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from barnabas.bench.attacks.limits_document import without_nan
from barnabas.bench.bench_report import in_one_line
from barnabas.bench.compare.compare_show import saved
from barnabas.bench.soak.soak_run import Soak
from barnabas.bench.soak.soak_verdict import MEASURES, SoakTrend

HEADS: Final = ("broker", "measure", "level", "growth", "allowed", "verdict")
FLAT: Final = "flat"
GROWS: Final = "GROWS"
_COLOURS: Final = ("#1f77b4", "#2f8f4e", "#c0392b")


def verdict(found: Soak) -> str:
    """The verdict in one line."""
    if not found.trends:
        return "No verdict: the run is too short."
    if found.missing:
        return f"No verdict: parts of the load never happened: {', '.join(found.missing)}."
    growing = [each for each in found.trends if not each.is_flat]
    since = f"from minute {found.steady_from_s / 60:g} on"
    if not growing:
        return f"Flat {since}: memory, descriptors, threads and latency of every broker."
    names = ", ".join(f"broker {each.broker} {each.measure.unit}" for each in growing)
    return f"Growing {since}: {names}."


def cells(trend: SoakTrend) -> list[str]:
    return [
        str(trend.broker),
        trend.measure.unit,
        f"{trend.level:.1f}",
        f"{trend.growth:+.1f}",
        f"{trend.allowed:.1f}",
        FLAT if trend.is_flat else GROWS,
    ]


def did(found: Soak) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in found.counts.items())


def show(console: Console, found: Soak) -> None:
    table = Table(title=f"Soak of {found.minutes:g} minutes", title_justify="left")
    for head in HEADS:
        table.add_column(head, justify="left" if head in ("measure", "verdict") else "right")
    for trend in found.trends:
        table.add_row(*cells(trend), style="" if trend.is_flat else "red")
    console.print(table)
    console.print(did(found), highlight=False)
    console.print(verdict(found), highlight=False)


def as_markdown(found: Soak, facts: Mapping[str, str | int]) -> str:
    rows = [HEADS, ["---"] * len(HEADS), *map(cells, found.trends)]
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    title = f"# Soak of {found.minutes:g} minutes"
    return f"{title}\n\n{in_one_line(facts)}\n\n{verdict(found)}\n\n{did(found)}\n\n{table}"


def as_json(found: Soak, facts: Mapping[str, str | int]) -> str:
    content = {"machine": dict(facts), "is_flat": found.is_flat, **asdict(found)}
    return json.dumps(without_nan(content), indent=1) + "\n"


def draw(found: Soak) -> dict[str, bytes]:
    """The samples over time, a line per broker; nothing without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return {}
    figure = Figure(figsize=(9, 9), layout="constrained")
    for axes, measure in zip(figure.subplots(len(MEASURES), sharex=True), MEASURES, strict=True):
        for broker in sorted({each.broker for each in found.samples}):
            some = [each for each in found.samples if each.broker == broker]
            axes.plot(
                [each.at_s / 60 for each in some],
                [measure.scale * getattr(each, measure.key) for each in some],
                label=f"broker {broker}",
                color=_COLOURS[broker % len(_COLOURS)],
                linewidth=1,
            )
        axes.axvline(found.steady_from_s / 60, color="black", linewidth=0.8, linestyle=":")
        axes.set_ylabel(measure.unit)
        axes.set_ylim(bottom=0)
    figure.axes[0].legend(loc="lower right")
    figure.axes[0].set_title(verdict(found))
    figure.axes[-1].set_xlabel("minutes; dotted: judged from here on")
    return saved(figure)


def write(found: Soak, facts: Mapping[str, str | int], folder: Path) -> list[Path]:
    """Write `soak.json`, `.md` and, with matplotlib, `.png` into the directory."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {".json": as_json(found, facts).encode(), ".md": as_markdown(found, facts).encode()}
    if picture := draw(found).get("png"):
        written[".png"] = picture
    for ending, content in written.items():
        (folder / f"soak{ending}").write_bytes(content)
    return [folder / f"soak{ending}" for ending in written]
