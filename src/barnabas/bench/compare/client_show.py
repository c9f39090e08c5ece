"""The results of several clients: a table of ratios by client, and figures per client."""

import html
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from barnabas.bench.bench_report import in_one_line
from barnabas.bench.compare.compare_run import Compared, Comparison
from barnabas.bench.compare.compare_show import (
    Facts,
    cells,
    heads,
    how,
    html_rows,
    html_table,
    markdown_failures,
    markdown_table,
    page,
    save,
    saved,
    show_summary,
)
from barnabas.bench.compare.median_interval import Verdict

RATIOS: Final = (
    "Each client runs in its own process, with its defaults. A row is a kind of load, a"
    " column a client, and a cell the ratio of {ours} to {theirs}, with ✓ or ✗ where"
    " it meets or misses its goal: at least 1 for MB/s, at most 1 for latencies; and with ≈ where"
    " the two cannot be told apart. The client's CPU time has no goal: where it is equal, and the"
    " client is the limit, no broker can be faster. Apache Kafka in"
    " ZooKeeper mode has no KIP-848 groups: in that row its figure is of a classic group."
)
_MARKS: Final = {None: "", True: " ✓", False: " ✗"}
_COLOURS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b")


def by_client(found: Comparison) -> dict[str, list[Compared]]:
    """The rows of each client, in their order."""
    groups: dict[str, list[Compared]] = {}
    for row in found.rows:
        groups.setdefault(row.metric.client, []).append(row)
    return groups


def ratios(found: Comparison) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of the table of ratios; a cell is empty where a client has no such row."""
    clients = list(by_client(found))
    rows = [row for row in found.rows if not row.metric.detail]
    place = {(row.metric.name, row.metric.client): row for row in rows}
    names = list(dict.fromkeys(row.metric.name for row in rows))
    lines = [[name, *(_cell(place.get((name, client))) for client in clients)] for name in names]
    return ["", *clients], lines


def _cell(row: Compared | None) -> str:
    if row is None:
        return ""
    unsure = f" {row.verdict.value}" if row.verdict is Verdict.UNDECIDED else ""
    return f"{cells(row)[3]}{_MARKS[row.met]}{unsure}"


def show(console: Console, found: Comparison) -> None:
    head, lines = ratios(found)
    table = Table(title=_title(found), title_justify="left")
    for name in head:
        table.add_column(name, justify="right" if name else "left")
    for line in lines:
        table.add_row(*line)
    console.print(table)
    for client, rows in by_client(found).items():
        figures = Table(title=client, title_justify="left")
        for name in heads(found):
            figures.add_column(name, justify="left" if name in ("", "goal") else "right")
        for row in rows:
            figures.add_row(*cells(row))
        console.print(figures)
    show_summary(console, found)


def write(found: Comparison, facts: Facts, folder: Path) -> list[Path]:
    """Put `clients.json`, `.md`, `.html` and, with matplotlib, `.png` into the directory."""
    pages = partial(as_html, found, facts)
    return save(folder / "clients", found, facts, as_markdown(found, facts), pages, draw(found))


def as_markdown(found: Comparison, facts: Facts) -> str:
    parts = [
        f"# {_title(found)}\n",
        in_one_line(facts) + "\n",
        _how(found) + "\n",
        markdown_table(*ratios(found)) + markdown_failures(found),
    ]
    for client, rows in by_client(found).items():
        parts += [f"## {client}\n", markdown_table(heads(found), map(cells, rows))]
    return "\n".join(parts)


def as_html(found: Comparison, facts: Facts, picture: bytes) -> str:
    head, lines = ratios(found)
    tables = html_table(head, [("", line) for line in lines])
    for client, rows in by_client(found).items():
        tables += f"<h2>{html.escape(client)}</h2>{html_rows(found, rows)}"
    return page(_title(found), found, facts, _how(found), tables, picture)


def _title(found: Comparison) -> str:
    return f"{found.ours} beside {found.theirs}, by client"


def _how(found: Comparison) -> str:
    return f"{RATIOS.format(ours=found.ours, theirs=found.theirs)} {how(found)}"


def draw(found: Comparison) -> dict[str, bytes]:
    """The ratios as points, a colour for each client; nothing without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return {}
    rows = [row for row in reversed(found.rows) if not row.metric.detail]
    names = list(dict.fromkeys(row.metric.name for row in rows))
    figure = Figure(figsize=(10, 1.6 + 0.42 * len(names)), layout="constrained")
    axes = figure.subplots()
    groups = by_client(found)
    for number, (client, of_client) in enumerate(groups.items()):
        measured = [row for row in of_client if row.ratios and not row.metric.detail]
        shift = 0.6 * (0.5 - (number + 0.5) / len(groups))
        axes.errorbar(
            [row.ratio for row in measured],
            [names.index(row.metric.name) + shift for row in measured],
            xerr=_spread(measured),
            fmt="o",
            color=_COLOURS[number % len(_COLOURS)],
            markersize=4,
            capsize=1.5,
            label=client,
        )
    axes.set_yticks(range(len(names)), names)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8, linestyle=":")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_title(_title(found))
    axes.set_xlabel(
        "median of the rounds' ratios, with the lowest and highest; more is better,\n"
        "but for latencies less"
    )
    axes.legend(loc="best", fontsize="small")
    return saved(figure)


def _spread(rows: Sequence[Compared]) -> list[list[float]]:
    low = [row.ratio - min(row.ratios) for row in rows]
    return [low, [max(row.ratios) - row.ratio for row in rows]]
