"""The logs of tables without Spark: many commits stay small, merges are bounded."""

import errno
import os
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from deltalake import DeltaTable
from pyiceberg.table import StaticTable
from pyspark.sql.pandas.types import to_arrow_schema

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.spark.table.table_files import RECORDS_IN_A_FILE, decide_file_records
from barnabas.spark.table.table_run import commit
from barnabas.spark.table.table_upkeep import FILES_OF_A_TIER, decide_merges
from barnabas.spark.table_log import iceberg_log
from barnabas.spark.table_log.table_directory import TableDirectory
from barnabas.spark.table_log.table_file import TableFile, read_footer, total_rows
from barnabas.spark.table_log.table_log import (
    CommitConflict,
    TableChange,
    TableLog,
    TableSnapshot,
    load_table,
    open_log,
)
from barnabas.spark.table_log.table_state import CoveredPartition, TableDefinition, TableState
from tests.spark.test_value_types import spark_type

pa: Any = pyarrow
parquet: Any = pyarrow.parquet
SCHEMA = {
    "type": "struct",
    "fields": [{"name": "offset", "type": "long", "nullable": True, "metadata": {}}],
}
COMMITS = 45


def add(log: TableLog, directory: TableDirectory, folder: Path, number: int) -> None:
    """Commit a file with one row."""
    path = f"{log.data_prefix}{number + 1:08}-0123abcd-0000.parquet"
    (folder / path).parent.mkdir(exist_ok=True)
    parquet.write_table(pa.table({"offset": pa.array([number], pa.int64())}), folder / path)
    file = read_footer(directory._fs, str(folder), path, (folder / path).stat().st_size)
    base = log.load()
    state = base.state if base else TableState(TableDefinition("t"))
    partitions = {0: CoveredPartition(0, number + 1)}
    log.commit(
        base, TableChange(state.next(partitions=partitions, rows=number + 1), SCHEMA, [file])
    )


@pytest.mark.parametrize("format", ["delta", "iceberg", "parquet"])
def test_many_commits_leave_every_row_and_a_bounded_log(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg_log, "_MOST_SNAPSHOTS", 5)
    directory = TableDirectory(str(tmp_path))
    log = open_log(directory, format)
    for number in range(COMMITS):
        add(log, directory, tmp_path, number)
        if number % 10 == 9:
            log.expire(0)
    log.expire(0)

    snapshot = log.load()
    assert snapshot is not None
    assert snapshot.state.ends == {0: COMMITS}
    assert total_rows(log.files()) == COMMITS
    if format == "iceberg":
        table = StaticTable.from_metadata(str(tmp_path))
        assert sorted(table.scan().to_arrow()["offset"].to_pylist()) == list(range(COMMITS))
        assert len(table.snapshots()) <= 5
        assert len(list(tmp_path.glob("metadata/v*.metadata.json"))) <= 7
        newest = table.current_snapshot()
        assert newest is not None
        assert len(newest.manifests(table.io)) < COMMITS
        (tmp_path / "metadata/version-hint.text").unlink()
        assert log.load() == snapshot


def files(*sizes: int, day: str = "1") -> list[TableFile]:
    return [TableFile(f"{n}", size, 1, {"day": day}) for n, size in enumerate(sizes)]


def test_files_of_a_size_are_merged_up_to_the_target() -> None:
    assert decide_merges(files(*[10] * (FILES_OF_A_TIER - 1)), 1000) == []
    [merged] = decide_merges(files(*[10] * FILES_OF_A_TIER), 1000)
    assert len(merged) == FILES_OF_A_TIER
    [bounded] = decide_merges(files(*[300] * FILES_OF_A_TIER), 1000)
    assert len(bounded) == 3
    assert decide_merges(files(*[500] * 20), 1000) == []


def test_files_of_other_directories_or_other_sizes_are_not_merged() -> None:
    assert decide_merges([*files(*[10] * 4), *files(*[10] * 4, day="2")], 1000) == []
    assert decide_merges(files(*[10] * 4, *[400] * 4), 1000) == []


def test_new_files_have_as_many_rows_as_fit_into_the_target() -> None:
    mib = 1024 * 1024
    assert decide_file_records([], 128 * mib) == RECORDS_IN_A_FILE
    assert decide_file_records(files(5_000), 128 * mib) == RECORDS_IN_A_FILE  # mostly footer
    large = [TableFile("a", 200 * mib, 2_000), TableFile("b", 5_000, 1)]
    assert decide_file_records(large, 128 * mib) == 1_280
    assert decide_file_records([TableFile("a", 200 * mib, 1)], 128 * mib) == 1
    assert decide_file_records([TableFile("a", 2 * mib, 900_000)], 128 * mib) == RECORDS_IN_A_FILE


def test_a_run_deletes_files_of_unfinished_steps_and_those_that_a_commit_replaced(
    tmp_path: Path,
) -> None:
    directory = TableDirectory(str(tmp_path))
    log = open_log(directory, "parquet")
    for number in range(2):
        add(log, directory, tmp_path, number)
    old, new = log.files()
    (tmp_path / "00000009-0123abcd-0000.parquet").write_bytes(b"")
    others = {"mine.parquet", "2026-11-18.parquet", "00000009-0000.parquet"}
    for name in others:
        (tmp_path / name).write_bytes(b"")
    assert directory.remove_uncommitted(2) == 1
    assert directory.remove_uncommitted(2, {new.path}) == 1
    assert {each.name for each in tmp_path.glob("*.parquet")} == {new.path, *others}
    assert not (tmp_path / old.path).exists()


def test_each_run_stages_files_in_a_directory_of_its_own(tmp_path: Path) -> None:
    one, other = TableDirectory(str(tmp_path)), TableDirectory(str(tmp_path))
    assert one.staging_uri != other.staging_uri
    late = tmp_path / "_staging" / one.staging_uri.rpartition("/")[2] / "part.parquet"
    late.parent.mkdir(parents=True)
    late.write_bytes(b"")
    assert other.staged() == []
    other.clear_staging()
    assert not late.exists()


def test_a_directory_with_data_of_others_does_not_become_a_table(tmp_path: Path) -> None:
    directory = TableDirectory(str(tmp_path))
    (tmp_path / "00000009-0123abcd-0000.parquet").write_bytes(b"")  # an unfinished step's
    directory.check_unused()
    (tmp_path / "sales").mkdir()
    (tmp_path / "sales" / "2026.parquet").write_bytes(b"")
    with pytest.raises(CommandFailed, match="is no table but has Parquet files, such as sales/"):
        directory.check_unused()
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "00000-7f.metadata.json").write_text("{}")
    with pytest.raises(CommandFailed, match="an Iceberg table of another catalog"):
        open_log(directory, "iceberg").load()


def write(
    folder: Path, log: TableLog, schema: Any, number: int, row: Any, partition: str = ""
) -> None:
    """Commit a file with one row of this schema; `partition` is its directory."""
    path = f"{log.data_prefix}{partition}/{number:08}-0123abcd-0000.parquet".lstrip("/")
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    arrow = to_arrow_schema(schema, timezone="UTC")
    columns = [pa.array([value], field.type) for value, field in zip(row, arrow, strict=True)]
    parquet.write_table(pa.Table.from_arrays(columns, schema=arrow), folder / path)
    file = read_footer(
        TableDirectory(str(folder))._fs, str(folder), path, (folder / path).stat().st_size
    )
    base = log.load()
    by = tuple(part.partition("=")[0] for part in partition.split("/") if part)
    state = (base.state if base else TableState(TableDefinition("t", partition_by=by))).next()
    whole = schema
    for name in by:
        whole = whole.add(name, "string")
    log.commit(base, TableChange(state, whole.jsonValue(), [file]))


def by_others(format: str, folder: Path) -> Any:
    if format == "delta":
        return DeltaTable(str(folder)).to_pyarrow_table()
    return StaticTable.from_metadata(str(folder)).scan().to_arrow()


@pytest.mark.parametrize("format", ["delta", "iceberg", "parquet"])
def test_values_beyond_what_python_or_json_can_hold_have_no_bounds(
    format: str, tmp_path: Path
) -> None:
    """As of a producer that sends microseconds as its timestamps."""
    schema = spark_type(
        ("at", pa.timestamp("us", "UTC")), ("day", pa.date32()), ("x", pa.float64()),
        ("local", pa.timestamp("us")), ("n", pa.int32()),
    )  # fmt: skip
    far = 1_700_000_000_000_000_000
    last = datetime.max
    log = open_log(TableDirectory(str(tmp_path)), format)
    write(tmp_path, log, schema, 1, (far, 20_000_000, float("inf"), last, 5))
    [file] = log.files()
    assert file.bounds.keys() & {"at", "day", "x"} == set()
    if format != "parquet":
        assert by_others(format, tmp_path)["n"].to_pylist() == [5]


@pytest.mark.parametrize("format", ["delta", "parquet"])
def test_files_in_directories_of_any_name_are_replaced(format: str, tmp_path: Path) -> None:
    """Delta's log has their paths as parts of a URI."""
    log = open_log(TableDirectory(str(tmp_path)), format)
    names = ["p=a%2Fb", "p= ", "p=ü", "p=50%25", "p={b}"]
    for number, name in enumerate(names, 1):
        write(tmp_path, log, spark_type(("n", pa.int32())), number, (number,), name)
    found = log.files()
    assert {file.path.rpartition("/")[0] for file in found} == set(names)
    base = log.load()
    assert base is not None
    log.commit(base, TableChange(base.state.next(), base.schema, removed=found[1:]))
    [left] = log.files()
    assert left == found[0]
    if format == "delta":
        assert by_others(format, tmp_path).num_rows == 1


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_structs_get_new_fields_wherever_they_are(format: str, tmp_path: Path) -> None:
    log = open_log(TableDirectory(str(tmp_path)), format)
    x, y = (("x", pa.int32()), ("y", pa.int32()))
    before = spark_type(("deep", [x]), ("list", pa.list_(pa.struct([x]))))
    after = spark_type(("deep", [x, y]), ("list", pa.list_(pa.struct([x, y]))))
    write(tmp_path, log, before, 1, ({"x": 1}, [{"x": 1}]))
    write(tmp_path, log, after, 2, ({"x": 2, "y": 3}, [{"x": 2, "y": 3}]))
    snapshot = log.load()
    assert snapshot is not None
    assert snapshot.schema == after.jsonValue()
    found = by_others(format, tmp_path).to_pylist()
    assert sorted(found, key=lambda row: row["deep"]["x"]) == [
        {"deep": {"x": 1, "y": None}, "list": [{"x": 1, "y": None}]},
        {"deep": {"x": 2, "y": 3}, "list": [{"x": 2, "y": 3}]},
    ]


def test_a_path_may_have_spaces_but_nothing_that_is_read_in_two_ways(tmp_path: Path) -> None:
    directory = TableDirectory(f"file://{tmp_path}/a table of ü")
    assert directory.create("_commits/0.json", "{}")
    assert (tmp_path / "a table of ü" / "_commits" / "0.json").exists()
    assert directory.uri == TableDirectory(str(directory)).uri
    for odd in "%#?*[]{}":
        with pytest.raises(Misused, match=re.escape(f"must not contain {odd}")):
            TableDirectory(f"{tmp_path}/a{odd}b")


def test_a_commit_that_was_made_though_it_failed_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a checkpoint after it fails, or its answer is lost."""
    directory = TableDirectory(str(tmp_path))
    log = open_log(directory, "parquet")
    add(log, directory, tmp_path, 0)
    base, [file] = log.load(), log.files()
    assert base is not None
    real = log.commit

    def failing(at: TableSnapshot | None, change: TableChange) -> None:
        real(at, change)
        raise CommitConflict("the answer is lost")

    monkeypatch.setattr(log, "commit", failing)
    change = TableChange(base.state.next(), base.schema, [replace(file, path="another.parquet")])
    assert commit(log, base, change).state == change.state
    assert len(log.files()) == 2


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_table_that_is_read_while_it_is_written_has_one_version(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state is that of the version which was loaded, though a commit follows at once."""
    directory = TableDirectory(str(tmp_path))
    log: Any = open_log(directory, format)
    add(log, directory, tmp_path, 0)
    place, name = (log, "_table") if format == "delta" else (log._catalog, "load_table")
    before = getattr(place, name)()
    with monkeypatch.context() as patched:
        patched.setattr(place, name, lambda **given: before)
        other = open_log(directory, format)
        add(other, directory, tmp_path, 1)
        read = log.load()
    newest = log.load()
    assert (read.state.rows, read.state.ends) == (1, {0: 1})
    assert (newest.state.rows, newest.state.ends) == (2, {0: 2})
    assert newest.version == read.version + 1
    assert total_rows(log.files(read.version)) == 1


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    with (
        pytest.raises(CommandFailed, match=f"^{tmp_path}: No space left on device$"),
        TableDirectory(str(tmp_path)).failures(),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_directory_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    unreadable = tmp_path / ("n" * 300)
    with pytest.raises(CommandFailed, match=f"^{unreadable}: File name too long$"):
        load_table(TableDirectory(str(unreadable)))
