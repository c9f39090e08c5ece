"""The results of a comparison on the terminal, as Markdown, JSON, PNG and HTML."""

import html
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table

from barnabas.bench.bench_report import in_one_line
from barnabas.bench.compare.compare_run import Compared, Comparison
from barnabas.bench.compare.median_interval import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NO_PICTURE: Final = (
    "no picture: matplotlib is not installed; install it with `pip install matplotlib`"
)
HOW_TO_READ: Final = (
    "In each round both were measured one right after the other, which one first in turn. A ratio"
    " is what {ours} had in a round divided by what {theirs} had in it: above 1 is better for MB/s"
    " and requests, below 1 for seconds, memory and CPU time. Shown is the median of the rounds'"
    " ratios, with the lowest and the highest. The figures of each system are medians of its own"
    " rounds, so the ratio need not be one divided by the other. A goal is met (✓) or missed (✗) by"
    " the median; beside it stands how many rounds would have met it by themselves. Then comes the"
    " 95 % interval for the median of the pairs, which are the turns or the rounds of both systems"
    " one right after the other: all of it meets the goal (✓), none of it does (✗), or a part, so"
    " that the two cannot be told apart (≈)."
)
Facts = Mapping[str, str | int]
_STYLES: Final = {None: "", True: "green", False: "red"}
_KINDS: Final = {None: "", True: "met", False: "missed"}
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem }}
table {{ border-collapse: collapse; width: 100% }}
td, th {{ padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: right }}
td:first-child, th:first-child {{ text-align: left }}
.met {{ color: #17692f }} .missed {{ color: #a3241c }}
svg {{ max-width: 100%; height: auto }}
</style></head><body><h1>{title}</h1><p>{facts}</p><p>{how}</p>
{tables}{failures}{picture}</body></html>
"""


def cells(row: Compared) -> list[str]:
    """Name, ours, theirs, ratio with its spread, goal."""
    unit, ratios = row.metric.unit, row.ratios
    if not row.ours:
        return [row.metric.name, "", "", "not measured", _goal(row)]
    spread = f" ({min(ratios):.2f}-{max(ratios):.2f})" if len(ratios) > 1 else ""
    return [
        row.metric.name,
        f"{_number(median(row.ours))} {unit}",
        f"{_number(median(row.theirs))} {unit}",
        f"{row.ratio:.2f}{spread}" if ratios else "",
        _goal(row),
    ]


def _goal(row: Compared) -> str:
    if row.metric.goal is None:
        return ""
    mark = {None: "", True: "✓ ", False: "✗ "}[row.met]
    goal = f"{mark}{'≤' if row.metric.less else '≥'} {row.metric.goal:g}"
    # How sure that is: the ratio is the median of the rounds.
    goal = f"{goal}, {row.rounds_met} of {len(row.ratios)} rounds" if row.ratios else goal
    if row.verdict is None or row.interval is None:
        return goal
    low, high = row.interval
    return f"{goal}; {row.verdict.value} {low:.2f}-{high:.2f}, {len(row.pairs)} pairs"


def tally(found: Comparison) -> str:
    """How many goals are met, by the median and by the interval; empty without an interval."""
    rows = [row for row in found.rows if row.met is not None]
    verdicts = Counter(row.verdict for row in rows)
    if all(verdict is None for verdict in verdicts):
        return ""
    met = sum(row.met is True for row in rows)
    few = f"; {verdicts[None]} have too few pairs" if verdicts[None] else ""
    return (
        f"Of {len(rows)} goals {met} are met and {len(rows) - met} missed by the median. By the"
        f" interval {verdicts[Verdict.MET]} are met, {verdicts[Verdict.MISSED]} missed, and"
        f" {verdicts[Verdict.UNDECIDED]} cannot be told apart from their goal{few}."
    )


def heads(found: Comparison) -> list[str]:
    return ["", found.ours, found.theirs, "ratio (spread)", "goal"]


def show(console: Console, found: Comparison) -> None:
    table = Table(title=f"{found.ours} beside {found.theirs}", title_justify="left")
    for number, head in enumerate(heads(found)):
        table.add_column(head, justify="left" if number in (0, 4) else "right")
    for row in found.rows:
        table.add_row(*cells(row), style=_STYLES[row.met])
    console.print(table)
    show_summary(console, found)


def show_summary(console: Console, found: Comparison) -> None:
    if summary := tally(found):
        console.print(summary, highlight=False)
    for failure in found.failures:
        console.print(f"failed: {failure}", markup=False, highlight=False)


def write(found: Comparison, facts: Facts, folder: Path) -> list[Path]:
    """Write `compare.json`, `.md`, `.html` and, with matplotlib, `.png` into the directory."""
    page = partial(as_html, found, facts)
    return save(folder / "compare", found, facts, as_markdown(found, facts), page, draw(found))


def save(
    stem: Path,
    found: Comparison,
    facts: Facts,
    markdown: str,
    page: Callable[[bytes], str],
    pictures: Mapping[str, bytes],
) -> list[Path]:
    """Write the files of that name; the HTML page includes the picture."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    written = {
        ".json": as_json(found, facts).encode(),
        ".md": markdown.encode(),
        ".html": page(pictures.get("svg", b"")).encode(),
    }
    if "png" in pictures:
        written[".png"] = pictures["png"]
    for ending, content in written.items():
        stem.with_suffix(ending).write_bytes(content)
    return [stem.with_suffix(ending) for ending in written]


def as_json(found: Comparison, facts: Facts) -> str:
    rows = [
        {
            "name": row.metric.name,
            **({"client": row.metric.client} if row.metric.client else {}),
            "unit": row.metric.unit,
            "less_is_better": row.metric.less,
            "goal": row.metric.goal,
            "met": row.met,
            "verdict": row.verdict.name.lower() if row.verdict else None,
            "interval": row.interval,
            "ours": row.ours,
            "theirs": row.theirs,
            "ratios": row.ratios,
            "pairs": row.pairs,
        }
        for row in found.rows
    ]
    content = {"machine": dict(facts), "ours": found.ours, "theirs": found.theirs, "rows": rows}
    return (
        json.dumps(
            {**content, "failures": list(found.failures), "interrupted": found.interrupted},
            indent=2,
        )
        + "\n"
    )


def as_markdown(found: Comparison, facts: Facts) -> str:
    table = markdown_table(heads(found), map(cells, found.rows))
    title = f"# {found.ours} beside {found.theirs}"
    return f"{title}\n\n{in_one_line(facts)}\n\n{how(found)}\n\n{table}{markdown_failures(found)}"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Column alignment: figures right, names and goals left."""
    rule = ["---" if each in ("", "goal") else "---:" for each in head]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *rows))


def markdown_failures(found: Comparison) -> str:
    return "".join(f"\nfailed: {each}\n" for each in found.failures)


def how(found: Comparison) -> str:
    text = HOW_TO_READ.format(ours=found.ours, theirs=found.theirs)
    return " ".join(filter(None, (text, tally(found))))


def as_html(found: Comparison, facts: Facts, picture: bytes) -> str:
    title = f"{found.ours} beside {found.theirs}"
    return page(title, found, facts, how(found), html_rows(found, found.rows), picture)


def page(title: str, found: Comparison, facts: Facts, how: str, tables: str, picture: bytes) -> str:
    failures = "".join(f"<p>failed: {html.escape(each)}</p>" for each in found.failures)
    return _PAGE.format(
        title=html.escape(title),
        facts=html.escape(in_one_line(facts)),
        how=html.escape(how),
        tables=tables,
        failures=failures,
        picture=picture.decode().partition("<!DOCTYPE")[2].partition(">")[2],
    )


def html_rows(found: Comparison, rows: Iterable[Compared]) -> str:
    return html_table(heads(found), [(_KINDS[row.met], cells(row)) for row in rows])


def html_table(head: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Rows with the class of each."""
    body = "".join(f'<tr class="{kind}">{_row("td", line)}</tr>' for kind, line in rows)
    return f"<table><thead><tr>{_row('th', head)}</tr></thead><tbody>{body}</tbody></table>"


def _row(tag: str, texts: Sequence[str]) -> str:
    return "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)


def draw(found: Comparison) -> dict[str, bytes]:
    """The ratios as bars, by the format of the picture; nothing without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return {}
    rows = [row for row in reversed(found.rows) if row.ratios]
    figure = Figure(figsize=(9, 1.2 + 0.32 * len(rows)), layout="constrained")
    axes = figure.subplots()
    colours = {None: "#7a8ca3", True: "#2f8f4e", False: "#c0392b"}
    for number, row in enumerate(rows):
        low, high = row.ratio - min(row.ratios), max(row.ratios) - row.ratio
        axes.barh(
            number,
            row.ratio - 1,
            left=1,  # where both are the same
            xerr=[[low], [high]],
            color=colours[row.met],
            height=0.6,
            capsize=2,
        )
        if row.metric.goal is not None:
            axes.plot([row.metric.goal] * 2, [number - 0.4, number + 0.4], color="black")
    axes.set_yticks(range(len(rows)), [_label(row) for row in rows])
    axes.set_xscale("log")
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.axvline(1, color="black", linewidth=0.8, linestyle=":")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_title(f"{found.ours} beside {found.theirs}")
    axes.set_xlabel(
        "median of the rounds' ratios,\nwith the lowest and highest;\n"
        "a stroke is a goal:\ngreen met, red missed, grey none"
    )
    return saved(figure)


def _label(row: Compared) -> str:
    return f"{row.metric.name} ({'less' if row.metric.less else 'more'} is better)"


def saved(figure: "Figure") -> dict[str, bytes]:
    """The picture by its format."""
    pictures: dict[str, bytes] = {}
    for kind in ("png", "svg"):
        content = io.BytesIO()
        figure.savefig(content, format=kind, dpi=120)
        pictures[kind] = content.getvalue()
    return pictures


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
