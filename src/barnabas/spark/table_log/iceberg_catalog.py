"""A catalog of files for one Iceberg table, as Hadoop's: metadata/vN.metadata.json.

A commit creates the file of the next version and fails if it exists, so of two writers one wins.
`metadata/version-hint.text` names a recent version; the newest is found from there on. Readers such
as DuckDB, Spark (`spark.read.format("iceberg").load(PATH)`) and pyiceberg's StaticTable know this.
"""

import posixpath
import re
from typing import Any, Final

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import update_table_metadata

from barnabas.spark.data_directory import DataDirectory
from barnabas.spark.kill_points import reached

_HINT: Final = "metadata/version-hint.text"
_SUFFIX: Final = ".metadata.json"
_OURS: Final = re.compile(r"v(\d+)\.metadata\.json")
_NAME: Final = ("topics", "table")


class FileCatalog(NoopCatalog):
    """The catalog of the one table in a directory."""

    def __init__(self, directory: DataDirectory) -> None:
        super().__init__("files")
        self._directory = directory
        self._io = load_file_io({}, directory.uri)

    def version(self) -> int:
        """The newest version; 0 if there is no table."""
        hint = self._directory.read(_HINT)
        version = (
            int(hint) if hint and hint.strip().isdecimal() else max(self._versions(), default=0)
        )
        while self._directory.has(_path(version + 1)):
            version += 1
        return version

    def write_hint(self) -> None:
        """Let readers find the newest version, if a run died between a commit and its hint."""
        version = self.version()
        if version and self._directory.read(_HINT) != str(version):
            self._directory.write(_HINT, str(version))

    def _versions(self) -> list[int]:
        found = map(_OURS.fullmatch, self._directory.names("metadata"))
        return [int(each[1]) for each in found if each is not None]

    def is_of_others(self) -> bool:
        """True if there is metadata that another catalog wrote, under names of its own."""
        names = self._directory.names("metadata")
        return any(name.endswith(_SUFFIX) for name in names) and not self._versions()

    def forget(self, before: int) -> None:
        """Delete the metadata of versions before that one."""
        for version in self._versions():
            if version < before:
                self._directory.delete(_path(version))

    def load_table(self, identifier: Any = _NAME, *, version: int | None = None) -> Table:
        """The table at a version, or the newest one. Raises NoSuchTableError."""
        version = self.version() if version is None else version
        if not version:
            raise NoSuchTableError(f"{self._directory} has no Iceberg metadata")
        location = self._directory.uri_of(_path(version))
        metadata = FromInputFile.table_metadata(self._io.new_input(location))
        return Table(_NAME, metadata, location, self._io, self)

    def new_table(
        self,
        schema: Any,
        spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        properties: dict[str, str] | None = None,
    ) -> Table:
        """A table that exists only once its first change is committed."""
        metadata = new_table_metadata(
            location=self._directory.uri,
            schema=self._convert_schema_if_needed(schema),
            partition_spec=spec,
            sort_order=UNSORTED_SORT_ORDER,
            properties=properties or {},
        )
        return Table(_NAME, metadata, self._directory.uri_of(_path(0)), self._io, self)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        """Raises CommitFailedException if another commit came first."""
        base = version_of(table)
        for requirement in requirements:
            requirement.validate(table.metadata)
        metadata = update_table_metadata(
            table.metadata, updates, metadata_location=table.metadata_location
        )
        location = self._write(metadata, base + 1)
        return CommitTableResponse.model_construct(metadata=metadata, metadata_location=location)

    def _write(self, metadata: TableMetadata, version: int) -> str:
        path = _path(version)
        text = metadata.model_dump_json()
        if not self._directory.create(path, text):
            raise CommitFailedException(f"{self._directory} has a version {version} already")
        reached("half-committed")
        self._directory.write(_HINT, str(version))
        return self._directory.uri_of(path)


def _path(version: int) -> str:
    return f"metadata/v{version}{_SUFFIX}"


def _version(name: str) -> int:
    return int(name.removeprefix("v").removesuffix(_SUFFIX))


def version_of(table: Table) -> int:
    """The version of a table's metadata; 0 before its first commit."""
    return _version(posixpath.basename(table.metadata_location))
