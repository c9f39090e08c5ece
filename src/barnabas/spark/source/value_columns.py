"""The columns of decoded values beside those of the record."""

from collections.abc import Iterable
from typing import Final

# The columns of a record in a table with decoded values.
RECORD_COLUMNS: Final = ("key", "headers", "topic", "partition", "offset", "timestamp")
# The UTC day of the timestamp, if the table is partitioned by it.
DAY_COLUMN: Final = "day"
# The first millisecond of the year 1 and the one after the year 9999, the years that `day` has.
FIRST_TIME_MS: Final = -62_135_596_800_000
END_TIME_MS: Final = 253_402_300_800_000
# Columns that only exist while rows are read and written.
TOMBSTONE: Final = "_tombstone"
_PASSING: Final = (TOMBSTONE, "_file", "_place", "_metadata")


def value_columns(fields: Iterable[str], others: Iterable[str] = ()) -> dict[str, str]:
    """The column of each field: `value_NAME` if another column has its name in any case."""
    taken = {*RECORD_COLUMNS, *_PASSING, *(name.lower() for name in others)}
    found = {}
    for name in fields:
        column = name or "value_"
        while column.lower() in taken:
            column = f"value_{column}"
        taken.add(column.lower())
        found[name] = column
    return found


def quoted(name: str) -> str:
    """A name in SQL."""
    return f"`{name.replace('`', '``')}`"
