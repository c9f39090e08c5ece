"""Upserts: a table that holds the latest record of each key, as a compacted topic does.

Files that have a key of the step are written again without those keys, beside the new rows. A
record without a value deletes its key's row. A record without a key cannot be a row.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote

from barnabas.spark.source.value_columns import TOMBSTONE, quoted
from barnabas.spark.table.table_files import FileWriter
from barnabas.spark.table_log.table_file import TableFile
from barnabas.spark.table_log.table_log import TableLog, TableSnapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def latest(rows: "DataFrame") -> "DataFrame":
    """The last row of each key: by offset in a partition, by timestamp across partitions.

    A key is in more than one partition only if the topic got more partitions.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.window import Window

    in_partition = Window.partitionBy("partition", "key").orderBy(f.col("offset").desc())
    of_all = Window.partitionBy("key").orderBy(f.col("timestamp").desc(), f.col("partition").desc())
    last = rows.where("key IS NOT NULL").withColumn("_place", f.row_number().over(in_partition))
    one = last.where("_place = 1").withColumn("_place", f.row_number().over(of_all))
    return one.where("_place = 1").drop("_place")


@contextmanager
def upserting(
    spark: "SparkSession",
    log: TableLog,
    files: FileWriter,
    snapshot: TableSnapshot | None,
    rows: "DataFrame",
) -> Iterator[tuple["DataFrame", Sequence[TableFile]]]:
    """Yield the rows to write, and the files that they replace."""
    changes = latest(rows).cache()
    try:
        yield _upserted(spark, files, log.files() if snapshot is not None else [], changes)
    finally:
        changes.unpersist()


def _upserted(
    spark: "SparkSession", files: FileWriter, present: Sequence[TableFile], changes: "DataFrame"
) -> tuple["DataFrame", Sequence[TableFile]]:
    from pyspark.sql import functions as f

    def rows() -> "DataFrame":
        return changes.where(f"NOT {TOMBSTONE}").drop(TOMBSTONE)

    if not present:
        return rows(), ()
    live = {file.path.rpartition("/")[2]: file for file in present}
    file_name = f.element_at(f.split(f.col("_metadata.file_path"), "/"), -1).alias("_file")
    old = files.read(spark, present, rows().schema).select(
        "key", "partition", "timestamp", file_name
    )
    new = changes.selectExpr("key", "partition AS _partition", "timestamp AS _timestamp")
    # The row of another partition may be the later one, as `latest` says.
    is_late = f.expr("partition <> _partition AND timestamp > _timestamp").alias("_late")
    met = old.join(new, "key").select("key", "_file", is_late)
    hits = met.select("_file", "_late").distinct().collect()
    if any(late for _, late in hits):
        changes = changes.join(met.where("_late").select("key"), "key", "left_anti")
    replaced = [live[unquote(name)] for name, late in hits if not late]
    if not replaced:
        return rows(), ()
    columns = [quoted(name) for name in rows().columns]
    kept = files.read(spark, replaced, rows().schema)
    kept = kept.join(changes.select("key"), "key", "left_anti").select(*columns)
    return kept.unionByName(rows().select(*columns)), replaced
