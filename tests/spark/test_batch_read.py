"""Batch reads of real topics by a real Spark session."""

import contextlib
import io
import time
from collections.abc import Callable
from typing import Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.conftest import Fill
from tests.support.broker import BrokerProcess

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
    ids=["partition", "partitions", "offset", "since", "until"],
)
def test_filters_are_pushed_and_exact(
    fill: Fill, read: Read, condition: str, wanted: Callable[[int], bool]
) -> None:
    fill(_records(60), partitions=3)

    frame = read().where(condition)

    assert sorted(int(row.value) for row in frame.collect()) == [n for n in range(60) if wanted(n)]
    assert condition.split()[0] in _pushed(frame)


def _pushed(frame: DataFrame) -> str:
    """The pushed filters of the scan, from the plan."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        frame.explain("formatted")
    return shown.getvalue().partition("PushedFilters: [")[2].partition("]")[0]


def test_options_select_the_records(fill: Fill, read: Read, topic: str) -> None:
    fill(_records(60), partitions=3)

    def values(**options: str) -> list[int]:
        return sorted(int(row.value) for row in read(**options).select("value").collect())

    assert values(subscribePattern=f"{topic[:-1]}.") == list(range(60))
    assert values(assign=f'{{"{topic}":[1]}}') == [n for n in range(60) if n % 3 == 1]
    bounds = {
        "startingOffsets": f'{{"{topic}":{{"0":5,"1":-2,"2":19}}}}',
        "endingOffsets": f'{{"{topic}":{{"0":7,"1":2,"2":-1}}}}',
    }
    assert values(**bounds) == [1, 4, 15, 18, 59]
    times = {"startingTimestamp": str(NOW_MS + 10), "endingTimestamp": str(NOW_MS + 20)}
    assert values(**times) == list(range(10, 20))
    each = {
        "startingOffsetsByTimestamp": f'{{"{topic}":{{"0":{NOW_MS + 57},"1":{NOW_MS},"2":0}}}}',
        "endingOffsetsByTimestamp": f'{{"{topic}":{{"0":{NOW_MS + 99},"1":{NOW_MS + 1},"2":0}}}}',
    }
    assert values(**each) == [57]


def test_headers_are_read_on_request_and_several_tasks_share_a_partition(
    fill: Fill, read: Read
) -> None:
    headers = [("a", b"1"), ("a", None), ("ü", b"")]
    fill([{"value": b"0", "headers": headers}, {"value": None, "key": b"k"}, {"value": b"2"}])

    frame = read(includeHeaders="true", minPartitions="3")
    rows = frame.orderBy("offset").collect()

    assert frame.rdd.getNumPartitions() == 3
    assert [(header.key, header.value) for header in rows[0].headers] == headers
    assert rows[1].headers is None
    assert [row.value for row in rows] == [b"0", None, b"2"]
    assert [row.key for row in rows] == [None, b"k", None]


def test_a_topic_is_a_view_and_a_table_of_sql(
    fill: Fill, spark: SparkSession, served: BrokerProcess, topic: str
) -> None:
    fill([{"value": b"%d" % n} for n in range(7)])
    server = f"'kafka.bootstrap.servers' {{}} '{served.bootstrap}', 'subscribe' {{}} '{topic}'"
    spark.sql(f"CREATE TEMPORARY VIEW seven USING barnabas OPTIONS ({server.format('', '')})")
    spark.sql("CREATE TABLE topics USING barnabas")
    try:
        table = f"topics WITH ({server.format('=', '=')})"
        for name in ("seven", table):
            (found,) = spark.sql(f"SELECT sum(int(string(value))) AS total FROM {name}").collect()
            assert found.total == 21
        with pytest.raises(PySparkException, match="there are no options: Spark does not pass"):
            spark.table("topics").collect()
    finally:
        spark.sql("DROP VIEW seven")
        spark.sql("DROP TABLE topics")


def test_without_pushed_filters_the_rows_are_the_same(
    fill: Fill, read: Read, spark: SparkSession
) -> None:
    fill(_records(60), partitions=3)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        rows = read().where("partition = 1 and offset < 3").collect()
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")

    assert sorted(int(row.value) for row in rows) == [1, 4, 7]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "nowhere"}, "topic nowhere does not exist; create it with"),
        ({"startingOffsets": "latest"}, "option startingOffsets cannot be latest in a batch read"),
        (
            {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "100"},
            "the cluster at 127.0.0.1:1 cannot be read: no broker answers",
        ),
        ({"includeHeaders": "perhaps"}, "option includeHeaders is 'perhaps' but must be true or"),
    ],
)
def test_spark_reports_errors_in_one_sentence_without_a_traceback(
    read: Read, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(PySparkException) as told:
        read(**options).collect()

    assert sentence in str(told.value)
    assert "Traceback" not in str(told.value)


def _records(number: int) -> list[dict[str, object]]:
    """Numbers, in turns to three partitions, a millisecond after each other."""
    return [
        {"value": b"%d" % n, "partition": n % 3, "timestamp": NOW_MS + n} for n in range(number)
    ]
