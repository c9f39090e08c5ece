"""The decisions of an archive, without Spark: ranges to read, files to keep, files to merge."""

from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException

from barnabas.base.ids import TopicPartition
from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.spark.archive import archive_source
from barnabas.spark.archive.archive_compaction import FILES_OF_A_TIER, decide_merges
from barnabas.spark.archive.archive_files import ArchiveDirectory
from barnabas.spark.archive.archive_manifest import (
    ArchivedFile,
    ArchivedPartition,
    ArchivedTopic,
    Manifest,
    Part,
    parse_manifest,
)
from barnabas.spark.archive.archive_source import (
    Bounds,
    PartitionRange,
    TopicSnapshot,
    cut,
    decide_ranges,
)

ORDERS = TopicPartition("orders", 0)


def archived(start: int, end: int, topic_id: str = "id") -> Manifest:
    return Manifest(1, {"orders": ArchivedTopic(topic_id, 1, {0: ArchivedPartition(start, end)})})


def now(start: int, end: int, topic_id: str = "id") -> dict[str, TopicSnapshot]:
    return {"orders": TopicSnapshot(topic_id, {0: Bounds(start, end, 7)})}


def file(name: str, records: int, day: str = "2026-01-01") -> ArchivedFile:
    part = Part(0, records, 0, records - 1, 0, 1, 99)
    return ArchivedFile(f"topic=orders/day={day}/{name}.parquet", "orders", day, 10, (part,))


def test_a_topic_that_was_never_archived_is_read_from_its_beginning() -> None:
    assert decide_ranges(Manifest(), now(5, 9), allow_gaps=False) == [
        PartitionRange(ORDERS, 5, 9, 7)
    ]


def test_only_what_is_new_is_read() -> None:
    assert decide_ranges(archived(0, 6), now(0, 9), allow_gaps=False) == [
        PartitionRange(ORDERS, 6, 9, 7)
    ]
    assert decide_ranges(archived(0, 9), now(0, 9), allow_gaps=False) == []


def test_records_deleted_before_they_were_archived_are_an_error_unless_gaps_are_allowed() -> None:
    with pytest.raises(CommandFailed, match=r"orders-0: the records from 6 to 8 were deleted"):
        decide_ranges(archived(0, 6), now(8, 9), allow_gaps=False)

    [found] = decide_ranges(archived(0, 6), now(8, 9), allow_gaps=True)
    grown = ArchivedPartition(0, 6).after(found.start, found.end, [], found.leader_epoch)
    assert (grown.end, grown.gaps) == (9, ((6, 8),))


def test_a_recreated_topic_is_not_archived_as_the_same_topic() -> None:
    with pytest.raises(CommandFailed, match="deleted and recreated"):
        decide_ranges(archived(0, 6), now(0, 9, "other"), allow_gaps=True)


def test_a_topic_truncated_below_the_archived_offsets_is_an_error() -> None:
    with pytest.raises(CommandFailed, match="archived up to 6: it was truncated"):
        decide_ranges(archived(0, 6), now(0, 4), allow_gaps=True)


def test_a_step_takes_from_every_partition_and_gives_the_rest_to_the_larger() -> None:
    ranges = [
        PartitionRange(TopicPartition("a", 0), 0, 1000),
        PartitionRange(TopicPartition("a", 1), 10, 20),
        PartitionRange(TopicPartition("b", 0), 0, 1000),
    ]
    assert [each.size for each in cut(ranges, 210)] == [100, 10, 100]
    assert [each.size for each in cut(ranges, 1)] == [1, 1, 1]
    assert cut(ranges, 10_000) == ranges


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    topics = {"orders": ArchivedTopic("id", 1, {0: ArchivedPartition(1, 9, 7, 5, 3, ((4, 5),))})}
    manifest = Manifest(3, topics, (file("a", 7),))
    assert parse_manifest(manifest.to_json(), "m") == manifest


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1, "topics": {}}'])
def test_an_invalid_manifest_is_reported_in_one_sentence(text: str) -> None:
    with pytest.raises(CommandFailed, match="m is not an archive manifest"):
        parse_manifest(text, "m")


def test_a_manifest_of_a_newer_version_is_refused() -> None:
    with pytest.raises(CommandFailed, match="newer version"):
        parse_manifest('{"version": 2}', "m")


def test_files_that_the_manifest_does_not_list_are_removed(tmp_path: Path) -> None:
    folder = ArchiveDirectory(str(tmp_path))
    for name in (file("mine", 1).path, file("unlisted", 1).path, "_staging/part.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    manifest = Manifest(1, {}, (file("mine", 1),))
    folder.commit(manifest)

    folder.remove_unlisted(folder.load())
    assert [path.name for path in tmp_path.rglob("*.parquet")] == ["mine.parquet"]


def test_a_manifest_that_lists_a_missing_file_is_not_committed(tmp_path: Path) -> None:
    folder = ArchiveDirectory(str(tmp_path))
    with pytest.raises(CommandFailed, match="belongs to the archive but is missing"):
        folder.commit(Manifest(1, {}, (file("gone", 1),)))
    assert folder.load() == Manifest()


def test_an_archive_has_one_writer_at_a_time(tmp_path: Path) -> None:
    with (
        ArchiveDirectory(str(tmp_path)).locked(),
        pytest.raises(CommandFailed, match="another process is writing to"),
        ArchiveDirectory(str(tmp_path)).locked(),
    ):
        pass


def test_a_directory_without_a_manifest_is_not_an_archive(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"is not an archive: it has no _manifest\.json"):
        ArchiveDirectory(str(tmp_path)).load(must_exist=True)


def test_an_unknown_file_system_is_refused() -> None:
    with pytest.raises(Misused, match="ftp://host/archive"):
        ArchiveDirectory("ftp://host/archive")


def test_many_files_of_one_size_are_merged_day_by_day() -> None:
    small = tuple(file(f"s{n}", 5) for n in range(FILES_OF_A_TIER))
    fewer = tuple(file(f"t{n}", 5, "2026-01-02") for n in range(FILES_OF_A_TIER - 1))
    large = tuple(file(f"l{n}", 900_000) for n in range(2 * FILES_OF_A_TIER))
    assert decide_merges(Manifest(1, {}, (*small, *fewer, *large))) == [list(small)]


def answered(error: int | None = None, answer: object = None) -> "Future[object]":
    future: Future[object] = Future()
    if error is None:
        future.set_result(answer)
    else:
        future.set_exception(KafkaException(KafkaError(error)))
    return future


class Answering:
    """A client that gets these answers, the last one from then on."""

    def __init__(self, *answers: "Future[object]") -> None:
        self._answers = list(answers)
        self.asked = 0

    def list_offsets(self, wanted: object, **_: object) -> dict[object, "Future[object]"]:
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return {confluent_kafka.TopicPartition("t", 0): answer}


def test_offsets_are_asked_for_again_while_a_broker_does_not_know_a_new_topic() -> None:
    at_7 = SimpleNamespace(offset=7)
    client = Answering(answered(KafkaError.UNKNOWN_TOPIC_OR_PART), answered(answer=at_7))
    assert archive_source._offsets(client, "t", [0], "latest") == [at_7]
    assert client.asked == 2
    refused = Answering(answered(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(CommandFailed, match=r"^t \[0\]: .*AUTHORIZATION_FAILED"):
        archive_source._offsets(refused, "t", [0], "latest")


def test_an_answer_without_an_offset_is_no_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of librdkafka if the leader of a partition goes away: it is no truncated topic."""
    monkeypatch.setattr(archive_source, "_PAUSE_S", 0)
    at_7, nowhere = SimpleNamespace(offset=7), SimpleNamespace(offset=-1001)
    client = Answering(answered(answer=nowhere), answered(answer=at_7))
    assert archive_source._offsets(client, "t", [0], "latest") == [at_7]
    with pytest.raises(CommandFailed, match=r"^t \[0\]: its leader has not answered$"):
        archive_source._offsets(Answering(answered(answer=nowhere)), "t", [0], "latest")
