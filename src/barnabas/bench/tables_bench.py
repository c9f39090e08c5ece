"""Topics as tables: `barnabas pipeline table`'s writer beside Spark's Kafka connector.

The connector writes the same columns as Parquet files with the same compression: no offsets, no
commit, no statistics. Both run in one session on one broker, alternating, after a warm-up round.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from barnabas.bench.bench_plan import Bench
from barnabas.bench.bench_report import ReportRow, Section, ratio_row
from barnabas.bench.clusters.bench_topics import delete_topic
from barnabas.bench.limits.clients_bench import RecordsMissing
from barnabas.bench.server_processes import broker
from barnabas.bench.spark_bench import (
    DELETED_SOON,
    GOAL,
    bench_session,
    connector_jars,
    fill,
    timed,
)
from barnabas.cli.client import ClusterClients

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.spark.table.table_run import TableWriter

_FORMATS: Final = ("parquet", "delta", "iceberg")
_VALUE_BYTES: Final = 100
_REPEAT: Final = 3
_LEAST_GROWN: Final = 0.8
_MIB: Final = 1024 * 1024
_THEIRS: Final = "kafka"
_COLUMNS: Final = (
    "key", "value", "headers", "topic", "partition", "offset", "timestamp", "timestampType",
)  # fmt: skip


@dataclass
class _Measured:
    """Seconds by format; `idle` are those of a step when nothing is new."""

    rows: int
    written: dict[str, list[float]] = field(default_factory=dict)
    idle: dict[str, list[float]] = field(default_factory=dict)

    def rate(self, name: str) -> float:
        return self.rows / median(self.written[name])


def tables_section(bench: Bench) -> Section:
    """The section; larger tables than the first are Delta. Raises ConfigError without Spark."""
    jars, note = connector_jars()
    with (
        bench_session(jars) as spark,
        bench.scratch() as data,
        bench.scratch() as folder,
        broker(data, DELETED_SOON) as server,
    ):
        run = _Tables(bench, spark, server.bootstrap, folder)
        first, *more = bench.plan.table_rows
        small = run.measure(first, bool(jars))
        rows = [*_rates(small), *_idle(small)]
        peak = _peak_mib()
        for count in more:
            rows += _grown(small, peak, run, count)
    notes = (
        note,
        "the connector writes Parquet in every row: it has no table's commit to make",
        f"rows of {_VALUE_BYTES} B, zstd, as many tasks at once as there are cores",
    )
    return Section("tables", "Topics as tables", "Barnabas", "reference", rows, notes)


class _Tables:
    """Writes a topic to tables again and again."""

    def __init__(self, bench: Bench, spark: "SparkSession", bootstrap: str, folder: Path) -> None:
        self._bench = bench
        self._spark = spark
        self._bootstrap = bootstrap
        self._folder = folder
        self._servers = {"kafka.bootstrap.servers": bootstrap}

    def measure(self, count: int, beside: bool) -> _Measured:
        topic, measured = f"rows-{count}", _Measured(count)
        fill(self._bootstrap, topic, _VALUE_BYTES, count)
        repeat = min(_REPEAT, self._bench.plan.repeat)
        for number in range(repeat + 1):
            self._bench.say(f"tables of {count:,} rows: round {number} of {repeat}")
            for name in _FORMATS:
                wrote, idle = self._table(name, topic, count)
                if number:  # the first is a warm-up
                    measured.written.setdefault(name, []).append(wrote)
                    measured.idle.setdefault(name, []).append(idle)
            if beside:
                wrote = self._connector(topic, count)
                if number:
                    measured.written.setdefault(_THEIRS, []).append(wrote)
        delete_topic(self._bootstrap, topic)
        return measured

    def grow(self, count: int) -> float:
        """Rows per second into a Delta table of so many rows."""
        topic = f"rows-{count}"
        self._bench.say(f"a topic of {count:,} records")
        fill(self._bootstrap, topic, _VALUE_BYTES, count)
        self._bench.say(f"a table of {count:,} rows")
        took, _ = self._table("delta", topic, count)
        delete_topic(self._bootstrap, topic)
        return count / took

    def _table(self, name: str, topic: str, count: int) -> tuple[float, float]:
        with self._place() as place:
            writer = self._writer(name, topic, place)
            took = timed(partial(_write_all, writer, self._spark))
            if writer.state.rows != count:
                raise RecordsMissing(f"{writer.state.rows} of {count} rows are in the table")
            return took, timed(partial(_write_all, writer, self._spark))

    def _writer(self, name: str, topic: str, place: Path) -> "TableWriter":
        from barnabas.spark.table.table_run import TableSpec, TableWriter
        from barnabas.spark.table_log.table_directory import TableDirectory
        from barnabas.spark.table_log.table_log import open_log
        from barnabas.spark.table_log.table_state import TableDefinition

        directory = TableDirectory(str(place))
        wanted = TableSpec(TableDefinition(topic), self._servers)
        cluster = ClusterClients(self._bootstrap, None)
        return TableWriter(cluster, directory, open_log(directory, name), wanted)

    def _connector(self, topic: str, count: int) -> float:
        with self._place() as place:
            took = timed(partial(self._copy, topic, place))
            found = self._spark.read.parquet(str(place)).count()
            if found != count:
                raise RecordsMissing(f"{found} of {count} rows are in the connector's files")
            return took

    def _copy(self, topic: str, place: Path) -> None:
        options = {**self._servers, "subscribe": topic, "includeHeaders": "true"}
        frame = self._spark.read.format(_THEIRS).options(**options).load().select(*_COLUMNS)
        frame.write.option("compression", "zstd").parquet(str(place))

    @contextmanager
    def _place(self) -> Iterator[Path]:
        place = self._folder / "table"
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)  # the disk holds one table at most


def _write_all(writer: "TableWriter", spark: "SparkSession") -> None:
    while writer.step(spark) is not None:
        pass


def _rates(measured: _Measured) -> list[ReportRow]:
    rows = []
    for name in _FORMATS:
        ours = measured.rate(name)
        numbers = {"rows_per_second": ours}
        if _THEIRS not in measured.written:
            rows.append(ReportRow(f"{name}, rows written", f"{ours:,.0f}/s", numbers=numbers))
            continue
        theirs = measured.rate(_THEIRS)
        numbers["reference_rows_per_second"] = theirs
        shown = f"{ours:,.0f}/s", f"{theirs:,.0f}/s"
        ratio = ours / theirs
        row = ratio_row(f"{name}, rows written", shown[0], shown[1], ratio, GOAL, **numbers)
        rows.append(row)
    return rows


def _idle(measured: _Measured) -> list[ReportRow]:
    return [
        ReportRow(
            f"{name}, a step when nothing is new",
            f"{(took := median(measured.idle[name])) * 1000:,.0f} ms",
            numbers={"seconds": took},
        )
        for name in _FORMATS
    ]


def _grown(small: _Measured, peak: float, run: _Tables, count: int) -> list[ReportRow]:
    """The rate and the memory with more rows, beside those with the first number of them."""
    before, after = small.rate("delta"), run.grow(count)
    grown = _peak_mib()
    name = f"delta, {count:,} rows"
    return [
        ratio_row(
            f"{name}: rate", f"{after:,.0f}/s", f"{before:,.0f}/s", after / before, _LEAST_GROWN,
            rows_per_second=after,
        ),
        ReportRow(
            f"{name}: peak of memory", f"{grown:,.0f} MiB", f"{peak:,.0f} MiB", grown / peak,
            numbers={"mib": grown},
        ),
    ]  # fmt: skip


def _peak_mib() -> float:
    """The greatest resident sizes so far of this process, Spark's driver and its workers."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    driver = gateway.proc.pid if gateway is not None and gateway.proc else None
    pids = [os.getpid(), *(_with_children(driver) if driver is not None else ())]
    return sum(_high_water_kib(pid) for pid in pids) * 1024 / _MIB


def _with_children(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            for child in children.read_text().split():
                yield from _with_children(int(child))


def _high_water_kib(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(found[0]) if found else 0
