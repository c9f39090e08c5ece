"""Batch and stream writes into real topics by a real Spark session; what is refused, and how."""

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.broker import BrokerProcess

Read = Callable[..., DataFrame]
Write = Callable[..., None]


@pytest.fixture
def write(served: BrokerProcess, topic: str) -> Write:
    """A batch write to the test's topic, with more options: `write(df, exactlyOnce="true")`."""

    def save(frame: DataFrame, **options: str) -> None:
        writer = frame.write.format("barnabas").mode("append")
        given = {"kafka.bootstrap.servers": served.bootstrap, "topic": topic, **options}
        writer.options(**given).save()

    return save


def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr("cast(id as string) key", "cast(2 * id as string) value")


def texts(frame: DataFrame) -> list[tuple[str | None, str | None]]:
    rows = frame.selectExpr("cast(key as string)", "cast(value as string)").collect()
    return sorted((row.key, row.value) for row in rows)


def test_every_row_becomes_a_record(spark: SparkSession, read: Read, write: Write) -> None:
    write(numbers(spark, 1000))

    assert texts(read()) == sorted((str(n), str(2 * n)) for n in range(1000))
