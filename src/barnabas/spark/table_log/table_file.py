"""The data files of a table: size, rows and statistics, read from the footers of Parquet."""

import math
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from typing import Any, Final
from urllib.parse import unquote

Bounds = tuple[Any, Any]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_TEXT: Final = 64
_NO_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
# A copy of a partition column, for formats whose files contain the column itself.
PARTITION_COPY: Final = "part-"


@dataclass(frozen=True)
class TableFile:
    """One Parquet file, by its path below the table's directory.

    `bounds` are the least and the greatest value of columns; a column without bounds may have any.
    """

    path: str
    bytes: int
    records: int
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)


def read_footer(filesystem: Any, base: str, path: str, size: int) -> TableFile:
    """The file at `path` below `base`, with the statistics of its top-level columns."""
    parquet: Any = import_module("pyarrow.parquet")
    with filesystem.open_input_file(posixpath.join(base, path)) as file:
        footer = parquet.ParquetFile(file).metadata
    bounds: dict[str, Bounds | None] = {}
    nulls: dict[str, int] = {}
    for group in range(footer.num_row_groups):
        columns = footer.row_group(group)
        for number in range(columns.num_columns):
            column = columns.column(number)
            if "." not in column.path_in_schema:
                _merge(bounds, nulls, column.path_in_schema, column.statistics)
    known = {name: each for name, each in bounds.items() if each is not None}
    return TableFile(path, size, footer.num_rows, partition_values(path), known, nulls)


def _merge(
    bounds: dict[str, Bounds | None], nulls: dict[str, int], name: str, statistics: Any
) -> None:
    if statistics is None or not statistics.has_null_count:
        bounds[name] = None
        return
    nulls[name] = nulls.get(name, 0) + statistics.null_count
    if not statistics.has_min_max:
        if statistics.num_values:  # not all of them are null
            bounds[name] = None
        return
    try:
        found = plain(statistics.min), plain(statistics.max)
    except (OverflowError, ValueError):  # a time that Python's datetime does not reach
        found = None, None
    before = bounds.get(name, found)
    if found[0] is None or found[1] is None or before is None:
        bounds[name] = None
    else:
        bounds[name] = (min(before[0], found[0]), max(before[1], found[1]))


def plain(value: Any) -> Any:
    """A value for statistics: finite numbers, short texts, ISO days, timestamps in microseconds."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else None
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def partition_values(path: str) -> dict[str, str | None]:
    """The values in the directories of a path, such as `day=2026-11-18`."""
    found: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        name, equals, value = part.partition("=")
        if equals:
            column = unquote(name).removeprefix(PARTITION_COPY)
            found[column] = None if value == _NO_PARTITION else unquote(value)
    return found


def total_rows(files: Iterable[TableFile]) -> int:
    return sum(file.records for file in files)
