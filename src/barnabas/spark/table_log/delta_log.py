"""The log of a Delta table, through delta-rs: offsets in the commit as txn actions and as JSON.

Each commit has a txn action per partition, `barnabas/TOPIC/PARTITION`, whose version is the offset
after the last one covered. Delta keeps these in its checkpoints, so they survive the clean-up of
old commits. The whole state is beside them, in the commitInfo.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any, Final
from urllib.parse import unquote

from barnabas.base.clock import SystemClock
from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.data_directory import DataDirectory
from barnabas.spark.kill_points import reached
from barnabas.spark.table_log.table_file import Bounds, TableFile
from barnabas.spark.table_log.table_log import CommitConflict, TableChange, TableSnapshot
from barnabas.spark.table_log.table_state import STATE_KEY, TableState, parse_state

_MS_PER_HOUR: Final = 3_600_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# The last microsecond that can be rounded up to a millisecond of the year 9999.
_LAST_TIME: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1) - 999
_ZONES: Final = {"timestamp": "Z", "timestamp_ntz": ""}


def app_id(topic: str, partition: int) -> str:
    """The id of the txn action that holds the end offset of a partition."""
    return f"barnabas/{topic}/{partition}"


class DeltaLog:
    """Commits with delta-rs; a commit never passes over one that it did not know."""

    name = "delta"
    data_prefix = ""
    keeps_partition_columns = False
    has_snapshots = True

    def __init__(self, directory: DataDirectory) -> None:
        self._directory = directory
        self._delta: Any = import_module("deltalake")
        self._actions: Any = import_module("deltalake.transaction")

    def load(self) -> TableSnapshot | None:
        table = self._table()
        if table is None:
            return None
        state = self._state(table)
        self._check_txns(table, state)
        return TableSnapshot(table.version(), state, json.loads(table.schema().to_json()))

    def commit(self, base: TableSnapshot | None, change: TableChange) -> None:
        try:
            if base is None:
                self._create(change)
            else:
                self._append(base, change)
        except (self._delta.exceptions.DeltaError, OSError) as error:
            now = self._table()
            if (now is None) != (base is None) or (base and now.version() != base.version):
                raise CommitConflict(f"{self._directory}: {error}") from None
            raise CommandFailed(f"{self._directory}: {error}") from None

    def finish(self) -> None:
        """A commit is one file."""

    def files(self, version: int | None = None) -> list[TableFile]:
        table = self._table()
        if table is None:
            return []
        if version is not None:
            table.load_as_version(version)
        arrow: Any = import_module("pyarrow")
        rows = arrow.table(table.get_add_actions(flatten=False)).to_pylist()
        return [_file(row) for row in rows]

    def expire(self, before_ms: int) -> int:
        table = self._table()
        if table is None:
            return 0
        hours = max(0, SystemClock().now_ms() - before_ms) // _MS_PER_HOUR
        deleted = table.vacuum(
            retention_hours=hours, dry_run=False, enforce_retention_duration=False
        )
        reached("expiring")
        table.cleanup_metadata()
        return len(deleted)

    def _create(self, change: TableChange) -> None:
        self._actions.create_table_with_add_actions(
            self._directory.uri,
            self._schema(change.schema),
            [self._add(file, change) for file in change.added],
            mode="error",
            partition_by=list(change.state.definition.partition_by),
            commit_properties=self._properties(change.state),
        )

    def _append(self, base: TableSnapshot, change: TableChange) -> None:
        table = self._delta.DeltaTable(self._directory.uri, version=base.version)
        self._add_columns(table, base, change)
        table.create_write_transaction(
            [
                *(self._remove(file, change) for file in change.removed),
                *(self._add(file, change) for file in change.added),
            ],
            "append",
            table.schema(),
            list(change.state.definition.partition_by),
            commit_properties=self._properties(change.state),
        )

    def _add_columns(self, table: Any, base: TableSnapshot, change: TableChange) -> None:
        """Add new columns and new fields of structs in a commit of their own, with no row."""
        known = {field["name"]: field["type"] for field in base.schema["fields"]}
        new = [each for each in change.schema["fields"] if each["type"] != known.get(each["name"])]
        if not new:
            return
        properties = self._delta.CommitProperties(
            custom_metadata={STATE_KEY: base.state.to_json()}, max_commit_retries=0
        )
        fields = [self._delta.schema.Field.from_json(json.dumps(each)) for each in new]
        table.alter.add_columns(fields, commit_properties=properties)
        reached("columns-added")

    def _table(self) -> Any:
        if not self._directory.has("_delta_log"):
            return None
        try:
            return self._delta.DeltaTable(self._directory.uri)
        except self._delta.exceptions.TableNotFoundError:
            return None
        except self._delta.exceptions.DeltaError as error:
            raise CommandFailed(f"{self._directory}: {error}") from None

    def _state(self, table: Any) -> TableState:
        """The state in the commit of the table's version.

        That commit has none if another program, or a vacuum, made it: then one before it has.
        delta-rs's history is no help: it lists the commits of now, which may be newer.
        """
        for version in range(table.version(), -1, -1):
            commit = self._directory.read(f"_delta_log/{version:020}.json")
            if commit is None:
                break
            for line in commit.splitlines():
                if STATE_KEY in line:
                    found = json.loads(line).get("commitInfo", {}).get(STATE_KEY)
                    if found is not None:
                        return parse_state(found, str(self._directory))
        raise CommandFailed(
            f"{self._directory} is a Delta table without the offsets of a topic; use another"
            " directory"
        )

    def _check_txns(self, table: Any, state: TableState) -> None:
        for number, end in state.ends.items():
            found = table.transaction_version(app_id(state.definition.topic, number))
            if found != end:
                raise CommandFailed(
                    f"{self._directory}: the offsets of partition {number} disagree (txn {found},"
                    f" state {end}): another program has changed the table's history"
                )

    def _schema(self, schema: Mapping[str, Any]) -> Any:
        return self._delta.Schema.from_json(json.dumps(schema))

    def _properties(self, state: TableState) -> Any:
        txns = [
            self._delta.Transaction(app_id(state.definition.topic, number), end)
            for number, end in sorted(state.ends.items())
        ]
        return self._delta.CommitProperties(
            custom_metadata={STATE_KEY: state.to_json()},
            max_commit_retries=0,
            app_transactions=txns,
        )

    def _add(self, file: TableFile, change: TableChange) -> Any:
        columns = change.state.definition.partition_by
        return self._actions.AddAction(
            path=file.path,
            size=file.bytes,
            partition_values={name: file.partition_values.get(name) for name in columns},
            modification_time=SystemClock().now_ms(),
            data_change=not change.is_upkeep,
            stats=_statistics(file, change.schema),
        )

    def _remove(self, file: TableFile, change: TableChange) -> Any:
        return self._actions.RemoveAction(
            file.path,
            not change.is_upkeep,
            SystemClock().now_ms(),
            file.bytes,
            dict(file.partition_values),
        )


def _statistics(file: TableFile, schema: Mapping[str, Any]) -> str:
    """Delta's statistics: JSON with ISO timestamps of milliseconds."""
    types = {field["name"]: field["type"] for field in schema["fields"]}
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    for name, (low, high) in file.bounds.items():
        zone = _ZONES.get(str(types.get(name)))
        if zone is None:
            least[name], most[name] = low, high
        elif high <= _LAST_TIME:
            # Rounded up: a maximum must not be less than a value.
            least[name], most[name] = _iso(low, zone), _iso(high + 999, zone)
    nulls = dict(file.nulls)
    found = {"numRecords": file.records, "minValues": least, "maxValues": most, "nullCount": nulls}
    return json.dumps(found)


def _iso(microseconds: int, zone: str) -> str:
    at = _EPOCH + timedelta(milliseconds=microseconds // 1000)
    return at.isoformat(timespec="milliseconds").replace("+00:00", zone)


def _file(row: dict[str, Any]) -> TableFile:
    least, most = row.get("min") or {}, row.get("max") or {}
    bounds: dict[str, Bounds] = {}
    for name, low in least.items():
        high = most.get(name)
        if low is not None and high is not None:
            bounds[name] = (_number(low), _number(high))
    values = {
        name: None if value is None else str(value)
        for name, value in (row.get("partition") or {}).items()
    }
    nulls = {name: n for name, n in (row.get("null_count") or {}).items() if isinstance(n, int)}
    return TableFile(
        unquote(row["path"]), row["size_bytes"], row["num_records"], values, bounds, nulls
    )


def _number(value: Any) -> Any:
    from barnabas.spark.table_log.table_file import plain

    return plain(value)
