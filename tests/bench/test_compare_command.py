"""`barnabas bench compare`: options, output and files."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from barnabas.bench import sections
from barnabas.bench.bench_command import app
from barnabas.bench.compare import (
    compare_cases,
    compare_command,
    compare_latency,
    compare_limits,
    compare_run,
    kafka_release,
)
from barnabas.bench.compare.compare_cases import CASES, Case, CaseMetric
from barnabas.bench.compare.compare_run import Compared, Comparison
from barnabas.bench.compare.compare_sites import System
from barnabas.bench.compare.kafka_release import Unavailable, find_kafka
from barnabas.bench.compare.transaction_cases import TRANSACTION_CASES
from barnabas.bench.server_processes import broker

RATE = CaseMetric("rate", "1/s", goal=2.0)


def asked(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["compare", *arguments])


def test_bootstrap_is_given_twice_or_not_at_all() -> None:
    refused = asked("--bootstrap", "one:9092")
    assert refused.exit_code == 2
    assert "twice or not at all" in refused.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["--only", "latency,nonsense"],
        ["--bootstrap", "a:1", "--bootstrap", "b:1", "--only", "nonsense"],
        ["--bootstrap", "a:1", "--bootstrap", "b:1", "--only", "start"],  # by its processes
        ["--quick", "--only", "controller 10000"],
    ],
)
def test_an_unknown_case_is_rejected_first(
    arguments: list[str],
) -> None:
    refused = asked(*arguments)
    assert refused.exit_code == 2
    assert arguments[-1].rpartition(",")[2] in refused.output
    assert "processor" not in refused.output


@pytest.mark.parametrize(
    ("word", "expected"),
    [("memory", ["start"]), ("P99.9", ["latency"]), ("disk", ["cost"]), ("cost", ["cost"])],
)
def test_cases_are_found_by_the_names_of_their_rows_too(word: str, expected: list[str]) -> None:
    effort = compare_command._effort(quick=False, repeat=None, minutes=None)
    found = compare_command._cases([word.lower()], effort, bootstrap=False, full=False, quick=False)
    assert [case.key for case in found] == expected


def test_a_quick_run_has_no_goals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Case] = []

    def run(ours: System, theirs: System, cases: list[Case], *_: object) -> Comparison:
        seen.extend(cases)
        return Comparison("ours", "theirs", [], [])

    monkeypatch.setattr(kafka_release, "find_kafka", lambda: None)
    monkeypatch.setattr(compare_run, "compare", run)
    asked("--quick", "--only", "latency", "--results", str(tmp_path))
    assert [metric.goal for case in seen for metric in case.metrics] == [None] * 3


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler, and so no raw limits")
def test_without_kafka_one_line_says_so_and_the_raw_limits_remain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unavailable() -> Unavailable:
        return Unavailable("Maven could not fetch it")

    monkeypatch.setattr(kafka_release, "find_kafka", unavailable)
    told = asked("--quick", "--only", "latency")
    assert told.exit_code == 0, told.output
    reason = "Apache Kafka 3.9.1 is not available (Maven could not fetch it)"
    line = f"{reason}: latency against raw limits only."
    assert line in told.output
    assert "Latency of a single request" in told.output
    assert "TCP over loopback" not in told.output


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        ("", ["raw", "produce", "fetch", "clients", "latency", "idle"]),
        ("LZ4", ["produce", "fetch", "clients"]),
        ("cold,start", ["idle", "log"]),
        ("controller,rebalance", ["failover", "groups"]),
    ],
)
def test_without_kafka_the_nearest_sections_are_measured(
    monkeypatch: pytest.MonkeyPatch, only: str, expected: list[str]
) -> None:
    ran: list[str] = []

    def run(names: Sequence[str], *_: object, goals: bool) -> sections.SectionResults:
        ran.extend(names)
        return sections.SectionResults([], [])

    monkeypatch.setattr(kafka_release, "find_kafka", lambda: Unavailable("no network"))
    monkeypatch.setattr(sections, "run", run)
    told = asked("--only", only)
    assert told.exit_code == 0, told.output
    assert ran == expected
    assert f"{', '.join(expected)} against raw limits only." in told.output


def test_every_case_has_nearest_sections() -> None:
    words = {case.key.split()[0] for case in (*CASES, *TRANSACTION_CASES)}
    assert words == set(compare_limits.NEAREST)
    assert {name for near in compare_limits.NEAREST.values() for name in near} <= set(
        sections.SECTIONS
    )


def test_two_addresses_are_compared_by_what_clients_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with broker(tmp_path) as server:
        both = ("--bootstrap", server.bootstrap, "--bootstrap", f"localhost:{server.port}")
        part = (*both, "--quick", "--only", "unbatched")
        shown = asked(*part)
        told = asked(*part, "--results", str(tmp_path / "r"))
        refused = asked(*part, "--results", "/proc/nowhere")
        nobody = asked("--bootstrap", server.bootstrap, "--bootstrap", "localhost:1", "--quick")
    assert str(nobody.exception) == "no broker answers at localhost:1"
    assert "Nothing is written" in shown.output
    assert not (tmp_path / "bench").exists()
    assert isinstance(refused.exception, OSError), "before anything is measured"
    assert "unbatched:" not in refused.output
    assert told.exit_code == 0, told.output
    assert "too short for meaningful figures" in told.output
    said = json.loads((tmp_path / "r" / "compare.json").read_text())
    (row,) = said["rows"]
    assert row["ours"][0] > 0
    assert row["theirs"][0] > 0
    assert said["machine"]["effort"] == "too little to mean anything"


def test_goals_are_for_barnabas_beside_apache_kafka_only() -> None:
    (case,) = (case for case in CASES if case.key == "latency")
    assert [metric.goal for metric in case.metrics] == [0.8, 1.0, 0.5]
    assert {metric.goal for metric in case.without_goals().metrics} == {None}


@pytest.mark.parametrize(
    ("arguments", "interrupted", "written"),
    [
        ([], False, ["bench/results"]),
        ([], True, []),
        (["--results", "there"], True, ["there"]),
        (["--only", "LATENCY"], False, []),
        (["--quick"], False, []),
        (["--only", "latency"], False, []),
        (["--full"], False, []),
        (["--bootstrap", "a:1", "--bootstrap", "b:1"], False, []),
    ],
)
def test_only_a_whole_comparison_with_apache_kafka_replaces_the_results(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    interrupted: bool,
    written: list[str],
) -> None:
    found = Comparison("ours", "theirs", [Compared(RATE, [2.0], [1.0])], [], interrupted)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(kafka_release, "find_kafka", lambda: None)
    monkeypatch.setattr(compare_run, "compare", lambda *_: found)
    monkeypatch.setattr(compare_command, "_check_answers", lambda _: None)
    monkeypatch.setattr(compare_latency, "idle_delay_ms", lambda _: 3.14)
    told = asked(*arguments)
    assert "wakes late, p99.9 3.1 ms" in told.output
    assert "p99.9 latencies will reflect the machine" in told.output
    assert [str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("*.json")] == written
    assert ("Nothing is written" in told.output) is not bool(written)
    assert (told.exit_code != 0) is interrupted
    assert ("Interrupted: the table shows the figures" in told.output) is interrupted


def test_an_interrupted_run_without_figures_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Comparison("ours", "theirs", [], [], True)
    monkeypatch.setattr(kafka_release, "find_kafka", lambda: None)
    monkeypatch.setattr(compare_run, "compare", lambda *_: found)
    monkeypatch.setattr(compare_latency, "idle_delay_ms", lambda _: 1.0)
    told = asked("--results", str(tmp_path / "there"))
    assert told.exit_code != 0
    assert "Interrupted before the first round was done" in told.output
    assert "ratio (spread)" not in told.output
    assert list(tmp_path.rglob("compare.*")) == []


def test_a_missing_directory_is_rejected_first() -> None:
    for command in (["compare"], ["guard"], []):
        refused = CliRunner().invoke(app, [*command, "--folder", "/nowhere/at/all"])
        assert refused.exit_code == 2
        assert "processor" not in refused.output
        assert "/nowhere/at/all" in refused.output


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_every_case_runs_on_barnabas_and_on_apache_kafka(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(find_kafka(), Unavailable):
        pytest.skip("no Apache Kafka to compare with")
    monkeypatch.setattr(compare_cases, "SETTLED_S", 0.1)
    told = asked("--quick", "--results", str(tmp_path))
    assert told.exit_code == 0, told.output
