"""A table as the source of a replay: its files and rows in the terms of an archive."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from barnabas.spark.archive.archive_files import ArchiveDirectory
from barnabas.spark.archive.archive_manifest import (
    ArchivedFile,
    ArchivedPartition,
    ArchivedTopic,
    Manifest,
    Part,
)
from barnabas.spark.source.value_columns import RECORD_COLUMNS, quoted
from barnabas.spark.table.table_files import FileWriter
from barnabas.spark.table_log.table_directory import TableDirectory
from barnabas.spark.table_log.table_file import TableFile
from barnabas.spark.table_log.table_log import load_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_LONG: Final = 2**63 - 1


class ReplayedTable(ArchiveDirectory):
    """The directory of a table; the plans of replays are stored in it, too."""

    def __init__(self, place: str) -> None:
        """Raises CommandFailed if there is no table."""
        super().__init__(place)
        self._directory = TableDirectory(place)
        self._log, self._snapshot = load_table(self._directory)
        self._files = {file.path: file for file in self._log.files(self._snapshot.version)}

    def load(self, *, must_exist: bool = False) -> Manifest:
        """The table's topic, and its files with what their statistics say."""
        state = self._snapshot.state
        partitions = {
            number: ArchivedPartition(each.start, each.end, leader_epoch=each.epoch)
            for number, each in state.partitions.items()
        }
        topic = ArchivedTopic(state.topic_id, state.partition_count, partitions)
        name = state.definition.topic
        files = tuple(_archived(file, name, partitions) for file in self._files.values())
        return Manifest(state.sequence, {name: topic}, files)

    def rows(
        self, spark: "SparkSession", folder: ArchiveDirectory, files: Iterable[ArchivedFile]
    ) -> "DataFrame":
        """The records in these files of this table. Decoded values are JSON again."""
        from pyspark.sql.types import StructType

        definition = self._snapshot.state.definition
        schema = StructType.fromJson(dict(self._snapshot.schema))
        writer = FileWriter(self._directory, self._log, definition.partition_by)
        rows = writer.read(spark, [self._files[file.path] for file in files], schema)
        if not definition.is_decoded:
            return rows
        return rows.selectExpr(*RECORD_COLUMNS, f"{_value(definition.columns)} AS value")


def _value(columns: Mapping[str, str]) -> str:
    fields = ", ".join(f"{quoted(each)} AS {quoted(name)}" for name, each in columns.items())
    empty = " AND ".join(f"{quoted(each)} IS NULL" for each in columns.values())
    return f"IF({empty}, NULL, cast(to_json(struct({fields})) AS BINARY))"


def _archived(file: TableFile, topic: str, partitions: Iterable[int]) -> ArchivedFile:
    low, high = file.bounds.get("partition", (0, _MOST_LONG))
    first, last = file.bounds.get("offset", (0, _MOST_LONG))
    earliest, latest = file.bounds.get("timestamp", (0, _MOST_LONG))
    parts = tuple(
        Part(number, file.records, first, last, earliest // 1000, -(-latest // 1000), 0)
        for number in partitions
        if low <= number <= high
    )
    return ArchivedFile(file.path, topic, "", file.bytes, parts)
