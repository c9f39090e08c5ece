"""The demo, told in the order it happens; each claim is checked against the data."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from barnabas.base.clock import Stopwatch
from barnabas.cli.exit_codes import CommandFailed
from barnabas.demo.demo_cluster import BROKERS, DemoCluster
from barnabas.demo.demo_pipeline import WATERMARK, Updates, write_project
from barnabas.demo.demo_proof import (
    Claim,
    Counted,
    Logged,
    decide_claims,
    decide_same_bytes,
    read_log,
    read_parquet,
    read_topic,
)
from barnabas.demo.demo_report import failover_gap, write_report
from barnabas.demo.demo_sales import Till
from barnabas.demo.demo_selling import Selling
from barnabas.demo.demo_watch import PARTITIONS, Watch
from barnabas.demo.shop import Shop
from barnabas.spark.session import SparkPlace, spark_session
from barnabas.spark.spark_errors import spark_failures, unless_late

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED: Final = 20260504
# One second is one minute on the shop's clock. The till is never further ahead of an order that
# is not acknowledged than half of what the pipeline waits for late ones: so none is too late.
AHEAD_MINUTES: Final = int(WATERMARK.total_seconds()) // 120
# Quick to start rather than fast in the long run: the demo is short, and may have two cores.
_SPARK: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


class Choices(NamedTuple):
    """What the user chose."""

    folder: Path
    report: Path
    seconds: int
    per_second: int


class Story:
    """One run of the demo."""

    def __init__(self, choices: Choices, console: Console, stopwatch: Stopwatch) -> None:
        self._choices = choices
        self._console = console
        self._stopwatch = stopwatch
        self._begun_ns = stopwatch()
        self._steps = 0

    def tell(self) -> None:
        """All of it. Raises CommandFailed, nothing left running, if a claim does not hold."""
        cluster = DemoCluster(self._choices.folder / "cluster")
        settings = {**_SPARK, "spark.sql.warehouse.dir": str(self._choices.folder / "tables")}
        try:
            self._step(f"{BROKERS} brokers, ZooKeeper and Spark start")
            cluster.launch()  # it starts while Spark does
            with spark_session("demo", SparkPlace(settings=settings), connect=True) as spark:
                cluster.wait_until_ready()
                self._say(f"after {self._elapsed_s:.0f} s they serve on {cluster.bootstrap}")
                self._tell_with(cluster, spark)
        finally:
            cluster.stop()
        self._say(f"nothing is left running, after {self._elapsed_s:.0f} seconds in all")

    def _tell_with(self, cluster: DemoCluster, spark: "SparkSession") -> None:
        self._step("Two topics, every partition on every broker")
        watch = Watch(cluster.bootstrap)
        watch.create_topics()
        for name, count in PARTITIONS.items():
            self._say(f"{name}: {count} partitions, {BROKERS} replicas of each")
        self._step("The shop sells, the pipeline counts, a broker dies and returns")
        till = self._open_till(cluster.bootstrap)
        project = write_project(self._choices.folder / "pipeline", cluster.bootstrap)
        updates = Updates(spark, project, self._stopwatch)
        selling = Selling(cluster, till, updates, watch, self._say)
        self._sell(selling)
        self._say(
            f"nothing was acknowledged for {failover_gap(till.ledger).seconds:.1f} s after the"
            " kill; then other brokers led, and the producer went on by itself"
        )
        self._step("The proof, from the data")
        logged, parquet, topic = unless_late(lambda: _read(spark, cluster.bootstrap))
        claims = decide_claims(till.ledger, logged, parquet, topic)
        claims.append(decide_same_bytes(cluster.folder))
        self._show(claims)
        self._step("The report")
        write_report(self._choices.report, till.ledger, selling.events, claims, parquet)
        self._say(f"{self._choices.report}")
        if not all(claim.holds for claim in claims):
            raise CommandFailed("the demo failed: not all of its claims hold")

    def _open_till(self, bootstrap: str) -> Till:
        per_second = self._choices.per_second
        shop = Shop(per_second, SEED)
        return Till(bootstrap, shop, per_second, AHEAD_MINUTES * per_second, self._stopwatch)

    def _sell(self, selling: Selling) -> None:
        columns = (TextColumn("   {task.description}"), BarColumn(None), MofNCompleteColumn())
        total = self._choices.seconds * self._choices.per_second
        with Progress(*columns, console=self._console, redirect_stdout=False) as progress:
            acknowledged = progress.add_task("orders acknowledged", total=total)
            counted = progress.add_task("orders counted     ", total=total)

            def show(now_acknowledged: int, now_counted: int) -> None:
                progress.update(acknowledged, completed=now_acknowledged)
                progress.update(counted, completed=now_counted)

            selling.run(self._choices.seconds, show)

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


def _read(spark: "SparkSession", bootstrap: str) -> tuple[Logged, Counted, Counted]:
    with spark_failures("reading what was counted"):
        return read_log(spark, bootstrap), read_parquet(spark), read_topic(spark, bootstrap)
