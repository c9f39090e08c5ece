"""Exactly-once sinks compared: the staging topic, and a transaction per task, in turns.

Without Spark: the tasks of a micro-batch run one after the other in this process.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from barnabas.base.clock import SystemClock
from barnabas.base.errors import ConfigError
from barnabas.base.randomness import Random
from barnabas.bench.bench_plan import Bench
from barnabas.bench.bench_report import ReportRow, Section, ratio_row, size_name
from barnabas.bench.clusters.bench_topics import create_topic
from barnabas.bench.server_processes import broker

SIZE: Final = 1024
TASKS: Final = 4
PARTITIONS: Final = 4
STAGING: Final = "staging"
TRANSACTIONS: Final = "transactions"
_ROWS: Final = 1_000  # of an Arrow batch


class Sinks(NamedTuple):
    """A micro-batch by each sink: (topic, rows) -> the tasks' part, which returns the driver's."""

    staging: Callable[[str, int], Callable[[], None]]
    transactions: Callable[[str, int], Callable[[], None]]


@dataclass
class Taken:
    """Seconds and bytes of one sink; `visible` is from the end of the tasks to the last row."""

    seconds: list[float] = field(default_factory=list)
    visible: list[float] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)


def sinks_section(bench: Bench) -> Section:
    """Raises ConfigError without PySpark."""
    count = max(TASKS, bench.plan.client_bytes // SIZE)
    taken = {STAGING: Taken(), TRANSACTIONS: Taken()}
    with bench.scratch() as folder, broker(folder) as server:
        sinks = _sinks(server.bootstrap)
        for number in range(bench.plan.repeat + 1):
            bench.say(f"sinks: round {number} of {bench.plan.repeat}")
            for name, sink in sinks._asdict().items():
                topic = f"{name}-{number}"
                create_topic(server.bootstrap, topic, PARTITIONS)
                _measure(taken[name] if number else Taken(), sink, topic, count, folder)
    notes = (
        f"{TASKS} tasks, {PARTITIONS} partitions, rows of {size_name(SIZE)}, acks=all, one broker;"
        " a transaction per task is not exactly once (decision 30)",
    )
    rows = _rows(count, taken[STAGING], taken[TRANSACTIONS])
    return Section("sinks", "Exactly-once sinks", STAGING, TRANSACTIONS, rows, notes)


def _measure(
    taken: Taken, sink: Callable[[str, int], Callable[[], None]], topic: str, count: int, at: Path
) -> None:
    before, start = _log_bytes(at), time.perf_counter()
    commit = sink(topic, count)
    done = time.perf_counter()
    commit()
    taken.visible.append(time.perf_counter() - done)
    taken.seconds.append(time.perf_counter() - start)
    # The staged records are in segments too small to be deleted yet.
    taken.bytes.append(_log_bytes(at) - before)


def _log_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.log") if path.stem.isdigit())


def _sinks(bootstrap: str) -> Sinks:
    try:
        once = import_module("barnabas.spark.exactly_once.exactly_once_writer")
    except ModuleNotFoundError as missing:
        raise ConfigError(f"the sinks need {missing.name}; install '.[spark]'") from None
    by_transaction = import_module("barnabas.bench.transactional_sink")

    def staging(topic: str, count: int) -> Callable[[], None]:
        options, columns = _options(bootstrap, topic)
        query = str(Random().uuid())
        staged = [
            once.stage(query, task, options, columns, _arrow(count // TASKS))
            for task in range(TASKS)
        ]
        return lambda: once.commit(staged, 0, options.connection, SystemClock())

    def transactions(topic: str, count: int) -> Callable[[], None]:
        options, columns = _options(bootstrap, topic)
        prepared = [
            by_transaction.prepare(topic, task, options, columns, _arrow(count // TASKS))
            for task in range(TASKS)
        ]
        return lambda: by_transaction.commit(prepared, options.connection)

    return Sinks(staging, transactions)


def _options(bootstrap: str, topic: str) -> tuple[Any, Any]:
    from pyspark.sql.types import BinaryType, StructField, StructType

    from barnabas.spark.sink.sink_options import SinkOptions
    from barnabas.spark.sink.sink_rows import SinkColumns

    schema = StructType([StructField("value", BinaryType())])
    options = SinkOptions.of({"kafka.bootstrap.servers": bootstrap, "topic": topic})
    return options, SinkColumns.of(schema, topic)


def _arrow(rows: int) -> Iterator[Any]:
    """As Spark hands rows to a task."""
    arrow: Any = import_module("pyarrow")
    value = b"v" * SIZE
    for start in range(0, rows, _ROWS):
        values = arrow.array([value] * min(_ROWS, rows - start), arrow.binary())
        yield arrow.record_batch({"value": values})


def _rows(count: int, staging: Taken, transactions: Taken) -> list[ReportRow]:
    speed, reference = (count / median(each.seconds) for each in (staging, transactions))
    late, reference_late = (median(each.visible) for each in (staging, transactions))
    size, reference_size = (median(each.bytes) / count for each in (staging, transactions))
    return [
        ratio_row(
            "rows per second",
            f"{speed:,.0f}/s",
            f"{reference:,.0f}/s",
            speed / reference,
            rows_per_second=speed,
            reference_rows_per_second=reference,
        ),
        ratio_row(
            "from the last task to the last visible row",
            f"{late * 1000:,.0f} ms",
            f"{reference_late * 1000:,.0f} ms",
            late / reference_late,
            visible_s=late,
            reference_visible_s=reference_late,
        ),
        ratio_row(
            "bytes written per row",
            f"{size:,.0f}",
            f"{reference_size:,.0f}",
            size / reference_size,
            bytes_per_row=size,
            reference_bytes_per_row=reference_size,
        ),
    ]
