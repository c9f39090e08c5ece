"""What an archive decides without Spark: what to read, which files are its own, which to merge."""

from pathlib import Path

import pytest

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.spark.archive.archive_compaction import FILES_OF_A_TIER, decide_merges
from barnabas.spark.archive.archive_files import ArchiveFolder
from barnabas.spark.archive.archive_manifest import (
    ArchivedFile,
    ArchivedPartition,
    ArchivedTopic,
    Manifest,
    Part,
    Partition,
    parse_manifest,
)
from barnabas.spark.archive.archive_source import Bounds, Range, TopicNow, cut, decide_ranges

ORDERS = Partition("orders", 0)


def archived(start: int, end: int, topic_id: str = "id") -> Manifest:
    return Manifest(1, {"orders": ArchivedTopic(topic_id, 1, {0: ArchivedPartition(start, end)})})


def now(start: int, end: int, topic_id: str = "id") -> dict[str, TopicNow]:
    return {"orders": TopicNow(topic_id, {0: Bounds(start, end, 7)})}


def file(name: str, records: int, day: str = "2026-01-01") -> ArchivedFile:
    part = Part(0, records, 0, records - 1, 0, 1, 99)
    return ArchivedFile(f"topic=orders/day={day}/{name}.parquet", "orders", day, 10, (part,))


def test_a_topic_that_was_never_archived_is_read_from_its_beginning() -> None:
    assert decide_ranges(Manifest(), now(5, 9), allow_gaps=False) == [Range(ORDERS, 5, 9, 7)]


def test_only_what_is_new_is_read() -> None:
    assert decide_ranges(archived(0, 6), now(0, 9), allow_gaps=False) == [Range(ORDERS, 6, 9, 7)]
    assert decide_ranges(archived(0, 9), now(0, 9), allow_gaps=False) == []


def test_records_deleted_before_they_were_archived_are_an_error_unless_gaps_are_allowed() -> None:
    with pytest.raises(CommandFailed, match=r"orders \[0\]: the records from 6 to 8 were deleted"):
        decide_ranges(archived(0, 6), now(8, 9), allow_gaps=False)

    [found] = decide_ranges(archived(0, 6), now(8, 9), allow_gaps=True)
    grown = ArchivedPartition(0, 6).after(found.start, found.end, [], found.leader_epoch)
    assert (grown.end, grown.gaps) == (9, ((6, 8),))


def test_a_topic_that_was_made_anew_is_not_taken_for_the_one_archived() -> None:
    with pytest.raises(CommandFailed, match="deleted and made again"):
        decide_ranges(archived(0, 6), now(0, 9, "other"), allow_gaps=True)


def test_a_topic_that_was_truncated_below_what_is_archived_is_told() -> None:
    with pytest.raises(CommandFailed, match="archived up to 6: it was truncated"):
        decide_ranges(archived(0, 6), now(0, 4), allow_gaps=True)


def test_a_step_takes_from_every_partition_and_gives_the_rest_to_the_larger() -> None:
    ranges = [
        Range(Partition("a", 0), 0, 1000),
        Range(Partition("a", 1), 10, 20),
        Range(Partition("b", 0), 0, 1000),
    ]
    assert [each.size for each in cut(ranges, 210)] == [100, 10, 100]
    assert [each.size for each in cut(ranges, 1)] == [1, 1, 1]
    assert cut(ranges, 10_000) == ranges


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    topics = {"orders": ArchivedTopic("id", 1, {0: ArchivedPartition(1, 9, 7, 5, 3, ((4, 5),))})}
    manifest = Manifest(3, topics, (file("a", 7),))
    assert parse_manifest(manifest.to_json(), "m") == manifest


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1, "topics": {}}'])
def test_what_is_no_manifest_is_told_in_one_sentence(text: str) -> None:
    with pytest.raises(CommandFailed, match="m is no manifest of an archive"):
        parse_manifest(text, "m")


def test_a_manifest_of_a_newer_version_is_refused() -> None:
    with pytest.raises(CommandFailed, match="newer version"):
        parse_manifest('{"version": 2}', "m")


def test_files_that_the_manifest_does_not_name_are_removed(tmp_path: Path) -> None:
    folder = ArchiveFolder(str(tmp_path))
    for name in (file("mine", 1).path, file("stranger", 1).path, "_staging/part.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    manifest = Manifest(1, {}, (file("mine", 1),))
    folder.commit(manifest)

    assert folder.remove_strangers(folder.load()) == 1
    assert [path.name for path in tmp_path.rglob("*.parquet")] == ["mine.parquet"]


def test_a_manifest_that_names_a_missing_file_is_not_committed(tmp_path: Path) -> None:
    folder = ArchiveFolder(str(tmp_path))
    with pytest.raises(CommandFailed, match="belongs to the archive, but is gone"):
        folder.commit(Manifest(1, {}, (file("gone", 1),)))
    assert folder.load() == Manifest()


def test_an_archive_has_one_writer_at_a_time(tmp_path: Path) -> None:
    with (
        ArchiveFolder(str(tmp_path)).locked(),
        pytest.raises(CommandFailed, match="being written by another process"),
        ArchiveFolder(str(tmp_path)).locked(),
    ):
        pass


def test_a_folder_without_manifest_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"is no archive: it has no _manifest\.json"):
        ArchiveFolder(str(tmp_path)).load(must_exist=True)


def test_a_place_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(Misused, match="ftp://host/archive"):
        ArchiveFolder("ftp://host/archive")


def test_many_files_of_one_size_are_merged_day_by_day() -> None:
    small = tuple(file(f"s{n}", 5) for n in range(FILES_OF_A_TIER))
    fewer = tuple(file(f"t{n}", 5, "2026-01-02") for n in range(FILES_OF_A_TIER - 1))
    large = tuple(file(f"l{n}", 900_000) for n in range(2 * FILES_OF_A_TIER))
    assert decide_merges(Manifest(1, {}, (*small, *fewer, *large))) == [list(small)]
