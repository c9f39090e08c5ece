"""The results of the bench as tables and as JSON."""

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from barnabas.base.twins import is_compiled
from barnabas.wire.produce import plain_batch

MOST_COUNTED_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One measurement and its reference; `met` is None without a goal."""

    name: str
    ours: str
    reference: str = ""
    ratio: float | None = None
    goal: str = ""
    met: bool | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Section:
    """Rows of one subject; `notes` are their conditions."""

    key: str
    title: str
    ours: str
    reference: str
    rows: Sequence[ReportRow]
    notes: Sequence[str] = ()

    def without_goals(self) -> "Section":
        return replace(self, rows=[replace(row, goal="", met=None) for row in self.rows])


def hot_path() -> str:
    """The kind of hot path (compiled or pure) in this process and its children."""
    return "compiled" if is_compiled(plain_batch) else "python"


def ratio_row(
    name: str,
    ours: str,
    reference: str,
    ratio: float,
    goal: float | None = None,
    **numbers: float,
) -> ReportRow:
    """A row whose goal, if any, is a minimal ratio."""
    wanted = "" if goal is None else f"≥ {goal:.2f}"
    met = None if goal is None else ratio >= goal
    return ReportRow(name, ours, reference, ratio, wanted, met, numbers)


def size_name(size: int) -> str:
    if size >= 1_000_000:
        return f"{size / 1e6:g} MB"
    return f"{size // 1024} KiB" if size >= 1024 else f"{size} B"


def rate(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1e6:,.0f} MB/s"


def amount(size: int, requests_per_second: float) -> str:
    """The rate of requests of this size; for small ones, requests per second."""
    if size > MOST_COUNTED_BYTES:
        return rate(requests_per_second * size)
    return f"{requests_per_second:,.0f} req/s"


def show(console: Console, section: Section) -> None:
    """Print a section as a table without its empty columns."""
    table = Table(title=section.title, title_justify="left", title_style="bold")
    table.add_column("")
    table.add_column(section.ours, justify="right")
    if section.reference:
        table.add_column(section.reference, justify="right")
    has_ratio = any(row.ratio is not None for row in section.rows)
    has_goal = any(row.goal for row in section.rows)
    if has_ratio:
        table.add_column("ratio", justify="right")
    if has_goal:
        table.add_column("goal")
    for row in section.rows:
        cells = [row.name, row.ours]
        cells += [row.reference] if section.reference else []
        cells += ["" if row.ratio is None else f"{row.ratio:.2f}"] if has_ratio else []
        cells += [_goal_cell(row)] if has_goal else []
        table.add_row(*cells)
    console.print(table)
    for note in section.notes:
        console.print(Padding(note, (0, 2)), style="dim", highlight=False)
    console.print()


def _goal_cell(row: ReportRow) -> str:
    if row.met is None:
        return row.goal
    mark = "[green]✓[/]" if row.met else "[red]✗[/]"
    return f"{mark} {row.goal}"


def machine() -> dict[str, str | int]:
    """The environment of the figures."""
    return {
        "date": datetime.now().astimezone().isoformat(timespec="minutes"),
        "processor": _processor(),
        "cores": os.cpu_count() or 0,
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1_000_000,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def revision() -> str:
    """The version of Barnabas, and its commit in a clone."""
    released = version("barnabas")
    try:
        _git("ls-files", "--error-unmatch", Path(__file__).name)  # or the clone is not of Barnabas
        commit = _git("rev-parse", "--short=10", "HEAD")
        changed = ", changed" if _git("status", "--porcelain", ":/src") else ""
    except (OSError, subprocess.CalledProcessError):
        return released
    return f"{released} ({commit}{changed})"


def _git(*arguments: str) -> str:
    told = subprocess.run(
        ["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
    )
    return told.stdout.strip()


def in_one_line(facts: Mapping[str, str | int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except FileNotFoundError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def as_json(facts: Mapping[str, str | int], sections: Sequence[Section]) -> str:
    content = {"machine": dict(facts), "sections": [asdict(section) for section in sections]}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
