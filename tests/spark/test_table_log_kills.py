"""SIGKILL amid a commit of a table: the rows are those of the state, before or after it."""

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any, Final

import pytest
from pyiceberg.table import StaticTable

from barnabas.spark.kill_points import ENVIRONMENT
from barnabas.spark.table_log.table_directory import TableDirectory
from barnabas.spark.table_log.table_file import total_rows
from barnabas.spark.table_log.table_log import TableChange, open_log
from tests.spark.test_table_log import SCHEMA, add

ENDED_WITHIN_S: Final = 300.0
COMMITS: Final = 3
LATER: Final = pytest.mark.long
FIELD: Final = {"name": "new", "type": "long", "nullable": True, "metadata": {}}
WIDER: Final[dict[str, Any]] = {**SCHEMA, "fields": [*SCHEMA["fields"], FIELD]}


def replace_first(format: str, folder: Path, point: str) -> None:
    """In a process of its own: commit without the first row, with a new column; then expire."""
    os.environ[ENVIRONMENT] = point
    log = open_log(TableDirectory(str(folder)), format)
    base = log.load()
    assert base is not None
    first = min(log.files(), key=lambda file: file.path)
    state = base.state.next(rows=base.state.rows - 1)
    log.commit(base, TableChange(state, WIDER, removed=[first]))
    log.expire(2**42)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("format", "point", "rows"),
    [
        pytest.param("delta", "columns-added", COMMITS, marks=LATER),
        pytest.param("delta", "expiring", COMMITS - 1, marks=LATER),
        pytest.param("iceberg", "half-committed", COMMITS - 1, marks=LATER),
        pytest.param("iceberg", "expiring", COMMITS - 1, marks=LATER),
        ("parquet", "half-committed", COMMITS - 1),
    ],
)
def test_a_commit_that_is_killed_is_there_or_not_and_the_next_one_follows(
    format: str, point: str, rows: int, tmp_path: Path
) -> None:
    directory = TableDirectory(str(tmp_path))
    log = open_log(directory, format)
    for number in range(COMMITS):
        add(log, directory, tmp_path, number)

    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=replace_first, args=(format, tmp_path, point))
    process.start()
    process.join(ENDED_WITHIN_S)

    assert process.exitcode == -signal.SIGKILL
    found = log.load()
    assert found is not None
    files = {file.path for file in log.files()}
    assert found.state.rows == rows == total_rows(log.files())
    directory.remove_uncommitted(found.state.sequence, None if log.has_snapshots else files)
    on_disk = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet")}
    assert files <= on_disk
    assert log.has_snapshots or files == on_disk
    log.finish()
    if format == "iceberg":  # a reader that goes by the hint, though nothing was committed since
        assert StaticTable.from_metadata(str(tmp_path)).scan().count() == rows
    log.commit(found, TableChange(found.state.next(), found.schema))
    again = log.load()
    assert again is not None
    assert again.state.rows == rows
