"""The sections on clusters and groups run, and leave no process behind."""

import shutil
from pathlib import Path

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.bench.bench_plan import SMOKE, Bench
from barnabas.bench.bench_report import Section
from barnabas.bench.clusters.bench_cluster import BROKERS
from barnabas.bench.clusters.failover_bench import failover_section
from barnabas.bench.clusters.group_members import GroupFailed, demand
from barnabas.bench.clusters.groups_bench import groups_section
from barnabas.bench.clusters.replication_bench import replication_section
from barnabas.bench.clusters.restart_bench import restart_section

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")


def names(section: Section) -> list[str]:
    assert all(number > 0 for row in section.rows for number in row.numbers.values())
    return [row.name for row in section.rows]


@needs_java
@pytest.mark.long
@pytest.mark.alone
def test_replication_is_measured_on_three_processes_through_a_kill(tmp_path: Path) -> None:
    section = replication_section(Bench(SMOKE, tmp_path, print))
    caught_up, killed, after_it = names(section)[-3:]
    assert caught_up.startswith("empty follower copies 2 MB")
    assert killed.startswith("leader killed")
    assert "controller" in after_it
    (row,) = (row for row in section.rows if row.name == killed)
    assert row.numbers["p50_s"] > row.numbers["session_p50_s"] > 0
    assert list(tmp_path.iterdir()) == []


@needs_java
def test_a_failover_is_measured_on_both_kinds_of_tree(tmp_path: Path) -> None:
    section = failover_section(Bench(SMOKE, tmp_path, print))
    assert [name.rpartition(", ")[2] for name in names(section)] == [
        *["ZooKeeper"] * 2,
        *["embedded tree"] * 2,
    ]


@needs_java
def test_a_restart_is_measured_until_all_replicas_are_in_sync(tmp_path: Path) -> None:
    section = restart_section(Bench(SMOKE, tmp_path, print))
    found = {row.name: row.numbers for row in section.rows}
    assert len(names(section)) == 5 + 3 * BROKERS
    assert sum("(controller): CPU time" in name for name in found) == 1
    listens = found["start until each broker listens"]["max_s"]
    led = found["start until every partition has a leader"]["seconds"]
    in_sync = found["start until all replicas are in sync"]["seconds"]
    acknowledged = found["start until acks=all acknowledged: first, last topic"]
    assert listens < led <= in_sync
    assert 0 < acknowledged["first_s"] <= acknowledged["last_s"]
    assert list(tmp_path.iterdir()) == []


def test_rebalances_of_every_size_and_commits_are_measured(tmp_path: Path) -> None:
    section = groups_section(Bench(SMOKE, tmp_path, print))
    assert len(names(section)) == len(SMOKE.group_sizes) + 1
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_coordinator_fails_the_run() -> None:
    demand(ErrorCode.none, "not raised")
    with pytest.raises(GroupFailed, match="JoinGroup: illegal_generation"):
        demand(ErrorCode.illegal_generation, "JoinGroup")
