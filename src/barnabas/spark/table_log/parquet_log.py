"""The log of a Parquet table: one JSON file per commit, whose name is its version.

_commits/00000000000000000007.json   the state, the schema and all files of version 7

A commit creates its file and fails if it exists. So of two writers one wins. The newest file is the
table; readers that ignore it and read all Parquet files may see files of an unfinished step.
"""

import json
from dataclasses import asdict
from typing import Any, Final

from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.data_directory import DataDirectory
from barnabas.spark.kill_points import reached
from barnabas.spark.table_log.table_file import TableFile
from barnabas.spark.table_log.table_log import CommitConflict, TableChange, TableSnapshot
from barnabas.spark.table_log.table_state import parse_state

_COMMITS: Final = "_commits"
_KEPT: Final = 10


class ParquetLog:
    """Commits as files of JSON, each with the whole table."""

    name = "parquet"
    data_prefix = ""
    keeps_partition_columns = False
    has_snapshots = False

    def __init__(self, directory: DataDirectory) -> None:
        self._directory = directory

    def load(self) -> TableSnapshot | None:
        found = self._newest()
        if found is None:
            return None
        version, commit = found
        state = parse_state(json.dumps(commit["state"]), str(self._directory))
        return TableSnapshot(version, state, commit["schema"])

    def commit(self, base: TableSnapshot | None, change: TableChange) -> None:
        version = 0 if base is None else base.version + 1
        removed = {file.path for file in change.removed}
        kept = [file for file in (self.files() if base else []) if file.path not in removed]
        content = {
            "state": json.loads(change.state.to_json()),
            "schema": change.schema,
            "files": [asdict(file) for file in (*kept, *change.added)],
        }
        path = f"{_COMMITS}/{version:020}.json"
        if not self._directory.create(path, json.dumps(content)):
            raise CommitConflict(f"{self._directory} has a version {version} already")
        reached("half-committed")
        # Readers of all Parquet files must not see these beside the files that replace them.
        for file in change.removed:
            self._directory.delete(file.path)
        for old in self._directory.names(_COMMITS)[:-_KEPT]:
            self._directory.delete(f"{_COMMITS}/{old}")

    def finish(self) -> None:
        """The next run deletes the files that a commit replaced, with those of unfinished steps."""

    def files(self, version: int | None = None) -> list[TableFile]:
        found = self._newest(version)
        return [] if found is None else [_file(each) for each in found[1]["files"]]

    def expire(self, before_ms: int) -> int:
        """Commits have no files of their own: each removes what it replaces."""
        return 0

    def _newest(self, version: int | None = None) -> tuple[int, dict[str, Any]] | None:
        names = [name for name in self._directory.names(_COMMITS) if name.endswith(".json")]
        if version is not None:
            names = [f"{version:020}.json"]
        if not names:
            return None
        text = self._directory.read(f"{_COMMITS}/{names[-1]}")
        try:
            return int(names[-1].removesuffix(".json")), json.loads(text or "")
        except ValueError as error:
            raise CommandFailed(
                f"{self._directory}/{_COMMITS}/{names[-1]} is not a commit: {error}"
            ) from None


def _file(found: dict[str, Any]) -> TableFile:
    bounds = {name: (least, most) for name, (least, most) in found.pop("bounds").items()}
    return TableFile(bounds=bounds, **found)
