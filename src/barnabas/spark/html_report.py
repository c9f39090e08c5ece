"""A self-contained HTML report: text, tables and plots, without any external resource."""

import io
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

import matplotlib
from matplotlib.figure import Figure

# Distinguishable with colour blindness.
COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999")
GOOD: Final = "#1a7f37"
BAD: Final = "#cf222e"
_WIDTH: Final = 9.6
_HEIGHT: Final = 2.9
_LOOK: Final[Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "barnabas",  # equal figures are equal bytes
    "font.family": "sans-serif",
    "font.size": 9.5,
}
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
  body {{ font: 16px/1.5 system-ui, sans-serif; color: #1f2328; background: #fff;
         max-width: 60rem; margin: 2.5rem auto; padding: 0 1.25rem; }}
  h1 {{ font-size: 1.7rem; margin-bottom: .2rem; }}
  h2 {{ font-size: 1.2rem; margin-top: 2.4rem; }}
  p.lead {{ color: #57606a; margin-top: 0; }}
  table {{ border-collapse: collapse; margin: .8rem 0; }}
  th, td {{ text-align: left; padding: .25rem 1.2rem .25rem 0; border-bottom: 1px solid #d8dee4;
           vertical-align: top; font-variant-numeric: tabular-nums; }}
  td.number {{ text-align: right; }}
  li.good::marker {{ content: "\\2713  "; color: {good}; }}
  li.bad::marker {{ content: "\\2717  "; color: {bad}; }}
  figure {{ margin: 1rem 0; }} figure svg {{ width: 100%; height: auto; }}
  figcaption {{ color: #57606a; font-size: .9rem; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p class="lead">{lead}</p>
{body}
</body>
</html>
"""


class ReportPage:
    """A page that is appended to from top to bottom; it escapes all text."""

    def __init__(self, title: str, lead: str) -> None:
        self._title = title
        self._lead = lead
        self._parts: list[str] = []

    def heading(self, text: str) -> None:
        self._parts.append(f"<h2>{escape(text)}</h2>")

    def paragraph(self, text: str) -> None:
        self._parts.append(f"<p>{escape(text)}</p>")

    def claims(self, claims: Iterable[tuple[bool, str]]) -> None:
        """Append a list of claims, each marked as true or false."""
        lines = [
            f'<li class="{"good" if holds else "bad"}">{escape(text)}</li>'
            for holds, text in claims
        ]
        self._parts.append(f"<ul>{''.join(lines)}</ul>")

    def table(self, heading: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        head = "".join(f"<th>{escape(name)}</th>" for name in heading)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
        self._parts.append(f"<table><tr>{head}</tr>{body}</table>")

    def figure(self, figure: Figure, caption: str) -> None:
        text = io.StringIO()
        with matplotlib.rc_context(_LOOK):
            figure.savefig(text, format="svg", metadata={"Date": None})
        drawing = text.getvalue()
        svg = drawing[drawing.index("<svg") :]
        caption = f"<figcaption>{escape(caption)}</figcaption>"
        self._parts.append(f"<figure>{svg}{caption}</figure>")

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            _PAGE.format(
                title=escape(self._title),
                lead=escape(self._lead),
                body="\n".join(self._parts),
                good=GOOD,
                bad=BAD,
            ),
            encoding="utf-8",
        )


def new_plot(height: float = _HEIGHT) -> tuple[Figure, Any]:
    """A figure as wide as the page, without a window or global state, and its axes."""
    with matplotlib.rc_context(_LOOK):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    axes = figure.subplots()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _cell(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'<td class="number">{value:,}</td>'
    return f"<td>{escape(str(value))}</td>"
