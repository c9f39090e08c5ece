"""The replayer with a real Spark session: the same records, once, even after a crash."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.archive.archive_manifest import ArchivedFile, Manifest, Part
from barnabas.spark.replay.replay_plan import PartitionPlan, ReplayPlan, ReplaySelection, parse_plan
from barnabas.spark.replay.replay_run import Replayer, ReplayStep
from tests.spark.commands import Ended, barnabas
from tests.spark.conftest import create_topic, produce
from tests.spark.written import topics_of
from tests.support.broker import BrokerProcess
from tests.support.cluster import until

Read = Callable[..., DataFrame]
ARCHIVED = "replayed-from-an-archive"


def filled(broker: BrokerProcess, topic: str, folder: Path) -> Path:
    """An archive of 20 records in 2 partitions, ten seconds apart."""
    create_topic(broker.bootstrap, topic, 2)
    produce(
        broker.bootstrap,
        topic,
        [
            {"value": b"v%d" % n, "key": b"k", "timestamp": n * 10_000, "partition": n % 2}
            | ({"headers": [("h", b"x"), ("h", None)]} if n % 3 else {})
            for n in range(20)
        ],
    )
    ended = barnabas("pipeline", "archive", topic, "--to", folder, "-b", broker.bootstrap)
    assert ended.code == 0, ended.err
    return folder


@pytest.fixture(scope="module")
def archived(
    spark: SparkSession, served: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """One for all tests that leave it as it is."""
    return filled(served, ARCHIVED, tmp_path_factory.mktemp("replayed") / "archive")


@pytest.fixture
def replay(archived: Path, served: BrokerProcess, topic: str) -> Callable[..., Ended]:
    """Replays to the topic `<topic>-again`."""

    def run(*more: object) -> Ended:
        return replayed(served, ARCHIVED, archived, f"{topic}-again", *more)

    return run


def replayed(broker: BrokerProcess, source: str, folder: Path, target: str, *more: object) -> Ended:
    return barnabas(
        *("pipeline", "replay", source, "--from", folder, "--to", target, "--json"),
        *("-b", broker.bootstrap, *more),
    )


def content(rows: DataFrame) -> list[tuple[Any, ...]]:
    """Everything of each record but its offset, in order."""
    columns = ("partition", "key", "value", "timestamp", "headers")
    return [tuple(row) for row in rows.orderBy("partition", "offset").select(*columns).collect()]


def values(rows: DataFrame) -> list[int]:
    ordered = rows.orderBy("partition", "offset").select("value").collect()
    return [int(row.value[1:]) for row in ordered]


@pytest.mark.parametrize("master", ["local[*]", "spark://elsewhere:7077"])
def test_records_come_back_as_they_were_and_only_once(
    replay: Callable[..., Ended], read: Read, served: BrokerProcess, topic: str, master: str
) -> None:
    """The session of the tests is used either way; on a cluster tasks write aside first."""
    before = set(topics_of(served.bootstrap))
    ended = replay("--master", master)
    assert (ended.code, json.loads(ended.out)["records"]) == (0, 20), ended.err
    copy = read(subscribe=f"{topic}-again", includeHeaders="true")
    assert content(copy) == content(read(subscribe=ARCHIVED, includeHeaders="true"))

    assert json.loads(replay("--master", master).out)["records"] == 0
    assert read(subscribe=f"{topic}-again").count() == 20
    until(
        lambda: set(topics_of(served.bootstrap)) - before == {f"{topic}-again"},
        "what was written aside to be deleted",
    )


def test_a_replay_resumes_where_it_ended(
    spark: SparkSession,
    served: BrokerProcess,
    read: Read,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archived = filled(served, topic, tmp_path / "archive")

    def replay(*more: object) -> Ended:
        return replayed(served, topic, archived, f"{topic}-again", *more)

    step = Replayer.step

    def one_step(self: Replayer, plan: ReplayPlan) -> ReplayStep | None:
        if self.written(plan):
            raise KeyboardInterrupt
        return step(self, plan)

    with monkeypatch.context() as patched:
        patched.setattr(Replayer, "step", one_step)
        assert replay("--step", 6).code == 130
    assert values(read(subscribe=f"{topic}-again")) == [0, 2, 4, 1, 3, 5]
    # Records archived meanwhile do not belong to this replay.
    produce(served.bootstrap, topic, [{"value": b"v20", "partition": 0}])
    grown = barnabas("pipeline", "archive", topic, "--to", archived, "-b", served.bootstrap)
    assert grown.code == 0, grown.err

    assert json.loads(replay().out)["records"] == 14
    whole = values(read(subscribe=f"{topic}-again"))
    assert whole == [*range(0, 20, 2), *range(1, 20, 2)]
    # Once that is done, it is what comes next.
    assert json.loads(replay().out)["records"] == 1
    assert json.loads(replay().out)["records"] == 0
    whole = values(read(subscribe=f"{topic}-again"))
    assert whole == [*range(0, 21, 2), *range(1, 20, 2)]


def test_only_the_selected_offsets_and_times_are_written(
    replay: Callable[..., Ended], read: Read, topic: str
) -> None:
    ended = replay("-p", 1, "--offsets", "2..8", "--until", "1970-01-01T00:01:50Z")
    assert ended.code == 0, ended.err
    assert values(read(subscribe=f"{topic}-again")) == [5, 7, 9]


def test_another_producer_in_the_target_is_detected(
    replay: Callable[..., Ended], served: BrokerProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def foreign(self: Replayer, plan: ReplayPlan) -> ReplayStep | None:
        produce(served.bootstrap, plan.target, [{"value": b"x", "partition": 0}] * 10)
        produce(served.bootstrap, plan.target, [{"value": b"x", "partition": 1}] * 10)
        return None

    monkeypatch.setattr(Replayer, "step", foreign)
    ended = replay()
    assert ended.code == 1
    assert "another producer has written to it" in ended.err


def test_unsuitable_targets_are_refused(archived: Path, served: BrokerProcess, topic: str) -> None:
    create_topic(served.bootstrap, f"{topic}-one")
    create_topic(served.bootstrap, f"{topic}-now", 2, message_timestamp_type="LogAppendTime")

    def refused(source: str, to: str) -> str:
        ended = barnabas(
            *("pipeline", "replay", source, "--from", archived, "--to", to),
            *("-b", served.bootstrap),
        )
        assert ended.code == 1
        return ended.err

    assert "is the archived topic itself" in refused(ARCHIVED, ARCHIVED)
    assert "has 1 partitions but the archive has 2" in refused(ARCHIVED, f"{topic}-one")
    assert "message.timestamp.type=LogAppendTime" in refused(ARCHIVED, f"{topic}-now")
    assert f"has no topic nosuch; it has {ARCHIVED}" in refused("nosuch", "anywhere")


def test_wrong_ranges_are_one_line(tmp_path: Path) -> None:
    ended = barnabas("pipeline", "replay", "t", "--from", tmp_path, "--offsets", "5-9")
    assert (ended.code, ended.err) == (2, "barnabas: --offsets 5-9: expected A..B, A.. or ..B\n")


def test_only_files_that_may_have_some_of_a_selection_are_read() -> None:
    def file(name: str, partition: int, first: int, last: int) -> ArchivedFile:
        part = Part(partition, 1, first, last, first * 100, last * 100, 0)
        return ArchivedFile(name, "orders", "day", 1, (part,))

    manifest = Manifest(1, {}, (file("a", 0, 0, 9), file("b", 0, 10, 19), file("c", 1, 0, 9)))

    def chosen(**bounds: Any) -> list[str]:
        return [each.path for each in ReplaySelection("orders", **bounds).files(manifest)]

    assert chosen() == ["a", "b", "c"]
    assert chosen(partitions=(0,), from_offset=10) == ["b"]
    assert chosen(until_offset=10) == ["a", "c"]
    assert chosen(since_ms=1000) == ["b"]
    assert chosen(since_ms=500, until_ms=1000) == ["a", "c"]


def test_a_plan_may_grow_only_by_what_comes_after_it() -> None:
    plan = ReplayPlan("copy", {0: PartitionPlan(5, 0, 9, 99, 0)}, is_done=True)

    def grows(partition: int, last: int, **bounds: Any) -> bool:
        part = Part(partition, 1, 0, last, 0, 0, 0)
        manifest = Manifest(1, {}, (ArchivedFile("a", "orders", "day", 1, (part,)),))
        return plan.may_grow(ReplaySelection("orders", **bounds), manifest)

    assert [grows(0, 9), grows(0, 10), grows(1, 0)] == [False, True, True]
    assert not grows(1, 0, partitions=(0,))


def test_a_plan_survives_json_and_refuses_impossible_end_offsets() -> None:
    plan = ReplayPlan("copy", {0: PartitionPlan(5, 10, 20, 99, 3)})
    assert parse_plan(plan.to_json()) == plan
    assert plan.written({0: 8}) == {0: 5}
    with pytest.raises(CommandFailed, match=r"copy-0 ends at offset 9, but this replay"):
        plan.written({0: 9})
