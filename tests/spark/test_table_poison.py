"""Records that no table expects: each is a row or a dead letter, and none stops the table."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.spark.commands import barnabas
from tests.spark.conftest import Fill, create_topic, make_again, produce
from tests.spark.test_table_run import (
    FORMATS,
    Table,
    arrow,
    by_offset,
    parquet,
    rows,
    summary,
    table,
)
from tests.spark.test_table_view import View, view
from tests.support.broker import BrokerProcess
from tests.support.cluster import until
from tests.support.confluent_client import admin

__all__ = ["table", "view"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]

Read = Callable[..., Any]
MICROSECONDS: Final = 1_700_000_000_000_000  # as a timestamp in milliseconds: the year 55,840
ODD: Final = {
    "": 1, "a`b": 2, "a b": 3, "a.b": 4, "id": 5, "ID": 6, "key": 7, "value_key": 8, "day": "x",
    "_metadata": 9, "ü": 10, "deep": {"x": 1}, "items": [{"sku": "x", "off": None}],
}  # fmt: skip


def all_rows(format: str, path: Path) -> list[dict[str, Any]]:
    """By offset, without the timestamps, which Python may not reach."""
    found = parquet(f"{path}/**/*.parquet") if format == "parquet" else arrow(format, path)
    return by_offset(found.drop_columns(["timestamp"]))


@pytest.mark.parametrize("format", FORMATS)
def test_no_name_type_or_time_stops_a_table_whose_fields_are_inferred(
    format: str, fill: Fill, table: Table, view: View, read: Read, served: BrokerProcess,
    topic: str, tmp_path: Path,
) -> None:  # fmt: skip
    options = ("--infer", "--partition-by", "day")
    fill([{"value": json.dumps(ODD)}, {"value": b'{"id": 6}', "timestamp": MICROSECONDS}])
    assert summary(table(format, *options))["rows"] == 2
    more = [{"id": 7, "deep": {"z": 9}, "items": [{"off": 1.5}]}, {"id": "text"}]
    produce(served.bootstrap, topic, [{"value": json.dumps(each)} for each in more])
    assert summary(table(format, *options))["deadLetters"] == 1

    first, far, last = all_rows(format, tmp_path / "table")
    named = {"value_": "", "value_ID": "ID", "value_key": "key", "value_value_key": "value_key",
             "value_day": "day", "value__metadata": "_metadata"}  # fmt: skip
    for column, name in {**named, **{each: each for each in ("a`b", "a b", "a.b", "ü")}}.items():
        assert first[column] == ODD[name], column
    assert (far["id"], far["day"]) == (6, None)
    assert (last["id"], last["deep"]["z"], last["items"][0]["off"]) == (7, 9, 1.5)
    assert sorted(row.id for row in view().select("id").collect()) == [5, 6, 7]
    assert [bytes(row.value) for row in read(subscribe=f"{topic}-dead-letters").collect()] == [
        b'{"id": "text"}'
    ]
    where = (tmp_path / "table", "-b", served.bootstrap)
    assert barnabas("pipeline", "audit", "--table", *where).code == 0
    again = f"{topic}-again"
    ended = barnabas("pipeline", "replay", topic, "--to", again, "--from-table", *where)
    assert ended.code == 0, ended
    replayed = [
        json.loads(bytes(row.value)) for row in read(subscribe=again).select("value").collect()
    ]
    assert {**ODD, "items": [{"sku": "x"}]} in replayed


TEXTS: Final = ("a/b", "50%", "x=y", " ", None, "ü", "[a]", "{b}", "a:b", "a#?b", "a%2Fb", "\\*'")


@pytest.mark.parametrize("format", FORMATS)
def test_any_text_is_a_partition_of_a_table_wherever_it_is(
    format: str, fill: Fill, table: Table, served: BrokerProcess, topic: str, tmp_path: Path,
    spark: Any,
) -> None:  # fmt: skip
    folder = tmp_path / "a table of ü"
    fill([{"value": json.dumps({"id": n, "p": text})} for n, text in enumerate(TEXTS)])
    schema = ("--schema", "id BIGINT, p STRING", "--partition-by", "p")
    assert summary(table(format, *schema, "--to", folder))["rows"] == len(TEXTS)
    expected = set(enumerate(TEXTS))
    assert {(row["id"], row["p"]) for row in all_rows(format, folder)} == expected
    reader = spark.read.format("barnabas").option("table", str(folder))
    both = reader.option("kafka.bootstrap.servers", served.bootstrap).load()
    assert {(row.id, row.p) for row in both.collect()} == expected
    audit = barnabas("pipeline", "audit", "--table", folder, "-b", served.bootstrap)
    assert audit.code == 0, audit


def add_partition(bootstrap: str, topic: str) -> None:
    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    client.create_partitions([admin.NewPartitions(topic, 2)])[topic].result(60)


def test_a_key_that_moved_to_a_new_partition_keeps_its_latest_record(
    fill: Fill, table: Table, served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Though a step reads the new partition before the rest of the old one."""
    fill([{"key": "k", "value": "old", "timestamp": 5, "partition": 0}])
    summary(table("delta", "--upsert"))
    add_partition(served.bootstrap, topic)
    produce(served.bootstrap, topic, [{"key": "k", "value": "new", "timestamp": 9, "partition": 1}])
    summary(table("delta", "--upsert"))
    late = [{"key": "k", "value": "late", "timestamp": 7, "partition": 0}]
    produce(served.bootstrap, topic, [*late, {"key": "l", "value": "l", "partition": 0}])
    summary(table("delta", "--upsert"))
    found = {row["key"]: row["value"] for row in rows("delta", tmp_path / "table")}
    assert found == {b"k": b"new", b"l": b"l"}


def test_dead_letters_go_on_beside_those_of_others_and_in_a_topic_made_again(
    fill: Fill, table: Table, read: Read, served: BrokerProcess, topic: str
) -> None:
    schema, dead = ("--schema", "id BIGINT"), f"{topic}-dead-letters"
    create_topic(served.bootstrap, dead)
    produce(served.bootstrap, dead, [{"value": "of another program"}] * 3)
    fill([{"value": "bad"}])
    assert summary(table("delta", *schema))["deadLetters"] == 1
    make_again(served.bootstrap, dead)
    produce(served.bootstrap, topic, [{"value": "worse"}])
    assert summary(table("delta", *schema))["deadLetters"] == 1
    assert [bytes(row.value) for row in read(subscribe=dead).collect()] == [b"worse"]


@pytest.mark.parametrize("options", [(), ("--upsert",)], ids=["append", "upsert"])
def test_an_audit_passes_though_compaction_took_records_that_the_table_has(
    options: tuple[str, ...], table: Table, read: Read, served: BrokerProcess, topic: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    create_topic(
        served.bootstrap, topic, 1,
        cleanup_policy="compact", segment_ms="1", min_cleanable_dirty_ratio="0.0",
    )  # fmt: skip
    produce(served.bootstrap, topic, [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}])
    assert summary(table("delta", *options))["rows"] == 2
    for value in ("3", "4", "5"):  # each begins a segment
        produce(served.bootstrap, topic, [{"key": "a", "value": value}])
    until(lambda: read().where("offset = 0").isEmpty(), "compaction", 120)
    ended = barnabas("pipeline", "audit", "--table", tmp_path / "table", "-b", served.bootstrap)
    assert ended.code == 0, ended
    assert f"{topic} is compacted" in ended.out
