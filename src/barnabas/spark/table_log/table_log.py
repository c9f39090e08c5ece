"""The log of a table: its snapshots, and commits that hold the offsets that they cover."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from barnabas.base.errors import BarnabasError
from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.spark.data_directory import DataDirectory
from barnabas.spark.table_log.table_file import TableFile
from barnabas.spark.table_log.table_state import TableState

FORMATS: Final = ("delta", "iceberg", "parquet")


class CommitConflict(BarnabasError):
    """Another commit came first; the table is as that commit left it."""


@dataclass(frozen=True)
class TableSnapshot:
    """The table at one version; `schema` is Spark's JSON schema."""

    version: int
    state: TableState
    schema: Mapping[str, Any]


@dataclass(frozen=True)
class TableChange:
    """A commit: the state after it, and the files that it adds and removes.

    `is_upkeep` means that the rows stay the same.
    """

    state: TableState
    schema: Mapping[str, Any]
    added: Sequence[TableFile] = ()
    removed: Sequence[TableFile] = ()
    is_upkeep: bool = False


class TableLog(Protocol):
    """The commits of one table in one format."""

    name: str
    # Where data files are, below the table's directory.
    data_prefix: str
    # True if files contain their partition columns.
    keeps_partition_columns: bool
    # True if earlier versions can still be read, with files that the newest one has no more.
    has_snapshots: bool

    def load(self) -> TableSnapshot | None:
        """Return the newest snapshot; None if there is no table.

        Raises  CommandFailed if the table is not one of a topic
        """
        ...

    def commit(self, base: TableSnapshot | None, change: TableChange) -> None:
        """Make the change visible at once, on top of `base`.

        Raises  CommitConflict if the newest snapshot is not `base`; the table is unchanged then
        """
        ...

    def finish(self) -> None:
        """Complete the newest commit as its run would have, if that died amid it."""
        ...

    def files(self, version: int | None = None) -> list[TableFile]:
        """The data files of the newest snapshot, or of that version."""
        ...

    def expire(self, before_ms: int) -> int:
        """Forget snapshots before that time, and delete files that only they have.

        Return the number of files deleted. The newest snapshot stays.
        """
        ...


def open_log(directory: DataDirectory, name: str) -> TableLog:
    """The log of a table in the format `name`. Raises Misused for another format."""
    if name == "delta":
        from barnabas.spark.table_log.delta_log import DeltaLog

        return DeltaLog(directory)
    if name == "iceberg":
        from barnabas.spark.table_log.iceberg_log import IcebergLog

        return IcebergLog(directory)
    if name == "parquet":
        from barnabas.spark.table_log.parquet_log import ParquetLog

        return ParquetLog(directory)
    raise Misused(f"--format {name}: must be one of {', '.join(FORMATS)}")


def load_table(directory: DataDirectory) -> tuple[TableLog, TableSnapshot]:
    """The log and the newest snapshot of the table in the directory, whatever its format.

    Raises  CommandFailed if there is no table of ours, or if it cannot be read
    """
    found = found_format(directory)
    if found is None:
        raise CommandFailed(
            f"{directory} is not a table of a topic; create one with `barnabas pipeline table`"
        )
    log = open_log(directory, found)
    with directory.failures():
        snapshot = log.load()
    if snapshot is None:
        raise CommandFailed(f"{directory} has no commit yet")
    return log, snapshot


def found_format(directory: DataDirectory) -> str | None:
    """The format of the table in the directory; None if there is none. Raises CommandFailed."""
    with directory.failures():
        if directory.has("_delta_log"):
            return "delta"
        if directory.has("metadata"):
            return "iceberg"
        return "parquet" if directory.has("_commits") else None
