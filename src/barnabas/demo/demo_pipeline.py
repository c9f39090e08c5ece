"""The demo's streaming query: revenue per minute and category, in a topic about a second later.

Each micro-batch writes every total once more, under its minute and category as key: the latest
record of a key is the result. So results need no watermark, and no order is too late.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.demo.demo_sales import ORDERS
from barnabas.spark.spark_errors import spark_errors, spark_failures, unless_late

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REVENUE: Final = "revenue"
GROUP: Final = "shop-pipeline"
ORDER_FIELDS: Final = "order LONG, time TIMESTAMP, customer INT, category STRING, cents LONG"
_EVERY: Final = "500 milliseconds"
_LOOK_EVERY_S: Final = 0.2

StreamingQuery = Any  # of PySpark, classic or Connect


def start_query(spark: "SparkSession", bootstrap: str, checkpoint: Path) -> StreamingQuery:
    """Start the query, or resume it from its checkpoint."""
    from pyspark.sql.functions import col, concat_ws, from_json, struct, to_json, window
    from pyspark.sql.functions import count as counted
    from pyspark.sql.functions import sum as added

    # Spark looks up formats in the active session of the thread; this makes it this one.
    spark.createDataFrame([], "unused INT")
    servers = {"kafka.bootstrap.servers": bootstrap}
    messages = (
        spark.readStream.format("barnabas")
        .options(**servers, subscribe=ORDERS, startingOffsets="earliest", groupId=GROUP)
        .load()
    )
    order = from_json(col("value").cast("string"), ORDER_FIELDS)
    revenue = (
        messages.select(order.alias("order"))
        .groupBy(window("order.time", "1 minute"), col("order.category").alias("category"))
        .agg(counted("*").alias("orders"), added("order.cents").alias("cents"))
        .withColumn("minute", col("window.start"))
    )
    key = concat_ws(" ", col("minute").cast("string"), "category")
    result = to_json(struct("minute", "category", "orders", "cents"))
    return (
        revenue.select(key.alias("key"), result.alias("value"))
        .writeStream.format("barnabas")
        .options(**servers, topic=REVENUE, exactlyOnce="true")
        .option("checkpointLocation", str(checkpoint))
        .outputMode("complete")
        .trigger(processingTime=_EVERY)
        .start()
    )


class LiveQuery:
    """Runs the query in a thread of its own until all orders are counted."""

    def __init__(self, start: Callable[[], StreamingQuery]) -> None:
        self.is_live = threading.Event()  # the first results are written
        self._start = start
        self._query: StreamingQuery | None = None
        self._complete = threading.Event()
        self._is_stopped = False

    def run(self) -> None:
        """Return when all orders before `complete` are counted. Raises CommandFailed."""
        unless_late(self._run)
        self._query = None

    def complete(self) -> None:
        """There are no more orders."""
        self._complete.set()

    def stop(self) -> None:
        """Stop the query, if it runs, from another thread."""
        self._is_stopped = True
        self._complete.set()
        query = self._query
        if query is not None:
            with suppress(*spark_errors()):
                query.stop()

    def _run(self) -> None:
        if self._is_stopped:
            return
        with spark_failures("the query failed"):
            self._query = query = self._start()
            try:
                query.processAllAvailable()
                self.is_live.set()
                while not self._complete.is_set():
                    query.awaitTermination(_LOOK_EVERY_S)
                query.processAllAvailable()
            finally:
                query.stop()
