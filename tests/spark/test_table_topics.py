"""Topics that change under their table: nothing is lost or doubled, or the command says why."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import write_deltalake
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark.commands import barnabas
from tests.spark.conftest import Fill, create_topic, make_again, produce
from tests.spark.test_table_mistakes import one_line
from tests.spark.test_table_poison import add_partition
from tests.spark.test_table_run import FORMATS, SOME, Table, rows, summary, table
from tests.spark.test_table_view import View, delete_records, view
from tests.spark.transactions import begun, commit, commit_abort_commit
from tests.support.broker import BrokerProcess
from tests.support.cluster import until

__all__ = ["table", "view"]

Read = Callable[..., Any]


def offsets(format: str, path: Path) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows(format, path)]


@pytest.mark.parametrize("format", SOME)
def test_partitions_that_a_topic_gets_are_read_from_their_beginning(
    format: str, fill: Fill, table: Table, view: View, served: BrokerProcess, topic: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    fill([{"value": b"v"}] * 3)
    assert summary(table(format))["records"] == 3
    add_partition(served.bootstrap, topic)
    produce(served.bootstrap, topic, [{"value": b"v", "partition": n % 2} for n in range(4)])
    expected = [(0, n) for n in range(5)] + [(1, n) for n in range(2)]
    found = view().select("partition", "offset").collect()
    assert sorted((row[0], row[1]) for row in found) == expected
    assert summary(table(format))["records"] == 4
    assert offsets(format, tmp_path / "table") == expected


@pytest.mark.parametrize("format", SOME)
def test_records_that_retention_took_unread_stop_the_table_until_a_gap_is_allowed(
    format: str, fill: Fill, table: Table, view: View, served: BrokerProcess, topic: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    fill([{"value": b"v", "partition": n % 2} for n in range(8)], partitions=2)
    assert summary(table(format, "--step", 4))["records"] == 8
    produce(served.bootstrap, topic, [{"value": b"v", "partition": n % 2} for n in range(8)])
    delete_records(served.bootstrap, topic, 6)

    said = one_line(table(format))
    assert "records from 4 to 6 were deleted" in said
    assert "--allow-gaps" in said
    assert len(rows(format, tmp_path / "table")) == 8
    assert summary(table(format, "--allow-gaps"))["records"] == 4
    expected = [(n, offset) for n in (0, 1) for offset in (0, 1, 2, 3, 6, 7)]
    assert offsets(format, tmp_path / "table") == expected
    assert summary(table(format))["records"] == 0
    found = view().select("partition", "offset").collect()
    assert sorted((row[0], row[1]) for row in found) == expected
    audit = barnabas("pipeline", "audit", "--table", tmp_path / "table", "-b", served.bootstrap)
    assert audit.code == 0, audit


def test_a_topic_made_again_is_another_one(
    fill: Fill, table: Table, view: View, served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    fill([{"value": b"v"}] * 3)
    summary(table("delta"))
    make_again(served.bootstrap, topic)
    produce(served.bootstrap, topic, [{"value": b"w"}] * 5)
    assert f"{topic} was deleted and recreated since it was in the table" in one_line(
        table("delta")
    )
    assert [row["value"] for row in rows("delta", tmp_path / "table")] == [b"v"] * 3
    audit = barnabas("pipeline", "audit", "--table", tmp_path / "table", "-b", served.bootstrap)
    assert "was deleted and recreated since the table was written" in one_line(audit)
    with pytest.raises(PySparkException, match="was deleted and recreated since"):
        view().count()


@pytest.mark.parametrize("format", SOME)
def test_aborted_records_are_no_rows_and_open_ones_wait(
    format: str, table: Table, view: View, served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create_topic(served.bootstrap, topic)
    commit_abort_commit(served.bootstrap, topic)
    producer = begun(served.bootstrap, "d", topic)
    good = [f"{name}{n}".encode() for name in "ac" for n in range(5)]

    ended = summary(table(format, "--step", 4))  # a step ends amid transactions
    assert ended["records"] == ended["rows"] == len(good)
    assert [row["value"] for row in rows(format, tmp_path / "table")] == good
    assert sorted(bytes(row.value) for row in view().select("value").collect()) == good
    commit(producer, served.bootstrap, topic)
    good += [f"d{n}".encode() for n in range(5)]
    assert sorted(bytes(row.value) for row in view().select("value").collect()) == good
    assert summary(table(format))["records"] == 5
    assert [row["value"] for row in rows(format, tmp_path / "table")] == good
    audit = barnabas("pipeline", "audit", "--table", tmp_path / "table", "-b", served.bootstrap)
    assert audit.code == 0, audit


@pytest.mark.long
@pytest.mark.parametrize("format", FORMATS)
def test_an_upserted_table_follows_a_topic_whose_compaction_takes_records_and_tombstones(
    format: str, table: Table, read: Read, served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create_topic(
        served.bootstrap, topic, 1, cleanup_policy="compact", segment_ms="1",
        min_cleanable_dirty_ratio="0.0", delete_retention_ms="1",
    )  # fmt: skip

    def send(**values: str | None) -> None:
        produce(served.bootstrap, topic, [{"key": k, "value": v} for k, v in values.items()])

    def found() -> dict[bytes, bytes]:
        return {row["key"]: row["value"] for row in rows(format, tmp_path / "table")}

    send(a="1", b="1", c="1")
    assert summary(table(format, "--upsert"))["rows"] == 3
    send(a=None)
    send(b="2")
    send(a=None)
    assert summary(table(format, "--upsert"))["rows"] == 2

    def is_gone() -> bool:
        """The first cleaning of a tombstone sets its horizon, another one deletes it."""
        send(c="2", d="2")  # begins a segment
        return bool(read().where("key = 'a'").isEmpty())

    until(is_gone, "the tombstone to go", 120)
    summary(table(format, "--upsert", "--step", 2))
    assert found() == {b"b": b"2", b"c": b"2", b"d": b"2"}
    send(a="again", b=None)
    summary(table(format, "--upsert"))
    assert found() == {b"a": b"again", b"c": b"2", b"d": b"2"}
    # A table that begins only now has the same rows.
    summary(table(format, "--upsert", "--to", tmp_path / "other"))
    other = {row["key"]: row["value"] for row in rows(format, tmp_path / "other")}
    assert other == found()


def test_tables_of_other_programs_are_left_alone(
    spark: SparkSession, fill: Fill, table: Table, tmp_path: Path
) -> None:
    fill([{"value": b"v"}])
    pa: Any = pyarrow
    theirs = tmp_path / "theirs"
    write_deltalake(str(theirs), pa.table({"n": [1]}))
    before = sorted(theirs.rglob("*.parquet"))
    said = one_line(table("delta", "--to", theirs))
    assert "is a Delta table without the offsets of a topic" in said
    for format in ("iceberg", "parquet"):
        assert f"{theirs} is a table of delta" in one_line(table(format, "--to", theirs))
    spark.range(3).write.parquet(str(tmp_path / "files"))
    for format in FORMATS:
        said = one_line(table(format, "--to", tmp_path / "files"))
        assert "has Parquet files" in said
    assert sorted(theirs.rglob("*.parquet")) == before


@pytest.mark.parametrize("format", SOME)
def test_another_topic_layout_or_type_than_the_tables_is_refused(
    format: str, fill: Fill, table: Table, served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    fill([{"value": b'{"id": 1}'}])
    summary(table(format, "--schema", "id BIGINT"))
    produce(served.bootstrap, topic, [{"value": b'{"id": 2}'}])
    wrong = {
        "is bigint in the table and string now": ("--schema", "id STRING"),
        "is a table of decoded values": (),
        "is a table with upsert False": ("--schema", "id BIGINT", "--upsert"),
        "is a table with partition by ()": ("--schema", "id BIGINT", "--partition-by", "day"),
    }
    for says, options in wrong.items():
        assert says in one_line(table(format, *options))
    create_topic(served.bootstrap, f"{topic}-other")
    to = ("--to", tmp_path / "table", "--format", format, "-b", served.bootstrap)
    assert "is a table with topic" in one_line(
        barnabas("pipeline", "table", f"{topic}-other", "--schema", "id BIGINT", *to)
    )
    assert summary(table(format, "--schema", "id BIGINT"))["rows"] == 2
