"""Batch reads of real topics by a real Spark session."""

import contextlib
import io
import time
from collections.abc import Callable
from typing import Final

import pytest
from pyspark.sql import DataFrame

from tests.spark.conftest import Fill

Read = Callable[..., DataFrame]

# Of this year, since older records than a topic retains are deleted; whole seconds.
NOW_MS: Final = time.time_ns() // 10**9 * 1000


def test_all_records_of_a_topic_are_rows(fill: Fill, read: Read, topic: str) -> None:
    fill({"key": b"k%d" % n, "value": b"v%d" % n, "timestamp": NOW_MS + n} for n in range(1000))

    rows = read().orderBy("offset").collect()

    assert [bytes(row.value) for row in rows] == [b"v%d" % n for n in range(1000)]
    assert [bytes(row.key) for row in rows] == [b"k%d" % n for n in range(1000)]
    assert [row.offset for row in rows] == list(range(1000))
    assert {(row.topic, row.partition, row.timestampType) for row in rows} == {(topic, 0, 0)}
    assert rows[7].timestamp.timestamp() * 1000 == NOW_MS + 7


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("partition = 1", lambda n: n % 3 == 1),
        ("partition in (0, 2)", lambda n: n % 3 != 1),
        ("offset >= 5 and offset < 9", lambda n: 5 <= n // 3 < 9),
        (f"timestamp >= timestamp_millis({NOW_MS + 20})", lambda n: n >= 20),
        (f"timestamp < timestamp_millis({NOW_MS + 20}) and value <> 'x'", lambda n: n < 20),
    ],
)
def test_filters_are_pushed_and_exact(
    fill: Fill, read: Read, condition: str, wanted: Callable[[int], bool]
) -> None:
    records = [{"value": b"%d" % n, "partition": n % 3, "timestamp": NOW_MS + n} for n in range(60)]
    fill(records, partitions=3)

    frame = read().where(condition)

    assert sorted(int(row.value) for row in frame.collect()) == [n for n in range(60) if wanted(n)]
    assert condition.split()[0] in _pushed(frame)


def _pushed(frame: DataFrame) -> str:
    """The filters that the scan was given, as the plan tells them."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        frame.explain("formatted")
    return shown.getvalue().partition("PushedFilters: [")[2].partition("]")[0]
