"""Data files of a step: Spark's executors write them, the driver moves them to their places."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.base.randomness import Random
from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.kill_points import reached
from barnabas.spark.source.value_columns import quoted
from barnabas.spark.table_log.table_directory import TableDirectory
from barnabas.spark.table_log.table_file import PARTITION_COPY, TableFile, total_rows
from barnabas.spark.table_log.table_log import TableLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS_IN_A_FILE: Final = 1_000_000
TARGET_BYTES: Final = 128 * 1024 * 1024
_TELLING_BYTES: Final = 1024 * 1024
# Fewer are not worth a task and a file of their own.
_RECORDS_IN_A_TASK: Final = 100_000


class Written(NamedTuple):
    """New data files that no commit lists yet."""

    files: Sequence[TableFile]
    schema: Mapping[str, Any]


class FileWriter:
    """Writes rows as data files of one table."""

    def __init__(
        self, directory: TableDirectory, log: TableLog, partition_by: Sequence[str]
    ) -> None:
        self._directory = directory
        self._log = log
        self._partition_by = partition_by

    def write(
        self,
        rows: "DataFrame",
        sequence: int,
        tasks: int,
        *,
        in_order: bool = False,
        most_records: int = RECORDS_IN_A_FILE,
    ) -> Written:
        """Write the rows with at most `tasks` tasks, for commit `sequence`.

        With `in_order` the rows of a task are by partition and offset already. A file has at most
        `most_records`; 0 is no limit.

        Raises  CommandFailed if the files have another number of rows than were written
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        _set_timestamps(rows.sparkSession)
        self._directory.clear_staging()
        seen = Observation(f"table-{sequence}-{Random().uuid()}")
        schema = rows.schema.jsonValue()
        by = list(self._partition_by)
        if by and self._log.keeps_partition_columns:
            rows = rows.withColumns({f"{PARTITION_COPY}{name}": f.col(quoted(name)) for name in by})
            by = [f"{PARTITION_COPY}{name}" for name in by]
        rows = rows.coalesce(tasks)
        if by or not in_order:
            rows = rows.sortWithinPartitions(*map(quoted, by), "partition", "offset")
        writer = (
            rows.observe(seen, f.count(f.lit(1)).alias("rows"))
            .write.option("maxRecordsPerFile", most_records)
            .option("compression", "zstd")
        )
        reached("before-write")
        (writer.partitionBy(*by) if by else writer).parquet(self._directory.staging_uri)
        reached("written")
        token = Random().uuid().hex[:8]
        files = self._directory.place_staged(self._log.data_prefix, sequence, token)
        reached("placed")
        if (found := total_rows(files)) != (wrote := int(seen.get["rows"] or 0)):
            raise CommandFailed(
                f"{self._directory}: the new files have {found} rows but {wrote} were written;"
                " the table is unchanged, run the command again"
            )
        return Written(files, schema)

    def read(self, spark: "SparkSession", files: Sequence[TableFile], schema: Any) -> "DataFrame":
        """The rows in these files of the table, with the columns of `schema`."""
        paths = [self._directory.uri_of(file.path) for file in files]
        reader = spark.read.schema(schema).option("basePath", self._directory.uri)
        return reader.parquet(*paths).select(*map(quoted, schema.fieldNames()))


def decide_file_records(files: Sequence[TableFile], target_bytes: int) -> int:
    """The most rows of a new file, so that it has about the target's size if rows stay alike."""
    # In smaller files much else counts: a footer may be larger than a row.
    told = [file for file in files if file.bytes >= _TELLING_BYTES]
    size, rows = sum(file.bytes for file in told), total_rows(told)
    if not rows:
        return RECORDS_IN_A_FILE
    return max(1, min(RECORDS_IN_A_FILE, rows * target_bytes // size))


def tasks_for(records: int) -> int:
    """The most tasks that are worth it for so many records."""
    return max(1, -(-records // _RECORDS_IN_A_TASK))


def _set_timestamps(spark: "SparkSession") -> None:
    # INT96, the default, would leave the files without statistics of timestamps.
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
