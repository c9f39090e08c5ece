"""Spark over SASL_SSL: reads, writes, the exactly-once sink and the archiver, and no password seen.

The tasks run in processes of their own, as on executors, and log in by themselves.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from barnabas.config.properties import format_properties
from tests.spark.commands import barnabas
from tests.spark.conftest import started
from tests.support.confluent_client import admin
from tests.support.logins import Login, confluent, java
from tests.support.secure_broker import SecureBroker, secure_broker

pytestmark = pytest.mark.long

WAY = "SASL_SSL SCRAM-SHA-512"
PARTITIONS = 2


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("secure")) as broker:
        yield broker


@pytest.fixture
def login(secure: SecureBroker, topic: str) -> Login:
    """A login; the topic exists."""
    found = secure.logins[WAY]
    client = admin.AdminClient(confluent(found))
    client.create_topics([admin.NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
    return found


def options(login: Login) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in java(login).items()}


def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr(
        "cast(id as string) value", f"cast(id % {PARTITIONS} as int) partition"
    )


def write(frame: DataFrame, login: Login, topic: str, **more: str) -> None:
    writer = frame.write.format("barnabas").mode("append").options(**options(login))
    writer.options(topic=topic, **more).save()


def read(spark: SparkSession, login: Login, topic: str) -> DataFrame:
    return (
        spark.read.format("barnabas")
        .options(**options(login), subscribe=topic)
        .load()
        .selectExpr("cast(value as string) value", "partition")
    )


def texts_below(folder: Path) -> Mapping[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("exactly_once", ["false", "true"])
def test_a_batch_is_written_and_read_by_tasks_that_log_in(
    spark: SparkSession, login: Login, topic: str, exactly_once: str
) -> None:
    started(lambda: write(numbers(spark, 50), login, topic, exactlyOnce=exactly_once))
    found = started(lambda: read(spark, login, topic).collect())
    assert sorted(int(row.value) for row in found) == list(range(50))
    assert {row.partition for row in found} == set(range(PARTITIONS))


def test_a_stream_is_copied_exactly_once_and_nothing_on_disk_holds_the_password(
    spark: SparkSession, login: Login, topic: str, tmp_path: Path
) -> None:
    copy = f"{topic}-copy"
    client = admin.AdminClient(confluent(login))
    client.create_topics([admin.NewTopic(copy, PARTITIONS, 1)])[copy].result(60)
    for turn in (1, 2):
        started(lambda: write(numbers(spark, 20), login, topic))
        source = spark.readStream.format("barnabas").options(**options(login), subscribe=topic)
        source = source.option("startingOffsets", "earliest")
        sink = source.load().writeStream.format("barnabas").options(**options(login), topic=copy)
        sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = sink.option("exactlyOnce", "true").trigger(availableNow=True).start()
        assert query.awaitTermination(500)
        assert read(spark, login, copy).count() == 20 * turn
    held = [path for path, text in texts_below(tmp_path).items() if login.password.encode() in text]
    assert held == []


def test_plans_and_errors_do_not_show_the_password(
    spark: SparkSession, login: Login, topic: str, capfd: pytest.CaptureFixture[str]
) -> None:
    frame = read(spark, login, topic)
    frame.explain("extended")
    shown = capfd.readouterr().out
    assert "BatchScan" in shown
    wrong = Login(**{**vars(login), "password": "a-wrong-password"})
    with pytest.raises(PySparkException) as refused:
        read(spark, wrong, topic).collect()
    for text in (shown, str(refused.value), "".join(capfd.readouterr())):
        assert login.password not in text
        assert "a-wrong-password" not in text
    assert "invalid credentials" in str(refused.value)


def test_the_archiver_logs_in_with_its_command_config(
    spark: SparkSession, login: Login, topic: str, tmp_path: Path
) -> None:
    started(lambda: write(numbers(spark, 30), login, topic))
    file = tmp_path / "client.properties"
    file.write_text(format_properties(java(login)))
    to = tmp_path / "archive"
    ended = barnabas(
        "pipeline", "archive", topic, "--to", to, "-b", login.bootstrap, "--command-config", file
    )
    assert ended.code == 0, ended.err
    assert spark.read.parquet(str(to)).count() == 30
    shown = [ended.out.encode(), ended.err.encode(), *texts_below(to).values()]
    assert not any(login.password.encode() in text for text in shown)
