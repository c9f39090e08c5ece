"""The demo's declarative pipeline: its project files, and its updates."""

import contextlib
import io
import threading
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.base.clock import Stopwatch
from barnabas.demo.demo_sales import ORDERS
from barnabas.spark.spark_errors import spark_failures, unless_late

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REVENUE: Final = "revenue"
GROUP: Final = "shop-pipeline"
# The watermark delay, by the shop's clock.
WATERMARK: Final = timedelta(minutes=20)

_SPEC: Final = """\
name: shop
storage: {directory}/storage
configuration:
  spark.sql.session.timeZone: UTC
libraries:
  - glob:
      include: transformations/**
"""
_ORDERS: Final = '''\
"""Orders as they come from the topic, parsed."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json

spark = SparkSession.active()


@dp.temporary_view
def orders() -> DataFrame:
    messages = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", "{bootstrap}")
        .option("subscribe", "{orders}")
        .option("startingOffsets", "earliest")
        .option("groupId", "{group}")
        .load()
    )
    fields = "order LONG, time TIMESTAMP, customer INT, category STRING, cents LONG"
    parsed = messages.select(from_json(col("value").cast("string"), fields).alias("order"))
    return parsed.select("order.*")
'''
_REVENUE: Final = """\
-- Revenue for each minute and category, kept as Parquet. A minute is written once no order of it
-- can come any more: when the latest order is {watermark} minutes further.
CREATE STREAMING TABLE revenue USING PARQUET AS
SELECT window.start AS minute, category, count(*) AS orders, sum(cents) AS cents
FROM STREAM(orders) WATERMARK time DELAY OF INTERVAL {watermark} MINUTES
GROUP BY window(time, '1 minute'), category;
"""
_PUBLISH: Final = '''\
"""The same revenue, as messages in a topic: each minute and category once."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, struct, to_json

spark = SparkSession.active()

dp.create_sink(
    "revenue_topic",
    "barnabas",
    {{
        "kafka.bootstrap.servers": "{bootstrap}",
        "topic": "{revenue}",
        "exactlyOnce": "true",
    }},
)


@dp.append_flow(target="revenue_topic")
def publish_revenue() -> DataFrame:
    fields = struct("minute", "category", "orders", "cents")
    revenue = spark.readStream.table("revenue")
    return revenue.select(col("category").alias("key"), to_json(fields).alias("value"))
'''


class Update(NamedTuple):
    """One run of the pipeline over the new orders."""

    begin_ns: int
    end_ns: int


def write_project(directory: Path, bootstrap: str) -> Path:
    """Write the project; return the path of its specification."""
    values = {
        "directory": directory.absolute().as_uri(),
        "bootstrap": bootstrap,
        "orders": ORDERS,
        "revenue": REVENUE,
        "group": GROUP,
        "watermark": int(WATERMARK.total_seconds()) // 60,
    }
    files = {
        "spark-pipeline.yml": _SPEC,
        "transformations/orders.py": _ORDERS,
        "transformations/revenue.sql": _REVENUE,
        "transformations/publish.py": _PUBLISH,
    }
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text.format(**values))
    return directory / "spark-pipeline.yml"


class PipelineUpdates:
    """PipelineUpdates of the pipeline, one after the other in their own thread."""

    def __init__(self, spark: "SparkSession", specification: Path, stopwatch: Stopwatch) -> None:
        self.done: list[Update] = []
        self._spark = spark
        self._specification = specification
        self._stopwatch = stopwatch
        self._complete = threading.Event()
        self._is_over = False

    def run(self) -> None:
        """Update until `complete` is called, and once more for the last orders.

        Raises  CommandFailed if an update fails
        """
        while not self._complete.is_set():
            unless_late(self._update)
        unless_late(self._update)
        self._is_over = True

    def complete(self) -> None:
        """There are no more orders: the update after the current one is the last."""
        self._complete.set()

    def stop(self) -> None:
        """Interrupt the running update, if any, from another thread; it then fails."""
        self._complete.set()
        if not self._is_over:
            self._spark.interruptAll()

    def _update(self) -> None:
        begin_ns = self._stopwatch()
        with spark_failures("the pipeline failed"):
            update_once(self._spark, self._specification)
        self.done.append(Update(begin_ns, self._stopwatch()))


def update_once(spark: "SparkSession", specification: Path) -> None:
    """Run the project over all current records; Spark retries a failing flow."""
    from pyspark.pipelines.cli import load_pipeline_spec, register_definitions
    from pyspark.pipelines.spark_connect_graph_element_registry import (
        SparkConnectGraphElementRegistry,
    )
    from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run

    project = load_pipeline_spec(specification)
    graph = create_dataflow_graph(spark, project.catalog, project.database, project.configuration)
    registry = SparkConnectGraphElementRegistry(spark, graph)
    # Suppress Spark's progress messages.
    with contextlib.redirect_stdout(io.StringIO()):
        register_definitions(specification, registry, project, spark, graph)
    for _ in start_run(spark, graph, None, False, None, False, project.storage):
        pass
