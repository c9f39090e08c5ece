"""Mistakes with tables: one line each, without a traceback or a Java stack."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from barnabas.base.ports import free_port
from barnabas.spark.spark_errors import explain
from tests.spark.commands import Ended, barnabas
from tests.spark.conftest import Fill
from tests.support.broker import BrokerProcess


def one_line(ended: Ended) -> str:
    """The output of the command, in one line."""
    assert ended.code in (1, 2), ended
    assert not ended.out
    lines = [line for line in ended.err.splitlines() if line.strip()]
    assert len(lines) == 1, ended.err
    for trace in ("Traceback", "Exception", "org.apache", "\tat "):
        assert trace not in lines[0]
    return lines[0]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--schema", "id BIGINTT"), "--schema 'id BIGINTT'"),
        (("--schema", "id"), "--schema 'id'"),
        (("--partition-by", "nothing"), "--partition-by nothing: no such column"),
        (("--format", "orc"), "must be one of delta, iceberg, parquet"),
        (("--infer",), "no field can be inferred"),
        (("--schema-from", "registry"), "needs --registry URL"),
        (("--registry", "http://127.0.0.1:1"), "--registry needs --schema-from registry"),
        (("--infer", "--registry", "http://127.0.0.1:1"), "--infer reads JSON"),
        (("--value-format", "raw", "--infer"), "--value-format raw has no fields"),
        (
            ("--schema-from", "registry", "--registry", "http://127.0.0.1:1"),
            "the registry at http://127.0.0.1:1 does not answer",
        ),
    ],
)
def test_a_wrong_option_gets_one_line(
    options: tuple[str, ...], says: str, spark: SparkSession, fill: Fill, served: BrokerProcess,
    topic: str, tmp_path: Path,
) -> None:  # fmt: skip
    fill([{"value": b"v"}])
    where = ("--to", tmp_path / "table", "-b", served.bootstrap)
    assert says in one_line(barnabas("pipeline", "table", topic, *where, *options))


def test_a_wrong_place_or_topic_gets_one_line(
    spark: SparkSession, fill: Fill, served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    fill([{"value": b"v"}])
    (tmp_path / "file").write_text("")
    cluster = ("-b", served.bootstrap)
    table = ("pipeline", "table")

    assert "is not a directory" in one_line(
        barnabas(*table, topic, "--to", tmp_path / "file", *cluster)
    )
    said = one_line(barnabas(*table, topic, "--to", "nowhere://there", *cluster))
    assert "nowhere://there" in said
    said = one_line(barnabas(*table, f"{topic}-not", "--to", tmp_path / "new", *cluster))
    assert f"there is no topic {topic}-not" in said
    for command in (("audit", "--table"), ("replay", topic, "--to", "again", "--from-table")):
        said = one_line(barnabas("pipeline", *command, tmp_path / "empty", *cluster))
        assert "is not a table of a topic" in said


def test_a_view_of_no_table_gets_one_sentence(
    spark: SparkSession, served: BrokerProcess, tmp_path: Path
) -> None:
    view = spark.read.format("barnabas").option("table", str(tmp_path))
    with pytest.raises(PySparkException) as raised:
        view.option("kafka.bootstrap.servers", served.bootstrap).load().count()
    assert "Traceback" not in str(raised.value)
    said = explain(raised.value)
    assert "is not a table of a topic" in said
    assert "\n" not in said


@pytest.mark.long
def test_a_broker_that_is_away_gets_one_line(spark: SparkSession, tmp_path: Path) -> None:
    away = f"127.0.0.1:{free_port()}"
    said = one_line(barnabas("pipeline", "table", "t", "--to", tmp_path / "table", "-b", away))
    assert away in said
