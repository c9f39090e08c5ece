"""Upserts: a table that holds the latest record of each key, as a compacted topic does.

Files that have a key of the step are written again without those keys, beside the new rows. A
record without a value deletes its key's row. A record without a key cannot be a row.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from barnabas.spark.table.table_files import FileWriter
from barnabas.spark.table.table_rows import TOMBSTONE
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
    of_all = Window.partitionBy("key").orderBy(f.col("timestamp").desc())
    last = rows.where("key IS NOT NULL").withColumn("_place", f.row_number().over(in_partition))
    one = last.where("_place = 1").withColumn("_place", f.row_number().over(of_all))
    return one.where("_place = 1").drop("_place")


def upserted(
    spark: "SparkSession",
    log: TableLog,
    files: FileWriter,
    snapshot: TableSnapshot | None,
    rows: "DataFrame",
) -> tuple["DataFrame", Sequence[TableFile]]:
    """The rows to write, and the files that they replace."""
    from pyspark.sql import functions as f

    changes = latest(rows).cache()
    new = changes.where(f"NOT {TOMBSTONE}").drop(TOMBSTONE)
    if snapshot is None:
        return new, ()
    live = {file.path.rpartition("/")[2]: file for file in log.files()}
    if not live:
        return new, ()
    old = files.read(spark, list(live.values()), new.schema)
    named = old.withColumn("_file", f.element_at(f.split(f.col("_metadata.file_path"), "/"), -1))
    hit = named.join(changes.select("key"), "key", "left_semi").select("_file").distinct()
    replaced = [live[unquote(row[0])] for row in hit.collect()]
    if not replaced:
        return new, ()
    kept = files.read(spark, replaced, new.schema).join(changes.select("key"), "key", "left_anti")
    return kept.select(*new.columns).unionByName(new), replaced
