"""The archiver with a real Spark session: no record twice, none lost, a correct manifest."""

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from barnabas.spark.archive import archive_compaction
from barnabas.spark.archive import archive_run as archiving
from barnabas.spark.archive.archive_checksum import checksum_column
from barnabas.spark.archive.archive_files import ArchiveDirectory
from barnabas.spark.archive.archive_manifest import Manifest
from barnabas.spark.archive.archive_run import Archiver
from tests.spark.commands import Ended, barnabas
from tests.spark.conftest import Fill, create_topic, produce
from tests.support.broker import BrokerProcess

DAY_MS = 86_400_000
Read = Callable[..., DataFrame]
Archive = Callable[..., Ended]


def checksum_line(row: Any) -> str:
    """The line whose CRC-32 is the checksum of a record with key, value and headers."""
    headers = ",".join(
        f"{zlib.crc32(each.key.encode())}:{zlib.crc32(each.value)}" for each in row.headers
    )
    at = f"{row.offset} {round(row.timestamp.timestamp() * 1000)}"
    return f"{at} {zlib.crc32(row.key)} {zlib.crc32(row.value)} {headers}"


def record(number: int, **more: Any) -> dict[str, Any]:
    return {"value": b"v%d" % number, "timestamp": number * DAY_MS // 4, **more}


@pytest.fixture
def archive(spark: SparkSession, served: BrokerProcess, topic: str, tmp_path: Path) -> Archive:
    """Archives the test's topic to the directory `archive`."""

    def run(*more: object) -> Ended:
        to = tmp_path / "archive"
        return barnabas(
            "pipeline", "archive", topic, "--to", to, "--json", "-b", served.bootstrap, *more
        )

    return run


def rows(spark: SparkSession, folder: Path) -> list[Any]:
    read = spark.read.schema(archiving.SCHEMA).parquet(str(folder))
    return read.orderBy("partition", "offset").collect()


def test_all_of_a_record_is_archived_by_topic_and_day(
    spark: SparkSession, fill: Fill, archive: Archive, topic: str, tmp_path: Path
) -> None:
    headers = [("a", b"1"), ("a", None)]
    fill(
        [
            record(1, key=b"k", headers=headers, partition=0),
            record(5, partition=1),
            {"value": None, "key": b"gone", "timestamp": 9, "partition": 1},
        ],
        partitions=2,
    )
    ended = archive()
    assert (ended.code, json.loads(ended.out)["records"]) == (0, 3), ended.err

    first, second, third = rows(spark, tmp_path / "archive")
    assert (bytes(first.key), bytes(first.value), first.day) == (b"k", b"v1", "1970-01-01")
    assert [(h.key, h.value and bytes(h.value)) for h in first.headers] == headers
    assert (second.key, second.offset, second.day) == (None, 0, "1970-01-02")
    assert (third.value, third.offset, third.timestamp.timestamp()) == (None, 1, 0.009)
    days = {path.parent.name for path in (tmp_path / "archive" / f"topic={topic}").rglob("*.pa*")}
    assert days == {"day=1970-01-01", "day=1970-01-02"}


def test_archiving_again_adds_what_is_new_and_only_that(
    spark: SparkSession, served: BrokerProcess, fill: Fill, archive: Archive, topic: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    fill([record(n, partition=n % 2) for n in range(10)], partitions=2)
    archive()
    again = json.loads(archive().out)
    assert (again["records"], [each["new"] for each in again["partitions"]]) == (0, [0, 0])

    produce(served.bootstrap, topic, [record(n, partition=1) for n in range(10, 15)])
    assert json.loads(archive("--step", 3).out)["records"] == 5
    assert sorted(int(row.value[1:]) for row in rows(spark, tmp_path / "archive")) == list(
        range(15)
    )


def test_a_topic_that_grows_during_each_step_is_archived_up_to_now(
    served: BrokerProcess, fill: Fill, archive: Archive, topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Not step after step without end."""
    fill([record(n) for n in range(6)])
    step = Archiver.step

    def growing(self: Archiver, spark: SparkSession) -> Any:
        found = step(self, spark)
        produce(served.bootstrap, topic, [record(9)])
        return found

    monkeypatch.setattr(Archiver, "step", growing)
    assert json.loads(archive("--step", 5).out)["records"] == 7


def test_the_manifest_matches_the_log_and_the_files(
    fill: Fill, read: Read, archive: Archive, topic: str, tmp_path: Path
) -> None:
    fill([record(n, key=b"k", headers=[("h", b"%d" % n)]) for n in range(50)])
    archive("--step", 30)

    manifest = ArchiveDirectory(str(tmp_path / "archive")).load()
    log = sum(
        zlib.crc32(checksum_line(row).encode()) for row in read(includeHeaders="true").collect()
    )
    partition = manifest.topics[topic].partitions[0]
    assert (partition.start, partition.end, partition.records) == (0, 50, 50)
    assert partition.checksum == log
    assert sum(part.checksum for file in manifest.files for part in file.parts) == log
    assert sum(file.records for file in manifest.files) == 50


def test_a_run_that_dies_before_its_commit_archives_nothing_twice(
    spark: SparkSession, fill: Fill, archive: Archive, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    fill([record(n) for n in range(10)])

    def end(self: ArchiveDirectory, manifest: Manifest) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ArchiveDirectory, "commit", end)
        assert archive().code == 130
    assert list((tmp_path / "archive").rglob("*.parquet"))
    assert json.loads(archive().out)["records"] == 10
    assert [int(row.value[1:]) for row in rows(spark, tmp_path / "archive")] == list(range(10))


def test_small_files_become_large_ones_with_the_same_records(
    spark: SparkSession, fill: Fill, archive: Archive, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(archive_compaction, "FILES_OF_A_TIER", 3)
    fill([{"value": b"v%d" % n, "timestamp": 1} for n in range(3)])
    ended = json.loads(archive("--step", 1).out)
    assert (ended["records"], ended["compacted"], ended["files"]) == (3, 3, 1)
    assert [int(row.value[1:]) for row in rows(spark, tmp_path / "archive")] == list(range(3))


def test_a_missing_topic_is_reported_before_spark_starts(archive: Archive) -> None:
    ended = archive()
    assert ended.code == 1
    assert ended.err.startswith("barnabas: there is no topic ")


def test_an_empty_topic_makes_an_empty_archive(archive: Archive, fill: Fill) -> None:
    fill()
    ended = archive()
    assert (ended.code, json.loads(ended.out)["records"]) == (0, 0)


def test_checksums_of_copies_do_not_depend_on_offsets(
    spark: SparkSession, served: BrokerProcess, fill: Fill, read: Read, topic: str
) -> None:
    fill([record(1)])
    create_topic(served.bootstrap, f"{topic}-copy")
    produce(served.bootstrap, f"{topic}-copy", [record(0), record(1)])

    def checksums(name: str) -> list[int]:
        found = read(subscribe=name, includeHeaders="true").orderBy("offset")
        return [row[0] for row in found.select(checksum_column(offsets=False)).collect()]

    assert checksums(topic) == checksums(f"{topic}-copy")[1:]
