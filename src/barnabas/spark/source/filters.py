"""Filters that a read takes off Spark: what is not wanted is not fetched, or not decoded.

Partitions that are not wanted are not read at all; offsets and times narrow the range that is
fetched; what is left of times is done record by record while decoding. None of the three columns
is ever null, so a comparison with a value says exactly which rows are wanted.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from barnabas.spark.source.record_decoder import LEAST_LONG, MOST_LONG

_COLUMNS: Final = ("partition", "offset", "timestamp")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_US_PER_MS: Final = 1000


class Interval(NamedTuple):
    """Whole numbers, both ends included; empty if the least is above the most."""

    least: int = LEAST_LONG
    most: int = MOST_LONG

    def __and__(self, other: "Interval") -> "Interval":
        return Interval(max(self.least, other.least), min(self.most, other.most))

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and self.least <= number <= self.most


@dataclass(frozen=True, slots=True)
class Selection:
    """What is wanted, for each of the columns; times in microseconds, as Spark's."""

    intervals: dict[str, Interval] = field(
        default_factory=lambda: {name: Interval() for name in _COLUMNS}
    )
    partitions: frozenset[int] | None = None

    def wants(self, partition: int) -> bool:
        listed = self.partitions is None or partition in self.partitions
        return listed and partition in self.intervals["partition"]

    @property
    def offsets(self) -> Interval:
        return self.intervals["offset"]

    @property
    def times_ms(self) -> Interval:
        """The times of records, which are in milliseconds, that lie in the interval."""
        least, most = self.intervals["timestamp"]
        return Interval(-(-least // _US_PER_MS), most // _US_PER_MS)

    def narrowed(self, filter: Filter) -> "Selection | None":
        """With this filter as well; None if it is not one that can be taken."""
        column = _column(filter)
        if column is None:
            return None
        if isinstance(filter, IsNotNull):
            return self
        if isinstance(filter, In):
            return self._listed(column, filter)
        interval = _interval(filter)
        if interval is None:
            return None
        both = self.intervals[column] & interval
        return replace(self, intervals=self.intervals | {column: both})

    def _listed(self, column: str, filter: In) -> "Selection | None":
        if column != "partition" or not all(isinstance(value, int) for value in filter.value):
            return None
        listed = frozenset(filter.value)
        return replace(
            self, partitions=listed if self.partitions is None else self.partitions & listed
        )


def take(filters: Iterable[Filter]) -> tuple[Selection, list[Filter]]:
    """What the filters that can be taken select, and those that Spark must do itself."""
    selection, left = Selection(), []
    for each in filters:
        narrowed = selection.narrowed(each)
        if narrowed is None:
            left.append(each)
        else:
            selection = narrowed
    return selection, left


def _column(filter: Filter) -> str | None:
    path: tuple[str, ...] = getattr(filter, "attribute", ())
    return path[0] if len(path) == 1 and path[0] in _COLUMNS else None


def _interval(filter: Filter) -> Interval | None:
    number = _number(getattr(filter, "value", None))
    if number is None:
        return None
    match filter:
        case EqualTo() | EqualNullSafe():
            return Interval(number, number)
        case GreaterThan():
            return Interval(least=number + 1)
        case GreaterThanOrEqual():
            return Interval(least=number)
        case LessThan():
            return Interval(most=number - 1)
        case LessThanOrEqual():
            return Interval(most=number)
    return None


def _number(value: object) -> int | None:
    if isinstance(value, datetime):
        return None if value.tzinfo is None else (value - _EPOCH) // timedelta(microseconds=1)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
