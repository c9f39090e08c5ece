"""The demo's table: the topic of orders in Delta, audited against the log, read by delta-rs."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.cli.client import ClusterClients
from barnabas.demo.demo_pipeline import ORDER_FIELDS
from barnabas.demo.demo_proof import Claim, Counted, counted
from barnabas.demo.demo_sales import ORDERS
from barnabas.demo.shop import OPENING
from barnabas.spark.pipeline_options import source_options
from barnabas.spark.spark_errors import unless_late
from barnabas.spark.table.table_audit import TableAudit, audit_table, find_comparable
from barnabas.spark.table.table_run import TableSpec, TableWriter
from barnabas.spark.table_log.table_directory import TableDirectory
from barnabas.spark.table_log.table_log import open_log
from barnabas.spark.table_log.table_state import TableDefinition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "delta"


class DemoTable(NamedTuple):
    """The table and its audit; `first` are a few rows, below the names of their columns."""

    path: Path
    audit: TableAudit
    revenue: Counted
    columns: tuple[str, ...]
    first: list[tuple[Any, ...]]

    @property
    def claim(self) -> Claim:
        return Claim(
            not self.audit.problems and self.audit.compared == self.audit.rows,
            f"the table and the log agree: {self.audit.rows:,} rows,"
            f" {self.audit.compared:,} compared with their records",
        )


def write_table(spark: "SparkSession", bootstrap: str, path: Path) -> DemoTable:
    """Write the topic to a table, and audit it. Raises CommandFailed."""
    values = {"value.format": "json", "value.schema": ORDER_FIELDS}
    options = source_options(bootstrap, None)
    cluster, directory = ClusterClients(bootstrap, None), TableDirectory(str(path))
    log, wanted = open_log(directory, FORMAT), TableSpec(TableDefinition(ORDERS, values), options)
    with directory.locked():
        writer = TableWriter(cluster, directory, log, wanted)
        while (step := unless_late(lambda: writer.step(spark))) is not None and step.left:
            pass
    snapshot = writer.snapshot
    assert snapshot is not None, "the topic has the opening message at least"
    both = find_comparable(cluster, snapshot)
    audit = unless_late(
        lambda: audit_table(spark, cluster, options, directory, log, snapshot, both)
    )
    return read_table(path, audit)


def read_table(path: Path, audit: TableAudit) -> DemoTable:
    """Sum up the table with delta-rs and Arrow: no code that wrote it, and no Spark."""
    compute: Any = import_module("pyarrow.compute")
    found = import_module("deltalake").DeltaTable(str(path)).to_pyarrow_table()
    orders = found.filter(compute.field("category") != OPENING)
    minutes = compute.floor_temporal(orders["time"], unit="minute")
    sums = (
        orders.append_column("minute", minutes)
        .group_by(["minute", "category"])
        .aggregate([("order", "count_distinct"), ("cents", "sum")])
    )
    rows = sums.select(["minute", "category", "order_count_distinct", "cents_sum"])
    shown = orders.select(["partition", "offset", "order", "time", "category", "cents"])
    return DemoTable(
        path,
        audit,
        counted(tuple(row.values()) for row in rows.to_pylist()),
        tuple(shown.column_names),
        [tuple(row.values()) for row in shown.slice(0, 5).to_pylist()],
    )
