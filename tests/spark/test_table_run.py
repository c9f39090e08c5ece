"""Topics as tables with a real Spark session: each record once, read back by other readers."""

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest
from deltalake import DeltaTable
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark import kill_points
from barnabas.spark.kill_points import POINTS
from barnabas.spark.table import table_upkeep
from barnabas.spark.table.table_audit import Totals, decide_differences
from barnabas.spark.table.table_run import commit
from barnabas.spark.table_log.table_directory import TableDirectory
from barnabas.spark.table_log.table_log import CommitConflict, TableChange, open_log
from tests.spark.commands import Ended, barnabas
from tests.spark.conftest import Fill, produce
from tests.spark.test_table_log import add
from tests.support.broker import BrokerProcess

Table = Callable[..., Ended]
FORMATS: Final = ("delta", "iceberg", "parquet")
LATER: Final = pytest.mark.long
# One format in each run of CI, all of them in the long tests.
SOME: Final = ("delta", pytest.param("iceberg", marks=LATER), pytest.param("parquet", marks=LATER))
IN_CI: Final = ("placed", "committed")
KILLS: Final = tuple(
    each if each in IN_CI else pytest.param(each, marks=LATER)
    for each in POINTS
    if each not in ("dead-letters", "columns-added", "half-committed", "expiring")
)


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.fixture
def table(spark: SparkSession, served: BrokerProcess, topic: str, tmp_path: Path) -> Table:
    """Writes the test's topic to the directory `table`."""

    def run(format: str, *more: object) -> Ended:
        to = tmp_path / "table"
        where = ("--to", to, "--format", format, "-b", served.bootstrap)
        return barnabas("pipeline", "table", topic, *where, "--json", *more)

    return run


def arrow(format: str, path: Path) -> Any:
    """The table, by a reader that we did not write."""
    if format == "delta":
        return DeltaTable(str(path)).to_pyarrow_table()
    if format == "iceberg":
        return StaticTable.from_metadata(str(path)).scan().to_arrow()
    return parquet(f"{path}/*.parquet")


def parquet(pattern: str) -> Any:
    """All Parquet files, by DuckDB."""
    found = duckdb.sql(f"SELECT * FROM read_parquet('{pattern}', union_by_name=true)")
    assert found is not None
    return found.to_arrow_table()


def by_duckdb(format: str, path: Path) -> tuple[int, int]:
    """The number of rows and the greatest offset, by DuckDB from the files of the snapshot."""
    listed = open_log(TableDirectory(str(path)), format).files()
    uris = ", ".join(f"'{path / file.path}'" for file in listed)
    files = f"read_parquet([{uris}], union_by_name=true)"
    found = duckdb.sql(f'SELECT count(*) AS n, max("offset") AS last FROM {files}')
    assert found is not None
    [row] = found.to_arrow_table().to_pylist()
    return row["n"], row["last"]


def by_pandas(format: str, folder: Path) -> tuple[int, int]:
    """The same, by pandas."""
    pandas: Any = import_module("pandas")
    if format == "parquet":
        files = sorted((folder / "table").glob("*.parquet"))
        frame = pandas.concat([pandas.read_parquet(each) for each in files])
    else:
        frame = arrow(format, folder / "table").to_pandas()
    return len(frame), int(frame["offset"].max())


def by_offset(table: Any) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: (row["partition"], row["offset"]))


def rows(format: str, path: Path) -> list[dict[str, Any]]:
    return by_offset(arrow(format, path))


def summary(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


@pytest.mark.parametrize("format", FORMATS)
def test_all_of_a_record_is_in_the_table_once(
    format: str, fill: Fill, table: Table, served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    headers = [("a", b"1"), ("b", None)]
    fill(
        [
            {"key": b"k", "value": b"v0", "headers": headers, "timestamp": 5, "partition": 0},
            {"value": None, "timestamp": 9, "partition": 1},
        ],
        partitions=2,
    )
    assert summary(table(format))["records"] == 2
    assert summary(table(format))["records"] == 0
    produce(served.bootstrap, topic, [{"value": b"v1", "partition": 1, "timestamp": 10}])
    assert summary(table(format))["rows"] == 3

    first, second, third = rows(format, tmp_path / "table")
    assert (first["key"], first["value"], first["topic"], first["offset"]) == (
        b"k",
        b"v0",
        topic,
        0,
    )
    assert [(each["key"], each["value"]) for each in first["headers"]] == headers
    assert first["timestamp"].timestamp() == 0.005
    assert (second["key"], second["value"], second["partition"]) == (None, None, 1)
    assert (third["value"], third["offset"]) == (b"v1", 1)
    for count, highest in (by_duckdb(format, tmp_path / "table"), by_pandas(format, tmp_path)):
        assert (count, highest) == (3, 1)


@pytest.mark.parametrize("format", FORMATS)
def test_fields_of_json_are_columns_and_what_does_not_fit_is_a_dead_letter(
    format: str, fill: Fill, table: Table, served: BrokerProcess, topic: str, tmp_path: Path,
    read: Callable[..., Any],
) -> None:  # fmt: skip
    fill(
        [
            {"value": b'{"id": 1, "name": "a", "at": "2026-01-31T12:00:00Z", "more": 1}'},
            {"value": b'{"id": "x"}'},
            {"value": b"no json"},
            {"value": b'{\n"id": 2}'},
        ]
    )
    schema = "id BIGINT, name STRING, at TIMESTAMP"
    ended = summary(table(format, "--schema", schema, "--partition-by", "day"))
    assert (ended["records"], ended["deadLetters"]) == (2, 2)
    produce(served.bootstrap, topic, [{"value": b'{"id": 3, "cents": 7}'}])
    grown = "id BIGINT, cents BIGINT"
    assert summary(table(format, "--schema", grown, "--partition-by", "day"))["rows"] == 3

    where = tmp_path / "table"
    found = (
        rows(format, where) if format != "parquet" else by_offset(parquet(f"{where}/*/*.parquet"))
    )
    assert [row["id"] for row in found] == [1, 2, 3]
    assert [row["cents"] for row in found] == [None, None, 7]
    assert (found[0]["name"], found[0]["at"].year) == ("a", 2026)
    dead = read(subscribe=f"{topic}-dead-letters", includeHeaders="true").collect()
    assert sorted(bytes(row.value) for row in dead) == [b"no json", b'{"id": "x"}']
    reasons = [bytes(h.value).decode() for row in dead for h in row.headers if "reason" in h.key]
    assert all("does not fit the schema" in each for each in reasons)


@pytest.mark.parametrize("format", SOME)
def test_an_upserted_table_has_the_latest_of_each_key_and_no_deleted_key(
    format: str, fill: Fill, table: Table, served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    fill([{"key": f"k{n % 4}", "value": f"v{n}"} for n in range(8)])
    assert summary(table(format, "--upsert"))["rows"] == 4
    produce(served.bootstrap, topic, [{"key": "k0", "value": None}, {"key": "k1", "value": "new"}])
    produce(served.bootstrap, topic, [{"value": "keyless"}])
    ended = summary(table(format, "--upsert"))

    found = {row["key"]: row["value"] for row in rows(format, tmp_path / "table")}
    assert found == {b"k1": b"new", b"k2": b"v6", b"k3": b"v7"}
    assert (ended["rows"], ended["deadLetters"]) == (3, 1)


@pytest.mark.parametrize("format", SOME)
def test_inferred_fields_appear_and_small_files_are_merged(
    format: str, fill: Fill, table: Table, served: BrokerProcess, topic: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(table_upkeep, "FILES_OF_A_TIER", 2)
    fill([{"value": b'{"id": 1, "deep": {"x": 1.5}, "none": null}'}])
    table(format, "--infer")
    produce(served.bootstrap, topic, [{"value": b'{"id": 2, "new": ["a"]}'}])
    ended = summary(table(format, "--infer", "--keep-snapshots", "0"))

    assert (ended["rows"], ended["files"], ended["merged"]) == (2, 1, 2)
    # No snapshot is kept, so the files that were merged are gone.
    assert len(list((tmp_path / "table").rglob("*.parquet"))) == 1
    first, second = rows(format, tmp_path / "table")
    assert (first["id"], first["deep"], first["new"]) == (1, {"x": 1.5}, None)
    assert (second["id"], second["deep"], list(second["new"])) == (2, None, ["a"])


@pytest.mark.parametrize("point", KILLS)
def test_a_run_that_ends_at_any_point_leaves_each_record_once(
    point: str, fill: Fill, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill([{"value": f"v{n}"} for n in range(6)])
    with monkeypatch.context() as patched:
        patched.setattr(kill_points, "stop", interrupt)
        patched.setenv(kill_points.ENVIRONMENT, point)
        assert table("delta", "--step", 4).code == 130
    assert summary(table("delta"))["rows"] == 6
    assert [row["offset"] for row in rows("delta", tmp_path / "table")] == list(range(6))
    left = list((tmp_path / "table").glob("*.parquet"))
    assert len(left) == len(DeltaTable(str(tmp_path / "table")).file_uris())


def test_dead_letters_are_written_once_though_the_run_ended_before_its_commit(
    fill: Fill, table: Table, read: Callable[..., Any], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill([{"value": b"bad"}, {"value": b'{"id": 1}'}])
    with monkeypatch.context() as patched:
        patched.setattr(kill_points, "stop", interrupt)
        patched.setenv(kill_points.ENVIRONMENT, "dead-letters")
        assert table("parquet", "--schema", "id BIGINT").code == 130
    assert summary(table("parquet", "--schema", "id BIGINT"))["rows"] == 1
    assert read(subscribe=f"{topic}-dead-letters").count() == 1


@pytest.mark.parametrize("format", FORMATS)
def test_of_two_writers_one_wins_and_the_other_says_so(
    format: str, table: Table, tmp_path: Path
) -> None:
    (tmp_path / "table").mkdir()
    directory = TableDirectory(str(tmp_path / "table"))
    log = open_log(directory, format)
    add(log, directory, tmp_path / "table", 0)
    base = log.load()
    assert base is not None
    log.commit(base, TableChange(base.state.next(), base.schema))
    with pytest.raises(CommitConflict):
        log.commit(base, TableChange(base.state.next(), base.schema))
    with pytest.raises(CommandFailed, match="another writer has committed"):
        commit(log, base, TableChange(base.state.next(rows=99), base.schema))
    with directory.locked():
        assert "another process is writing" in table(format).err


@pytest.mark.parametrize("format", SOME)
def test_audit_and_replay_of_a_table(
    format: str, fill: Fill, table: Table, served: BrokerProcess, topic: str, tmp_path: Path,
    read: Callable[..., Any],
) -> None:  # fmt: skip
    fill([{"key": f"k{n}", "value": f"v{n}", "partition": n % 2} for n in range(10)], partitions=2)
    table(format, "--partition-by", "day", "--step", 6)
    where = (tmp_path / "table", "-b", served.bootstrap, "--json")
    ended = barnabas("pipeline", "audit", "--table", *where)
    assert (ended.code, json.loads(ended.out)["compared"]) == (0, 10), ended

    again = f"{topic}-again"
    ended = barnabas("pipeline", "replay", topic, "--to", again, "--from-table", *where)
    assert (ended.code, json.loads(ended.out)["records"]) == (0, 10), ended.err
    copied = {
        (row.partition, bytes(row.key), bytes(row.value)) for row in read(subscribe=again).collect()
    }
    assert copied == {(n % 2, b"k%d" % n, b"v%d" % n) for n in range(10)}


def test_an_audit_finds_what_the_table_lacks() -> None:
    log = {(0, 0): Totals(3, 7), (0, 1): Totals(2, 5)}
    table = {(0, 0): Totals(3, 8)}
    assert decide_differences(table, log, "t") == [
        "t-0, offsets 0 to 1000: 3 rows, but their content differs",
        "t-0, offsets 1000 to 2000: 0 rows in the table, 2 records in the log",
    ]
