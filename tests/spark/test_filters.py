"""Filters that Spark pushes down: exactly the selected rows are read."""

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from barnabas.spark.source.filters import Interval, Selection, push_down

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("filter", "interval"),
    [
        (EqualTo(("offset",), 7), Interval(7, 7)),
        (EqualNullSafe(("offset",), 7), Interval(7, 7)),
        (GreaterThan(("offset",), 7), Interval(least=8)),
        (GreaterThanOrEqual(("offset",), 7), Interval(least=7)),
        (LessThan(("offset",), 7), Interval(most=6)),
        (LessThanOrEqual(("offset",), 7), Interval(most=7)),
    ],
)
def test_a_comparison_of_offsets_is_an_interval(filter: Filter, interval: Interval) -> None:
    selection, left = push_down([filter])

    assert selection.offsets == interval
    assert not left


def test_filters_are_combined() -> None:
    selection, left = push_down(
        [
            IsNotNull(("partition",)),
            In(("partition",), (1, 2, 3)),
            GreaterThan(("partition",), 1),
            GreaterThanOrEqual(("offset",), 10),
            LessThan(("offset",), 20),
        ]
    )

    assert not left
    assert [number for number in range(6) if selection.wants(number)] == [2, 3]
    assert selection.offsets == Interval(10, 19)


@pytest.mark.parametrize(
    ("filter", "first_ms", "last_ms"),
    [
        (GreaterThanOrEqual(("timestamp",), BEGINNING.replace(microsecond=2000)), 2, None),
        (GreaterThanOrEqual(("timestamp",), BEGINNING.replace(microsecond=2001)), 3, None),
        (GreaterThan(("timestamp",), BEGINNING.replace(microsecond=2000)), 3, None),
        (LessThan(("timestamp",), BEGINNING.replace(microsecond=2000)), None, 1),
        (LessThanOrEqual(("timestamp",), BEGINNING.replace(microsecond=2999)), None, 2),
    ],
)
def test_times_are_rounded_to_the_milliseconds_that_fit(
    filter: Filter, first_ms: int | None, last_ms: int | None
) -> None:
    times = push_down([filter])[0].times_ms

    assert first_ms is None or times.least == first_ms
    assert last_ms is None or times.most == last_ms


@pytest.mark.parametrize(
    "filter",
    [
        EqualTo(("value",), b"x"),
        EqualTo(("offset",), None),
        Not(EqualTo(("offset",), 3)),
        IsNull(("offset",)),
        In(("offset",), (1, 2)),
        In(("partition",), (1, None)),
        StringStartsWith(("topic",), "a"),
        GreaterThan(("timestamp",), datetime(2024, 1, 1)),
    ],
)
def test_other_filters_are_left_to_spark(filter: Filter) -> None:
    selection, left = push_down([filter])

    assert left == [filter]
    assert selection == Selection()
