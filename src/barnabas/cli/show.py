"""Command output: tables on terminals, plain columns in pipes, JSON for scripts."""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from rich.table import Table

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def show_json(value: object) -> None:
    """Print one JSON document: indented on a terminal, on one line elsewhere."""
    print(json.dumps(value, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False))


def show_rows(
    rows: Sequence[Mapping[str, object]], columns: Sequence[str], *, json: bool, none: str = ""
) -> None:
    """Print rows as JSON, or these columns of theirs as a table; `none` where there is no row."""
    if json:
        show_json(rows)
    elif rows:
        show_table(columns, [[row[column] for column in columns] for row in rows])
    elif none:
        print(none)


def show_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], file: TextIO | None = None
) -> None:
    """Print rows under their headings, to stdout unless `file` is given.

    On a terminal, columns of integers are right-aligned. A list is shown as `1,2`.
    """
    file = file or sys.stdout
    if file.isatty():
        from rich.console import Console

        Console(file=file).print(bordered(columns, rows))
    else:
        _show_plain(columns, _texts(rows), file)


def _show_plain(columns: Sequence[str], texts: list[list[str]], file: TextIO) -> None:
    lines = [list(columns), *texts]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        print("  ".join(map(str.ljust, line, widths)).rstrip(), file=file)


def bordered(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> "Table":
    """The table for a terminal, to print or to embed in a larger layout."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[i], int | None) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for line in _texts(rows):
        table.add_row(*map(Text, line))
    return table


def _texts(rows: Sequence[Sequence[object]]) -> list[list[str]]:
    return [[_text(cell) for cell in row] for row in rows]


def _text(cell: object) -> str:
    if isinstance(cell, list):
        return ",".join(map(str, cell)) or "-"
    return "-" if cell is None else str(cell)


def show_time(timestamp_ms: int) -> str:
    """A timestamp as UTC in ISO 8601 with milliseconds; the number if it is out of range."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03}Z" if timestamp_ms >= 0 else "-"


def counted(number: int, noun: str) -> str:
    """`1 message`, `2 messages`, `3 batches`."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def show_bytes(size: int) -> str:
    """`512 B`, `1.5 KiB`, `2.0 GiB`."""
    amount, unit = float(size), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{size} B" if not unit else f"{amount:.1f} {_UNITS[unit]}"
