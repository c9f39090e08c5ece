"""Two systems side by side: what is measured in which order, and what is told of it."""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from barnabas.bench import compare as compare_command
from barnabas.bench import compare_cases, compare_latency, compare_run, kafka_release
from barnabas.bench.clients import RecordsMissing
from barnabas.bench.command import app
from barnabas.bench.compare_cases import CASES, Case, Effort, Metric, Turns
from barnabas.bench.compare_cold import StillCached, cached_share, forget
from barnabas.bench.compare_run import Compared, Comparison, compare
from barnabas.bench.compare_show import as_html, cells, draw, write
from barnabas.bench.compare_sites import Site, System
from barnabas.bench.kafka_release import Unavailable, find_kafka
from barnabas.bench.processes import broker

EFFORT = Effort(3, 1_000, 0.1, 10, 0.0)
RATE = Metric("rate", "1/s", goal=2.0)
TIME = Metric("time", "ms", less=True, goal=0.5)


def system(name: str) -> System:
    return System(name, lambda folder, brokers: nullcontext(Site(name)))


def silent(_: str) -> None:
    """Nobody watches."""


def test_both_are_measured_in_turn_and_the_first_changes_from_round_to_round(
    tmp_path: Path,
) -> None:
    order: list[str] = []

    def measure(site: Site, effort: Effort) -> tuple[float]:
        order.append(site.bootstrap)
        return (1.0,)

    case = Case("a", (RATE,), measure)
    compare(system("ours"), system("theirs"), [case], EFFORT, tmp_path, silent)
    assert order == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]


def test_the_ratio_is_the_median_of_the_rounds_ratios(tmp_path: Path) -> None:
    values = {"ours": iter((6.0, 9.0, 20.0)), "theirs": iter((2.0, 1.0, 5.0))}
    case = Case("a", (RATE,), lambda site, _: (next(values[site.bootstrap]),))
    found = compare(system("ours"), system("theirs"), [case], EFFORT, tmp_path, silent)
    (row,) = found.rows
    assert row.ratios == [3.0, 9.0, 4.0]
    assert row.ratio == 4.0


def test_a_goal_is_a_least_ratio_or_where_less_is_better_a_greatest() -> None:
    assert Compared(RATE, [4.0], [2.0]).met is True
    assert Compared(RATE, [3.0], [2.0]).met is False
    assert Compared(TIME, [1.0], [2.0]).met is True
    assert Compared(TIME, [1.5], [2.0]).met is False
    assert Compared(Metric("no goal", "s"), [1.0], [1.0]).met is None


def test_a_goal_is_shown_with_the_rounds_that_reach_it() -> None:
    reached = Compared(RATE, [4.0, 1.0, 6.0], [2.0, 1.0, 2.0])
    assert cells(reached)[-2:] == ["2.00 (1.00-3.00)", "✓ ≥ 2, 2 of 3 rounds"]
    missed = Compared(TIME, [1.0, 1.0, 0.1], [1.0, 1.0, 1.0])
    assert cells(missed)[-1] == "✗ ≤ 0.5, 1 of 3 rounds"


def test_a_turn_is_followed_by_another_as_long_as_that_would_end_in_time() -> None:
    effort = replace(EFFORT, load_s=4.0)
    assert effort.has_time([])
    assert effort.has_time([1.5])
    assert not effort.has_time([1.5, 1.5])
    assert not effort.has_time([2.5])


def test_what_is_measured_in_turns_alternates_until_both_have_done(tmp_path: Path) -> None:
    order: list[str] = []

    def measure(site: Site, effort: Effort) -> Turns:
        try:
            for _ in range(2 if site.bootstrap == "ours" else 4):
                order.append(site.bootstrap[0])
                yield
            return (1.0,)
        finally:
            order.append(f"{site.bootstrap} ends")

    effort = replace(EFFORT, repeat=1)
    found = compare(
        system("ours"), system("theirs"), [Case("a", (RATE,), measure)], effort, tmp_path, silent
    )
    assert order == ["o", "t", "o", "t", "ours ends", "t", "t", "theirs ends"]
    assert found.rows[0].ratios == [1.0]


def test_a_failure_in_one_turn_ends_those_of_the_other_system(tmp_path: Path) -> None:
    ended: list[str] = []

    def measure(site: Site, effort: Effort) -> Turns:
        try:
            yield
            if site.bootstrap == "theirs":
                raise RecordsMissing("gone")
            yield
            return (1.0,)
        finally:
            ended.append(site.bootstrap)

    effort = replace(EFFORT, repeat=1)
    cases = [Case("a", (RATE,), measure)]
    found = compare(system("ours"), system("theirs"), cases, effort, tmp_path, silent)
    assert found.failures == ["a, theirs: gone"] * 2
    assert sorted(ended) == ["ours", "ours", "theirs", "theirs"]


def test_what_fails_while_it_is_ended_is_told_of_and_its_cluster_replaced(tmp_path: Path) -> None:
    started: list[str] = []

    def start(folder: Path, brokers: int) -> AbstractContextManager[Site]:
        started.append("ours")
        return nullcontext(Site("ours"))

    def measure(site: Site, effort: Effort) -> Turns:
        try:
            yield
            if site.bootstrap == "theirs":
                raise RecordsMissing("gone")
            yield
            return (1.0,)
        finally:
            if site.bootstrap == "ours":
                raise RecordsMissing("not deleted")

    effort = replace(EFFORT, repeat=1)
    cases = [Case("bad", (RATE,), measure), Case("good", (TIME,), lambda *_: (1.0,))]
    found = compare(System("ours", start), system("theirs"), cases, effort, tmp_path, silent)
    assert found.failures[:2] == ["bad, theirs: gone", "bad, ours: not deleted"]
    assert [len(row.ratios) for row in found.rows] == [0, 1]
    assert started == ["ours"] * 2, "after its own failure the next case got another"


def test_a_cluster_that_cannot_be_ended_is_told_of_and_loses_nothing(tmp_path: Path) -> None:
    @contextmanager
    def start(folder: Path, brokers: int) -> Iterator[Site]:
        yield Site("ours")
        raise OSError("still there")

    effort = replace(EFFORT, repeat=1)
    cases = [Case("a", (RATE,), lambda *_: (1.0,))]
    found = compare(System("ours", start), system("theirs"), cases, effort, tmp_path, silent)
    assert found.failures == ["at the end, ours: still there"]
    assert [len(row.ratios) for row in found.rows] == [1]


def test_a_shared_cluster_is_warmed_up_once_before_it_is_measured(tmp_path: Path) -> None:
    order: list[str] = []

    def measure(site: Site, effort: Effort) -> tuple[float]:
        order.append(site.bootstrap)
        return (1.0,)

    cases = [Case("a", (RATE,), measure), Case("b", (TIME,), measure)]
    effort = replace(EFFORT, repeat=1)
    both = system("ours"), system("theirs")
    compare(*both, cases, effort, tmp_path, silent, lambda s: order.append(f"warm {s.bootstrap}"))
    assert order == ["warm ours", "ours", "warm theirs", "theirs", "ours", "theirs"]


def test_a_case_that_fails_is_told_of_tried_once_more_and_stops_no_other(tmp_path: Path) -> None:
    def fail(site: Site, effort: Effort) -> tuple[float]:
        raise RecordsMissing("three of four")

    cases = [Case("bad", (TIME,), fail), Case("good", (RATE,), lambda *_: (1.0,), fresh=True)]
    found = compare(system("ours"), system("theirs"), cases, EFFORT, tmp_path, silent)
    assert found.failures == ["bad, ours: three of four", "bad, theirs: three of four"]
    assert [len(row.ratios) for row in found.rows] == [0, 3]
    assert cells(found.rows[0]) == ["time", "", "", "not measured", "≤ 0.5"]
    assert "not measured" in as_html(found, {}, b"")
    assert draw(found)["png"], "a row without a ratio has no bar"
    assert list(tmp_path.iterdir()) == [], "no data is left behind"


def test_a_round_that_failed_once_is_made_up_for(tmp_path: Path) -> None:
    fails = iter([True])

    def measure(site: Site, effort: Effort) -> tuple[float]:
        if next(fails, False):
            raise RecordsMissing("gone")
        return (1.0,)

    cases = [Case("a", (RATE,), measure)]
    found = compare(system("ours"), system("theirs"), cases, EFFORT, tmp_path, silent)
    assert len(found.rows[0].ratios) == EFFORT.repeat
    assert len(found.failures) == 1


def test_after_a_failure_the_next_case_gets_another_cluster(tmp_path: Path) -> None:
    started: list[str] = []

    def start(folder: Path, brokers: int) -> AbstractContextManager[Site]:
        started.append("ours")
        return nullcontext(Site("ours"))

    def fail(site: Site, effort: Effort) -> tuple[float]:
        raise RecordsMissing("gone")

    cases = [Case("bad", (RATE,), fail), Case("good", (TIME,), lambda *_: (1.0,))]
    effort = replace(EFFORT, repeat=1)
    compare(System("ours", start), system("theirs"), cases, effort, tmp_path, silent)
    assert started == ["ours", "ours"]


def test_every_case_has_a_round_and_none_begins_that_would_end_too_late(tmp_path: Path) -> None:
    cases = [Case(name, (RATE,), lambda *_: (1.0,), fresh=name == "b") for name in "abc"]
    effort = replace(EFFORT, minutes=1e-9)
    found = compare(system("ours"), system("theirs"), cases, effort, tmp_path, silent)
    assert [len(row.ours) for row in found.rows] == [1, 1, 1]


def test_rounds_go_over_all_cases_and_one_that_takes_long_has_fewer(tmp_path: Path) -> None:
    order: list[str] = []

    def measure(name: str, site: Site, effort: Effort) -> tuple[float]:
        order.append(name)
        return (1.0,)

    cases = [
        Case("a", (RATE,), partial(measure, "a")),
        Case("b", (TIME,), partial(measure, "b"), most=1),
    ]
    compare(system("ours"), system("theirs"), cases, EFFORT, tmp_path, silent)
    assert "".join(order) == "aabbaaaa"


@pytest.mark.parametrize("how", [KeyboardInterrupt, SystemError])
def test_a_signal_ends_the_run_with_what_there_is_and_nothing_left(
    tmp_path: Path, how: type[BaseException]
) -> None:
    stopped: list[str] = []

    @contextmanager
    def ending(folder: Path, brokers: int) -> Iterator[Site]:
        try:
            yield Site("ours")
        finally:
            stopped.append("ours")

    def interrupted(site: Site, effort: Effort) -> tuple[float]:
        raise how

    cases = [Case("a", (RATE,), lambda *_: (1.0,)), Case("b", (TIME,), interrupted)]
    found = compare(System("ours", ending), system("theirs"), cases, EFFORT, tmp_path, silent)
    assert found.interrupted
    assert [(row.metric, row.ours) for row in found.rows] == [(RATE, [1.0])]
    assert stopped == ["ours"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="others do not say what is cached")
def test_a_file_is_read_from_the_disk_once_the_page_cache_forgot_it(tmp_path: Path) -> None:
    path = tmp_path / "00.log"
    path.write_bytes(b"v" * 8_000_000)
    with path.open("rb") as file:
        if cached_share(file.fileno()) == 0.0:
            pytest.skip("this file system has no page cache")
        try:
            forget(path)
        except StillCached:
            pytest.skip("this file system is the page cache")
        assert cached_share(file.fileno()) < 0.05
        file.read()
        assert cached_share(file.fileno()) > 0.5


def test_a_comparison_is_written_as_json_table_page_and_picture(tmp_path: Path) -> None:
    case = Case("a", (RATE, TIME), lambda site, _: (2.0, 1.0))
    found = compare(system("<ours>"), system("theirs"), [case], EFFORT, tmp_path, silent)
    paths = write(found, {"cores": 2}, tmp_path / "results")
    data, table, page_file, picture = paths
    assert [path.suffix for path in paths] == [".json", ".md", ".html", ".png"]
    content = json.loads(data.read_text())
    assert [row["ratios"] for row in content["rows"]] == [[1.0] * 3] * 2
    assert (
        "| rate | 2 1/s | 2 1/s | 1.00 (1.00-1.00) | ✗ ≥ 2, 0 of 3 rounds |\n" in table.read_text()
    )
    page = page_file.read_text()
    assert "&lt;ours&gt; beside theirs" in page
    assert "<svg" in page
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "<svg" not in as_html(found, {}, b""), "a page without a picture is a page"


def test_every_measure_has_a_row_of_its_own() -> None:
    names = [metric.name for case in CASES for metric in case.metrics]
    assert len(names) == len(set(names))
    assert len({case.key for case in CASES}) == len(CASES)


def asked(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["compare", *arguments])


def test_bootstrap_addresses_come_in_pairs() -> None:
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
def test_a_case_that_is_not_there_is_refused_before_anything_else_is_said(
    arguments: list[str],
) -> None:
    refused = asked(*arguments)
    assert refused.exit_code == 2
    assert arguments[-1].rpartition(",")[2] in refused.output
    assert "processor" not in refused.output


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
    line = "No Apache Kafka 3.9.1 here (Maven could not fetch it): latency against raw limits only."
    assert line in told.output
    assert "Latency of a single request" in told.output
    assert "TCP over loopback" not in told.output
    assert "nothing to compare but raw, produce" in str(asked("--only", "cold").exception)


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
    assert "these figures mean nothing" in told.output
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
    assert "p99.9 of latencies will tell of the machine" in told.output
    assert [str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("*.json")] == written
    assert ("Nothing is written" in told.output) is not bool(written)
    assert (told.exit_code != 0) is interrupted


@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_case_runs_on_barnabas_and_on_apache_kafka(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(find_kafka(), Unavailable):
        pytest.skip("no Apache Kafka to compare with")
    monkeypatch.setattr(compare_cases, "SETTLED_S", 0.1)
    told = asked("--quick", "--results", str(tmp_path))
    assert told.exit_code == 0, told.output
