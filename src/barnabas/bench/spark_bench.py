"""Spark reads and writes through Barnabas's format, compared with Spark's Kafka connector.

Both formats run in one session on one broker, alternating, after a warm-up round for Spark's
Python workers and the JVM.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.base.errors import ConfigError
from barnabas.bench.bench_plan import Bench
from barnabas.bench.bench_report import ReportRow, Section, ratio_row, size_name
from barnabas.bench.clusters.bench_topics import (
    PATIENCE_S,
    client_settings,
    create_topic,
    delete_topic,
    log_end_offset,
)
from barnabas.bench.limits.clients_bench import CONSUMER, PRODUCER, RecordsMissing
from barnabas.bench.server_processes import broker
from barnabas.bench.spark_connector import NoConnector, connector
from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.session import SparkPlace, spark_session
from barnabas.spark.spark_errors import explain, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUE_SIZES: Final = (100, 1024)
PARTITIONS: Final = 4
REPEAT: Final = 3
OURS: Final = "barnabas"
THEIRS: Final = "kafka"
GOAL: Final = 1.0
_AT_ONCE: Final = 10_000
_MOST_IN_FLIGHT: Final = PRODUCER["queue.buffering.max.messages"] - _AT_ONCE
DELETED_SOON: Final = "log.segment.delete.delay.ms=100"

Seconds = dict[str, list[float]]


@dataclass
class Measured:
    """Rows per second of each format, by operation."""

    rows: int
    read: Seconds = field(default_factory=dict)
    written: Seconds = field(default_factory=dict)
    consumed: list[float] = field(default_factory=list)
    exactly_once: list[float] = field(default_factory=list)

    def rate(self, seconds: Sequence[float]) -> float:
        return self.rows / median(seconds)


def spark_section(bench: Bench) -> Section:
    """The section; a smoke run has one size only. Raises ConfigError without Spark."""
    jars, note = connector_jars()
    sizes = VALUE_SIZES if bench.plan.repeat > 1 else VALUE_SIZES[:1]
    formats = [OURS, THEIRS] if jars else [OURS]
    rows = []
    with bench_session(jars) as spark:
        for size in sizes:
            with bench.scratch() as folder, broker(folder, DELETED_SOON) as server:
                rows += _rows(size, _measure(bench, spark, server.bootstrap, size, formats))
    notes = (
        note,
        f"{PARTITIONS} partitions, as many tasks at once as there are cores; a read makes every"
        " column and throws it away (Spark's noop sink), a write is acknowledged by acks=all",
        "confluent-kafka: one consumer in one process, every message counted",
    )
    return Section("spark", "Spark (rows per second)", "Barnabas", "reference", rows, notes)


def connector_jars() -> tuple[str, str]:
    """The connector's jars, empty if unavailable, and a note."""
    try:
        found = connector()
    except NoConnector as missing:
        return "", f"Spark's own connector is skipped: {missing}"
    jars = ",".join(map(str, found.jars))
    return jars, f"reference: Spark's own connector (spark-sql-kafka-0-10 {found.version})"


@contextmanager
def bench_session(jars: str) -> "Iterator[SparkSession]":
    settings = {"spark.jars": jars} if jars else {}
    try:
        with spark_session("bench", SparkPlace(settings=settings)) as spark:
            try:
                yield spark
            except spark_errors() as error:
                raise RecordsMissing(explain(error)) from None
    except CommandFailed as missing:
        raise ConfigError(str(missing)) from None


def _measure(
    bench: Bench, spark: "SparkSession", bootstrap: str, size: int, formats: Sequence[str]
) -> Measured:
    count = max(PARTITIONS, bench.plan.client_bytes // size)
    measured = Measured(count)
    fill(bootstrap, "read", size, count)
    servers = {"kafka.bootstrap.servers": bootstrap}
    repeat = min(REPEAT, bench.plan.repeat)
    for number in range(repeat + 1):
        bench.say(f"spark {size_name(size)}: round {number} of {repeat}")
        for name in formats:
            seconds = timed(partial(_read, spark, name, servers, "read"))
            _keep(measured.read, name, seconds, number)
            topic = f"written-{name}-{number}"
            create_topic(bootstrap, topic, PARTITIONS)
            options = {**servers, "topic": topic}
            seconds = timed(partial(_write, spark, name, options, size, count))
            _keep(measured.written, name, seconds, number)
            _check(bootstrap, topic, count)
    for number in range(repeat):
        bench.say(f"spark {size_name(size)}: others, round {number + 1} of {repeat}")
        measured.consumed.append(timed(partial(_consume, bootstrap, "read", count)))
        topic = f"written-once-{number}"
        create_topic(bootstrap, topic, PARTITIONS)
        once = {**servers, "topic": topic, "exactlyOnce": "true"}
        measured.exactly_once.append(timed(partial(_write, spark, OURS, once, size, count)))
        _check(bootstrap, topic, count)
    return measured


def _keep(seconds: Seconds, name: str, took: float, number: int) -> None:
    if number:
        seconds.setdefault(name, []).append(took)


def timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _read(spark: "SparkSession", name: str, servers: Mapping[str, str], topic: str) -> None:
    frame = spark.read.format(name).options(**servers, subscribe=topic).load()
    frame.write.format("noop").mode("overwrite").save()


def _write(
    spark: "SparkSession", name: str, options: Mapping[str, str], size: int, count: int
) -> None:
    frame = spark.range(0, count, 1, os.cpu_count() or 1).selectExpr(f"repeat('v', {size}) value")
    frame.write.format(name).mode("append").options(**options).save()


def fill(bootstrap: str, topic: str, size: int, count: int) -> None:
    create_topic(bootstrap, topic, PARTITIONS)
    producer = Producer(client_settings(bootstrap, **PRODUCER))
    unsent = [count // PARTITIONS + (n < count % PARTITIONS) for n in range(PARTITIONS)]
    while any(unsent):
        for number, left in enumerate(unsent):
            some = min(left, _AT_ONCE)
            while len(producer) > _MOST_IN_FLIGHT:
                producer.poll(0.01)
            producer.produce_batch(topic, [{"value": b"v" * size}] * some, partition=number)
            unsent[number] -= some
    if left := producer.flush(PATIENCE_S):
        raise RecordsMissing(f"{left} of {count} messages were not acknowledged")


def _consume(bootstrap: str, topic: str, count: int) -> None:
    consumer = Consumer(client_settings(bootstrap, **CONSUMER))
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        got = 0
        while got < count:
            messages = consumer.consume(min(10_000, count - got), timeout=PATIENCE_S)
            if not messages:
                raise RecordsMissing(f"{got} of {count} messages came back")
            got += len(messages)
    finally:
        consumer.close()


def _check(bootstrap: str, topic: str, count: int) -> None:
    """Raises RecordsMissing unless every row was written once; then deletes the topic."""
    there = log_end_offset(bootstrap, topic, PARTITIONS)
    if there != count:
        raise RecordsMissing(f"{there} of {count} rows are in the topic")
    delete_topic(bootstrap, topic)  # the disk holds one write's data at most


def _rows(size: int, measured: Measured) -> list[ReportRow]:
    name = size_name(size)
    read, written = measured.rate(measured.read[OURS]), measured.rate(measured.written[OURS])
    return [
        _beside(f"read, {name}", read, measured, measured.read.get(THEIRS), GOAL),
        _beside(f"read, {name}, beside confluent-kafka", read, measured, measured.consumed, None),
        _beside(f"write, {name}", written, measured, measured.written.get(THEIRS), GOAL),
        _beside(
            f"write exactly once, {name}, beside at least once",
            measured.rate(measured.exactly_once),
            measured,
            measured.written[OURS],
            None,
        ),
    ]


def _beside(
    name: str, ours: float, measured: Measured, seconds: Sequence[float] | None, goal: float | None
) -> ReportRow:
    numbers: dict[str, Any] = {"rows_per_second": ours}
    if seconds is None:
        return ReportRow(name, f"{ours:,.0f}/s", numbers=numbers)
    reference = measured.rate(seconds)
    numbers["reference_rows_per_second"] = reference
    return ratio_row(
        name, f"{ours:,.0f}/s", f"{reference:,.0f}/s", ours / reference, goal, **numbers
    )
