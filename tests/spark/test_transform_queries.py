"""Transformations with a real Spark session; bad records with their reason."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.small_files import Directory
from barnabas.spark.transform.transform_queries import TransformSpec
from barnabas.spark.transform.transform_run import _count as count
from barnabas.spark.transform.transform_run import claim_state
from tests.spark.commands import Ended, barnabas
from tests.spark.conftest import Fill, produce
from tests.support.broker import BrokerProcess

Read = Callable[..., DataFrame]
SCHEMA = "id BIGINT, at TIMESTAMP, cents BIGINT"


def order(number: int, minute: int, cents: int) -> dict[str, Any]:
    at = f"2026-01-01T00:{minute:02}:00Z"
    return {"key": b"k", "value": json.dumps({"id": number, "at": at, "cents": cents})}


@pytest.fixture
def transform(
    spark: SparkSession, served: BrokerProcess, topic: str, tmp_path: Path
) -> Callable[..., Ended]:
    """Transforms the test's topic to `<topic>-out`."""

    def run(*more: object) -> Ended:
        return barnabas(
            *("pipeline", "transform", topic, "--to", f"{topic}-out", "--json"),
            *("--state", tmp_path / "state", "-b", served.bootstrap, *more),
        )

    return run


def test_windows_are_counted_once_and_bad_records_are_kept_with_the_reason(
    transform: Callable[..., Ended], fill: Fill, read: Read, served: BrokerProcess, topic: str
) -> None:
    table = TransformSpec(topic, "", "", {}).view
    query = (
        *("--schema", SCHEMA, "--expect", "cents > 0", "--watermark", "at: 1 minute"),
        *("--sql", f"SELECT string(window.start) AS start, sum(cents) AS cents FROM {table}"
          " GROUP BY window(at, '1 minute')"),
        *("--key", "start"),
    )  # fmt: skip
    bad = [
        {"key": b"a", "value": None},
        {"key": b"b", "value": b"\xff"},
        {"key": b"c", "value": b"{", "headers": [("own", b"1")]},
        {"key": b"d", "value": b'{"id": "x"}'},
        order(0, 1, -5),
    ]
    fill([order(1, 1, 10), *bad, order(2, 1, 20), order(3, 9, 5)])
    first = transform(*query)
    assert first.code == 0, first.err
    assert json.loads(first.out) == {"records": 8, "results": 1, "bad": 5, "to": f"{topic}-out"}

    produce(served.bootstrap, topic, [order(4, 1, 99), order(5, 9, 6), order(6, 30, 1)])
    assert json.loads(transform(*query).out)["bad"] == 0

    out = read(subscribe=f"{topic}-out").select("key", "value").collect()
    found = sorted((bytes(row.key).decode(), json.loads(row.value)["cents"]) for row in out)
    assert found == [("2026-01-01 00:01:00", 30), ("2026-01-01 00:09:00", 11)]

    letters = read(subscribe=f"{topic}-dead-letters", includeHeaders="true").collect()
    told = {
        bytes(row.key): [(header.key, bytes(header.value)) for header in row.headers]
        for row in sorted(letters, key=lambda row: row.offset)
    }
    reasons = {key: dict(headers)["barnabas.dead-letter.reason"] for key, headers in told.items()}
    assert reasons == {
        b"a": b"no value",
        b"b": b"value is not UTF-8",
        b"c": b"value is not JSON of the schema",
        b"d": b"value is not JSON of the schema",
        b"k": b"failed expectation: cents > 0",
    }
    assert told[b"c"][0] == ("own", b"1")
    assert dict(told[b"c"])["barnabas.dead-letter.offset"] == b"3"
    assert dict(told[b"c"])["barnabas.dead-letter.topic"] == topic.encode()


def test_records_without_a_schema_go_through_as_they_are(
    transform: Callable[..., Ended], fill: Fill, read: Read, topic: str
) -> None:
    fill([{"key": b"k%d" % n, "value": b"v%d" % n} for n in range(4)])
    table = TransformSpec(topic, "", "", {}).view
    ended = transform("--sql", f"SELECT key, upper(string(value)) AS value FROM {table}")
    assert ended.code == 0, ended.err
    out = read(subscribe=f"{topic}-out").select("key", "value").collect()
    assert sorted((bytes(row.key), bytes(row.value)) for row in out) == [
        (b"k%d" % n, b"V%d" % n) for n in range(4)
    ]


def test_invalid_sql_is_reported_in_one_sentence(
    transform: Callable[..., Ended], fill: Fill
) -> None:
    fill()
    ended = transform("--sql", "SELECT * FROM nowhere")
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert "The table or view `nowhere` cannot be found" in ended.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "give either --sql SELECT or --sql-file FILE"),
        (("--sql", "x", "--sql-file", "y"), "give either --sql"),
        (("--sql", "x", "--watermark", "at"), "--watermark at: expected COLUMN:DELAY"),
        (("--sql", "x", "--output-mode", "all"), "--output-mode all: expected append"),
        (("--sql", "x", "--starting", "now"), "--starting now: expected earliest or latest"),
        (("--sql", "x", "--to", "orders"), "orders cannot be both source and target"),
        (("--sql", "x", "--remote", "sc://spark"), "--state is missing: on a Spark cluster"),
        (("--sql", "x", "--master", "spark://a:1"), "--state is missing: on a Spark cluster"),
        (("--sql", "x", "--state", "ftp://a/b"), "ftp://a/b"),
    ],
)
def test_wrong_options_of_a_transformation_are_one_line(
    options: tuple[str, ...], said: str
) -> None:
    ended = barnabas("pipeline", "transform", "orders", "--to", "out", *options)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert said in ended.err


def test_the_state_of_another_transformation_is_refused(tmp_path: Path) -> None:
    mine, state = TransformSpec("a", "b", "SELECT 1", {}), Directory(str(tmp_path / "state"))
    claim_state(state, mine)
    claim_state(state, mine._replace(options={"kafka.bootstrap.servers": "elsewhere"}))
    with pytest.raises(CommandFailed, match="has the state of another transformation"):
        claim_state(state, mine._replace(sql="SELECT 2"))


def test_results_are_counted_in_classic_and_connect_sessions() -> None:
    told = (None, Row(count=3), Row(values=[4], schema={}))
    assert [count(metrics) for metrics in told] == [0, 3, 4]


def test_a_topic_is_a_table_by_a_name_that_sql_can_read() -> None:
    names = ("orders", "my-topic.v1", "7days")
    views = [TransformSpec(name, "", "", {}).view for name in names]
    assert views == ["orders", "my_topic_v1", "_7days"]
