"""One run of the demo, step by step, with its output."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from barnabas.base.clock import Stopwatch
from barnabas.cli.exit_codes import CommandFailed
from barnabas.demo.demo_cluster import BROKERS, DemoCluster
from barnabas.demo.demo_pipeline import LiveQuery, start_query
from barnabas.demo.demo_proof import (
    Claim,
    Counted,
    Logged,
    decide_claims,
    decide_same_bytes,
    read_log,
    read_topic,
)
from barnabas.demo.demo_report import failover_gap, write_report
from barnabas.demo.demo_results import Freshness
from barnabas.demo.demo_sales import Till
from barnabas.demo.demo_selling import Selling
from barnabas.demo.demo_table import FORMAT, write_table
from barnabas.demo.demo_watch import PARTITIONS, DemoWatch
from barnabas.demo.shop import Shop
from barnabas.spark.session import SparkPlace, spark_session
from barnabas.spark.spark_errors import spark_failures, unless_late

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED: Final = 20260504
# A second is a minute on the shop's clock, and longer if the sale would have more minutes.
_MOST_MINUTES: Final = 60
_MOST_AHEAD_S: Final = 10
# Fast to start rather than fast in the long run: the demo is short, perhaps on two cores.
_SPARK: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


class DemoOptions(NamedTuple):
    """The options of the command."""

    directory: Path
    report: Path
    seconds: int
    per_second: int


class DemoRun:
    """One run of the demo."""

    def __init__(self, options: DemoOptions, console: Console, stopwatch: Stopwatch) -> None:
        self._options = options
        self._console = console
        self._stopwatch = stopwatch
        self._begun_ns = stopwatch()
        self._steps = 0

    def run(self) -> None:
        """Run the demo. Raises CommandFailed, no process left, if a claim does not hold."""
        cluster = DemoCluster(self._options.directory / "cluster")
        settings = {**_SPARK, "spark.sql.warehouse.dir": str(self._options.directory / "tables")}
        try:
            self._step(f"Starting {BROKERS} brokers, ZooKeeper and Spark")
            cluster.launch()  # starts while Spark does
            with spark_session("demo", SparkPlace(settings=settings)) as spark:
                cluster.wait_until_ready()
                self._say(f"ready after {self._elapsed_s:.0f} s on {cluster.bootstrap}")
                self._run_with(cluster, spark)
        finally:
            cluster.stop()
        self._say(f"all processes stopped after {self._elapsed_s:.0f} s in total")
        self._say(
            "to look at all of it in the console: run `barnabas demo --keep ./shop`, then"
            " `barnabas cluster --data ./shop/cluster --console`, and open http://127.0.0.1:8080/"
        )

    def _run_with(self, cluster: DemoCluster, spark: "SparkSession") -> None:
        self._step("Creating two topics, every partition on every broker")
        watch = DemoWatch(cluster.bootstrap)
        watch.create_topics()
        for name, count in PARTITIONS.items():
            self._say(f"{name}: {count} partitions, replication factor {BROKERS}")
        self._step("Selling and counting, while a broker is killed and restarted")
        till = self._open_till(cluster.bootstrap)
        checkpoint = self._options.directory / "checkpoint"
        query = LiveQuery(lambda: start_query(spark, cluster.bootstrap, checkpoint))
        selling = Selling(cluster, till, query, watch, self._say)
        self._sell(selling)
        self._say(
            f"no acknowledgements for {failover_gap(till.ledger).seconds:.1f} s after the kill;"
            " then new leaders were elected, and the producer continued"
        )
        self._say(f"from an order to its result: {selling.freshness}")
        self._step("Writing the topic of orders to a table, and checking all data")
        table = write_table(spark, cluster.bootstrap, self._options.directory / "tables" / "orders")
        self._say(f"{FORMAT} table of {table.audit.rows:,} rows: {', '.join(table.columns)}, ...")
        logged, topic = unless_late(lambda: _read(spark, cluster.bootstrap))
        claims = [
            *decide_claims(till.ledger, logged, table.revenue, topic),
            table.claim,
            decide_same_bytes(cluster.directory),
        ]
        self._show(claims)
        self._step("Writing the report")
        report = self._options.report
        write_report(report, till.ledger, selling.events, selling.freshness, claims, table)
        self._say(f"{report}")
        if not all(claim.holds for claim in claims):
            raise CommandFailed("the demo failed: not all claims hold")

    def _open_till(self, bootstrap: str) -> Till:
        per_second = self._options.per_second
        seconds_per_minute = -(-self._options.seconds // _MOST_MINUTES)
        shop = Shop(per_second * seconds_per_minute, SEED)
        return Till(bootstrap, shop, per_second, _MOST_AHEAD_S * per_second, self._stopwatch)

    def _sell(self, selling: Selling) -> None:
        columns = (
            TextColumn("   {task.description}"),
            BarColumn(None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
        )
        total = self._options.seconds * self._options.per_second
        with Progress(*columns, console=self._console, redirect_stdout=False) as progress:
            acknowledged = progress.add_task("orders acknowledged", total=total, note="")
            counted = progress.add_task("orders in results  ", total=total, note="")

            def show(now_acknowledged: int, freshness: Freshness) -> None:
                progress.update(acknowledged, completed=now_acknowledged)
                progress.update(counted, completed=freshness.counted, note=f"after {freshness}")

            selling.run(self._options.seconds, show)

    @property
    def _elapsed_s(self) -> float:
        return (self._stopwatch() - self._begun_ns) / 1_000_000_000

    def _step(self, title: str) -> None:
        self._steps += 1
        self._console.print(f"\n[bold cyan]{self._steps}. {title}[/]")

    def _say(self, text: str) -> None:
        self._console.print(f"   {text}", soft_wrap=True)

    def _show(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            mark = "[green]✓[/]" if claim.holds else "[red]✗[/]"
            self._console.print(f"   {mark} {claim.text}", soft_wrap=True)


def _read(spark: "SparkSession", bootstrap: str) -> tuple[Logged, Counted]:
    with spark_failures("reading the results"):
        return read_log(spark, bootstrap), read_topic(spark, bootstrap)
