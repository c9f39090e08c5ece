"""Fixtures: one Spark session for all tests, a broker, and topics with records."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from confluent_kafka import KafkaException, Producer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.support.broker import BrokerProcess
from tests.support.cluster import until
from tests.support.confluent_client import admin

DELIVERED_WITHIN_S: Final = 60.0
# A session starts, and does its first query, in seconds; on a busy machine in minutes.
TIMEOUT_S: Final = 600
# Spark gives a Python process ten seconds to start, which on a busy machine may be too short.
STARTED_LATE: Final = "Python worker failed to connect back"
STARTS: Final = 10

Fill = Callable[..., None]
Result = TypeVar("Result")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if (
            item.path.is_relative_to(Path(__file__).parent)
            and item.get_closest_marker("timeout") is None
        ):
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


def started(run: Callable[[], Result]) -> Result:
    """Run a query, again if Spark did not wait long enough for one of its own processes."""
    for _ in range(STARTS):
        try:
            return run()
        except PySparkException as failure:
            if STARTED_LATE not in str(failure):
                raise
    raise AssertionError(f"{STARTS} times: {STARTED_LATE}")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session: two tasks at a time, no web page, little memory."""
    folder = tmp_path_factory.mktemp("spark")
    # Spark looks for data sources with this interpreter, else with whatever python3 is.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "768m")
        # Short queries: what the best compiler gains later is not worth what it costs at first.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture(scope="session")
def served(broker: BrokerProcess) -> BrokerProcess:
    """One broker process for all tests that leave it running."""
    return broker


def create_topic(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> None:
    """Return when the topic can be used; `config` with underscores for the dots."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    created = client.create_topics([admin.NewTopic(topic, partitions, 1, config=settings)])
    created[topic].result(DELIVERED_WITHIN_S)


def make_again(bootstrap: str, topic: str) -> None:
    """Delete the topic and make another one of its name; that is free when the first is gone."""
    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    client.delete_topics([topic])[topic].result(DELIVERED_WITHIN_S)

    def made() -> bool:
        try:
            create_topic(bootstrap, topic)
        except KafkaException:
            return False
        return True

    until(lambda: topic not in client.list_topics(timeout=10).topics, f"{topic} to be gone")
    until(made, f"{topic} to be made again")


def produce(bootstrap: str, topic: str, records: Iterable[dict[str, Any]], **settings: str) -> None:
    """Send each record, given as `Producer.produce` takes it, and wait for all."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer({"bootstrap.servers": bootstrap, **given})
    failed: list[Any] = []
    for record in records:
        producer.produce(
            topic, on_delivery=lambda error, _: failed.append(error) if error else None, **record
        )
        producer.poll(0)
    assert producer.flush(DELIVERED_WITHIN_S) == 0
    assert not failed, failed[0]


@pytest.fixture
def fill(served: BrokerProcess, topic: str) -> Fill:
    """Make the test's topic with records: `fill(records, partitions=1, linger_ms="5")`."""

    def make(records: Iterable[dict[str, Any]] = (), partitions: int = 1, **settings: str) -> None:
        create_topic(served.bootstrap, topic, partitions)
        produce(served.bootstrap, topic, records, **settings)

    return make


@pytest.fixture
def read(spark: SparkSession, served: BrokerProcess, topic: str) -> Callable[..., DataFrame]:
    """A batch read of the test's topic, with more options: `read(includeHeaders="true")`."""

    def load(**options: str) -> DataFrame:
        reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", served.bootstrap)
        if not options.keys() & {"subscribe", "subscribePattern", "assign"}:
            reader = reader.option("subscribe", topic)
        return reader.options(**options).load()

    return load
