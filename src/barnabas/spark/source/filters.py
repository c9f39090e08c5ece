"""Filters that Spark pushes down to a read: rows that they exclude are not fetched or not decoded.

A filter on partition skips whole partitions. Filters on offset and timestamp narrow the range that
is fetched; the decoder then checks the timestamp of each record. None of the three columns is ever
null, so a comparison with a value selects exactly the rows that Spark would keep.
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
    """An interval of integers, both ends inclusive; empty if `least` is greater than `most`."""

    least: int = LEAST_LONG
    most: int = MOST_LONG

    def __and__(self, other: "Interval") -> "Interval":
        return Interval(max(self.least, other.least), min(self.most, other.most))

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and self.least <= number <= self.most


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows that the filters select, by column; timestamps in microseconds, as in Spark."""

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
        """The interval of timestamps in milliseconds, as records have them."""
        least, most = self.intervals["timestamp"]
        return Interval(-(-least // _US_PER_MS), most // _US_PER_MS)

    def narrowed(self, filter: Filter) -> "Selection | None":
        """This selection with one more filter; None if the filter cannot be pushed down."""
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


def push_down(filters: Iterable[Filter]) -> tuple[Selection, list[Filter]]:
    """The selection by the filters that can be pushed down, and the filters left to Spark."""
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
