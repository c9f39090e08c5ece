"""The target of a replay, with a broker and without Spark: an archived record must stay in it."""

from pathlib import Path

import pytest

from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.archive.archive_files import ArchiveDirectory
from barnabas.spark.archive.archive_manifest import ArchivedFile, ArchivedTopic, Manifest, Part
from barnabas.spark.replay.replay_plan import PartitionPlan, ReplaySelection
from barnabas.spark.replay.replay_target import check_retention
from tests.spark.commands import barnabas
from tests.spark.conftest import create_topic
from tests.support.broker import BrokerProcess

DAY_MS = 86_400_000


def manifest(*times: tuple[int, int]) -> Manifest:
    """An archive with a file of partition 0 for each pair of the first and the last timestamp."""
    files = tuple(
        ArchivedFile(f"{n}", "orders", "day", 1, (Part(0, 1, n, n, first, last, 0),))
        for n, (first, last) in enumerate(times)
    )
    return Manifest(1, {"orders": ArchivedTopic("id", 1)}, files)


def test_a_topic_that_would_delete_archived_records_is_refused_with_a_remedy(
    served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "0").touch()
    ArchiveDirectory(str(tmp_path)).commit(manifest((0, 10)))
    create_topic(served.bootstrap, topic)
    ended = barnabas(
        *("pipeline", "replay", "orders", "--from", tmp_path, "--to", topic),
        *("-b", served.bootstrap),
    )
    assert ended.code == 1
    assert f"topic {topic} has retention.ms=604800000, which deletes records before" in ended.err
    assert f"`barnabas configs alter --topic {topic} --set retention.ms=-1`" in ended.err
    assert ended.err.count("\n") == 1


def test_a_topic_with_a_limited_size_is_refused_with_a_remedy(
    served: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "0").touch()
    ArchiveDirectory(str(tmp_path)).commit(manifest((0, 10)))
    create_topic(served.bootstrap, topic, retention_ms="-1", retention_bytes="9")
    ended = barnabas(
        *("pipeline", "replay", "orders", "--from", tmp_path, "--to", topic),
        *("-b", served.bootstrap),
    )
    assert ended.code == 1
    assert f"topic {topic} has retention.bytes=9, which may delete records before" in ended.err
    assert f"`barnabas configs alter --topic {topic} --set retention.bytes=-1`" in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("policy", "retention_ms", "oldest_ms"),
    [
        ("delete", -1, 0),
        ("delete", DAY_MS, None),
        ("delete", DAY_MS, DAY_MS),
        ("compact", DAY_MS, 0),
    ],
)
def test_a_topic_that_keeps_all_archived_records_is_taken(
    policy: str, retention_ms: int, oldest_ms: int | None
) -> None:
    configs = {
        "retention.ms": str(retention_ms),
        "retention.bytes": "9" if policy == "compact" else "-1",
        "cleanup.policy": policy,
    }
    check_retention("copy", configs, oldest_ms, 2 * DAY_MS)


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_deletes_by_time_is_refused_for_older_records(policy: str) -> None:
    configs = {"retention.ms": str(DAY_MS), "retention.bytes": "-1", "cleanup.policy": policy}
    with pytest.raises(CommandFailed, match=r"deletes records before 1970-01-02T00:00:00\.000Z"):
        check_retention("copy", configs, DAY_MS - 1, 2 * DAY_MS)


def test_the_oldest_record_is_that_of_the_selection() -> None:
    archive = manifest((100, 200), (300, 400))
    assert ReplaySelection("orders").oldest_ms(archive) == 100
    assert ReplaySelection("orders", from_offset=1).oldest_ms(archive) == 300
    assert ReplaySelection("orders", since_ms=150).oldest_ms(archive) == 150
    assert ReplaySelection("orders", since_ms=500).oldest_ms(archive) is None


def test_records_that_retention_deleted_meanwhile_are_missed() -> None:
    plan = PartitionPlan(5, 0, 4, 99, 10)
    assert not plan.lost_before(10)
    assert plan.lost_before(11)
    assert not PartitionPlan(0, 0, 4, 99, 10).lost_before(11)
