"""The log of an Iceberg table, through pyiceberg: offsets in the snapshot's summary.

The same commit puts the state into the table's properties, which survive expired snapshots.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, Final

from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.data_directory import DataDirectory
from barnabas.spark.kill_points import reached
from barnabas.spark.table_log.table_file import Bounds, TableFile, partition_values, plain
from barnabas.spark.table_log.table_log import CommitConflict, TableChange, TableSnapshot
from barnabas.spark.table_log.table_state import STATE_KEY, parse_state

_SCHEMA_KEY: Final = "barnabas.schema"
_PROPERTIES: Final = {
    "format-version": "2",
    "write.metadata.delete-after-commit.enabled": "false",
    # Otherwise each commit adds a manifest for good, and each plan reads all of them.
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
}
# Each version of the metadata lists all snapshots, so their number is bounded as their age is.
_MOST_SNAPSHOTS: Final = 100


class IcebergLog:
    """Commits with pyiceberg, in a catalog of files."""

    name = "iceberg"
    data_prefix = "data/"
    keeps_partition_columns = True
    has_snapshots = True

    def __init__(self, directory: DataDirectory) -> None:
        from barnabas.spark.table_log.iceberg_catalog import FileCatalog

        self._directory = directory
        self._catalog = FileCatalog(directory)

    def load(self) -> TableSnapshot | None:
        from barnabas.spark.table_log.iceberg_catalog import version_of

        if not self._catalog.version():
            if self._catalog.is_of_others():
                raise CommandFailed(
                    f"{self._directory} is an Iceberg table of another catalog; use another"
                    " directory"
                )
            return None
        table = self._catalog.load_table()
        state = table.properties.get(STATE_KEY)
        if state is None:
            raise CommandFailed(
                f"{self._directory} is an Iceberg table without the offsets of a topic; use"
                " another directory"
            )
        schema = json.loads(table.properties[_SCHEMA_KEY])
        parsed = parse_state(state, str(self._directory))
        return TableSnapshot(version_of(table), parsed, schema)

    def commit(self, base: TableSnapshot | None, change: TableChange) -> None:
        exceptions: Any = import_module("pyiceberg.exceptions")
        table = self._new(change) if base is None else self._catalog.load_table()
        if self._catalog.version() != (0 if base is None else base.version):
            raise CommitConflict(f"{self._directory} has a newer version")
        try:
            with table.transaction() as transaction:
                self._change(transaction, base, change)
        except exceptions.CommitFailedException as error:
            raise CommitConflict(f"{self._directory}: {error}") from None

    def finish(self) -> None:
        self._catalog.write_hint()

    def files(self, version: int | None = None) -> list[TableFile]:
        if not self._catalog.version():
            return []
        table = self._catalog.load_table(version=version)
        fields = {field.field_id: field for field in table.schema().fields}
        return [self._file(each.file, fields) for each in table.scan().plan_files()]

    def expire(self, before_ms: int) -> int:
        if not self._catalog.version():
            return 0
        table = self._catalog.load_table()
        before = self._referenced(table)
        times = sorted(each.timestamp_ms for each in table.snapshots())
        oldest_ms = max(before_ms, *times[-_MOST_SNAPSHOTS:][:1])
        at = datetime.fromtimestamp(oldest_ms / 1000, UTC).replace(tzinfo=None)
        table.maintenance.expire_snapshots().older_than(at).commit()
        reached("expiring")
        gone = before - self._referenced(self._catalog.load_table())
        for path in sorted(gone):
            self._directory.delete(path)
        self._catalog.forget(self._catalog.version() - _MOST_SNAPSHOTS)
        return len(gone)

    def _new(self, change: TableChange) -> Any:
        partitioning: Any = import_module("pyiceberg.partitioning")
        transforms: Any = import_module("pyiceberg.transforms")
        table = self._catalog.new_table(_arrow(change.schema), properties=dict(_PROPERTIES))
        columns = change.state.definition.partition_by
        if not columns:
            return table
        fields = [
            partitioning.PartitionField(
                source_id=table.schema().find_field(name).field_id,
                field_id=1000 + number,
                transform=transforms.IdentityTransform(),
                name=name,
            )
            for number, name in enumerate(columns)
        ]
        spec = partitioning.PartitionSpec(*fields)
        return self._catalog.new_table(table.schema(), spec, dict(_PROPERTIES))

    def _change(self, transaction: Any, base: TableSnapshot | None, change: TableChange) -> None:
        state = change.state.to_json()
        if base is not None and change.schema != base.schema:
            with transaction.update_schema() as update:
                update.union_by_name(_arrow(change.schema))
        if transaction.table_metadata.name_mapping() is None:
            mapping = transaction.table_metadata.schema().name_mapping.model_dump_json()
            transaction.set_properties(**{"schema.name-mapping.default": mapping})
        transaction.set_properties(**{STATE_KEY: state, _SCHEMA_KEY: json.dumps(change.schema)})
        producer = transaction.update_snapshot(snapshot_properties={STATE_KEY: state})
        added = self._data_files(transaction, change)
        with producer.overwrite() if change.removed else producer.merge_append() as snapshot:
            for data_file in added:
                snapshot.append_data_file(data_file)
            for data_file in self._live(transaction, {file.path for file in change.removed}):
                snapshot.delete_data_file(data_file)

    def _data_files(self, transaction: Any, change: TableChange) -> list[Any]:
        io, metadata = transaction._table.io, transaction.table_metadata
        columns = change.state.definition.partition_by
        uris = [self._directory.uri_of(file.path) for file in change.added]
        return [_data_file(io, metadata, uri, columns) for uri in uris]

    def _live(self, transaction: Any, paths: set[str]) -> list[Any]:
        if not paths:
            return []
        tasks = transaction._table.scan().plan_files()
        return [each.file for each in tasks if self._relative(each.file.file_path) in paths]

    def _file(self, found: Any, fields: Mapping[int, Any]) -> TableFile:
        conversions: Any = import_module("pyiceberg.conversions")
        least, most = found.lower_bounds or {}, found.upper_bounds or {}
        bounds: dict[str, Bounds] = {}
        for number in least.keys() & most.keys() & fields.keys():
            field = fields[number]
            if not field.field_type.is_primitive or str(field.field_type) == "binary":
                continue
            low, high = (
                _comparable(conversions.from_bytes(field.field_type, each[number]), field)
                for each in (least, most)
            )
            # Iceberg truncates texts, so only numbers are exact bounds.
            if isinstance(low, int | float) and isinstance(high, int | float):
                bounds[field.name] = (low, high)
        path = self._relative(found.file_path)
        return TableFile(
            path, found.file_size_in_bytes, found.record_count, partition_values(path), bounds
        )

    def _relative(self, uri: str) -> str:
        return uri.removeprefix(self._directory.uri).lstrip("/")

    def _referenced(self, table: Any) -> set[str]:
        """All files that snapshots of the table need: data files, manifests and their lists."""
        found: set[str] = set()
        for snapshot in table.snapshots():
            found.add(self._relative(snapshot.manifest_list))
            for manifest in snapshot.manifests(table.io):
                path = self._relative(manifest.manifest_path)
                if path in found:
                    continue
                found.add(path)
                for entry in manifest.fetch_manifest_entry(table.io):
                    found.add(self._relative(entry.data_file.file_path))
        return found


def _data_file(io: Any, metadata: Any, uri: str, partition_by: Sequence[str]) -> Any:
    from pyiceberg.io.pyarrow import parquet_file_to_data_file

    try:
        return parquet_file_to_data_file(io, metadata, uri)
    except OverflowError:
        # A time that Python's datetime does not reach: only partitions need their bounds.
        wanted = {f"write.metadata.metrics.column.{name}": "full" for name in partition_by}
        wanted["write.metadata.metrics.default"] = "counts"
        counted = metadata.model_copy(update={"properties": {**metadata.properties, **wanted}})
        return parquet_file_to_data_file(io, counted, uri)


def _comparable(value: Any, field: Any) -> Any:
    if str(field.field_type) == "date":
        return None
    return plain(value)


def _arrow(schema: Mapping[str, Any]) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    return to_arrow_schema(StructType.fromJson(dict(schema)), timezone="UTC")
