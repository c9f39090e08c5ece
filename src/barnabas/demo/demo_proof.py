"""The demo's proof from the data: acknowledged orders are in the log, and counted once."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.demo.demo_cluster import BROKERS
from barnabas.demo.demo_pipeline import REVENUE
from barnabas.demo.demo_sales import ORDERS, Ledger, Total, Window
from barnabas.demo.shop import OPENING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ORDER: Final = "order LONG, category STRING, cents LONG"
_WINDOW: Final = "minute TIMESTAMP, category STRING, orders LONG, cents LONG"


class Claim(NamedTuple):
    """A claim of the demo, and whether it holds in the data."""

    holds: bool
    text: str


class Logged(NamedTuple):
    """The orders in the topic."""

    orders: int
    distinct: int
    first: int
    last: int
    cents: int


class Counted(NamedTuple):
    """The results of the pipeline in one place."""

    revenue: Mapping[Window, Total]
    twice: int  # windows that occur more than once

    @property
    def total(self) -> Total:
        sold = self.revenue.values()
        return Total(sum(each.orders for each in sold), sum(each.cents for each in sold))


def read_log(spark: "SparkSession", bootstrap: str) -> Logged:
    """Read every order of the topic."""
    from pyspark.sql.functions import col, count, count_distinct, from_json
    from pyspark.sql.functions import max as largest
    from pyspark.sql.functions import min as least
    from pyspark.sql.functions import sum as added

    parsed = _messages(spark, bootstrap, ORDERS).select(
        from_json(col("value").cast("string"), _ORDER).alias("order")
    )
    orders = parsed.select("order.*").where(col("category") != OPENING)
    row = orders.agg(
        count("*"), count_distinct("order"), least("order"), largest("order"), added("cents")
    ).collect()[0]
    return Logged(*(value or 0 for value in row))


def read_topic(spark: "SparkSession", bootstrap: str) -> Counted:
    """Read the results from the topic: the latest record of each key."""
    from pyspark.sql.functions import col, from_json, max_by

    latest = (
        _messages(spark, bootstrap, REVENUE)
        .groupBy("key")
        .agg(max_by(col("value").cast("string"), "offset").alias("value"))
    )
    results = latest.select(from_json("value", _WINDOW).alias("window")).select("window.*")
    return counted(results.where(col("category") != OPENING).collect())


def counted(rows: Iterable[tuple[Any, ...]]) -> Counted:
    """The windows in `rows`, and how many occur more than once."""
    revenue: dict[Window, Total] = {}
    seen: Counter[Window] = Counter()
    for minute, category, orders, cents in rows:
        window = _in_utc(minute), category
        before = revenue.get(window, Total(0, 0))
        revenue[window] = Total(before.orders + orders, before.cents + cents)
        seen[window] += 1
    return Counted(revenue, sum(1 for times in seen.values() if times > 1))


def decide_claims(ledger: Ledger, logged: Logged, table: Counted, topic: Counted) -> list[Claim]:
    """The claims of the demo, with their figures."""
    total = ledger.total
    claims = [
        Claim(
            ledger.acknowledged == ledger.sent,
            f"all {ledger.sent:,} orders sent were acknowledged by the in-sync replicas",
        ),
        Claim(
            (logged.first, logged.last, logged.distinct) == (0, ledger.sent - 1, ledger.sent)
            and logged.cents == total.cents,
            f"the log has every acknowledged order: {logged.distinct:,} distinct ones,"
            f" numbers {logged.first:,} to {logged.last:,}",
        ),
        Claim(
            logged.orders == logged.distinct,
            f"no order is duplicated in the log: {logged.orders:,} messages for"
            f" {logged.distinct:,} orders, despite retries",
        ),
    ]
    for place, found in (("the table", table), ("the topic of results", topic)):
        claims += [
            Claim(
                found.total == total,
                f"{place} counts {found.total.orders:,} orders and"
                f" {found.total.cents / 100:,.2f} of revenue; {total.orders:,} orders and"
                f" {total.cents / 100:,.2f} were acknowledged",
            ),
            Claim(
                found.revenue == ledger.revenue and not found.twice,
                f"{place} has each of the {len(ledger.revenue):,} minutes and categories once,"
                " correct to the order and to the cent",
            ),
        ]
    return claims


def decide_same_bytes(cluster: Path) -> Claim:
    """The claim that all brokers, including the killed one, have equal files.

    `cluster` is the directory of the cluster, which may run but gets no more orders.
    """
    contents: dict[str, list[bytes]] = {}
    for directory in sorted(cluster.glob(f"broker-*/data/{ORDERS}-*")):
        segments = [path.read_bytes() for path in sorted(directory.glob("*.log"))]
        contents.setdefault(directory.name, []).append(b"".join(segments))
    size = sum(len(copies[0]) for copies in contents.values())
    return Claim(
        bool(size) and all(copies.count(copies[0]) == BROKERS for copies in contents.values()),
        f"all {BROKERS} brokers, including the killed one, have the same {size:,} bytes of the"
        f" {len(contents)} partitions of orders on disk",
    )


def _messages(spark: "SparkSession", bootstrap: str, topic: str) -> "DataFrame":
    return (
        spark.read.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .load()
    )


def _in_utc(minute: datetime) -> datetime:
    """Spark returns times without a zone, in the session's zone, which is UTC."""
    return minute.replace(tzinfo=UTC)
