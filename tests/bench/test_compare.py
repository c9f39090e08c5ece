"""Two systems side by side: what is measured in which order, and what is told of it."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from barnabas.bench import compare_cases, kafka_release
from barnabas.bench.clients import RecordsMissing
from barnabas.bench.command import app
from barnabas.bench.compare_cases import CASES, Case, Effort, Metric
from barnabas.bench.compare_run import Compared, compare
from barnabas.bench.compare_show import as_html, write
from barnabas.bench.compare_sites import Site, System
from barnabas.bench.kafka_release import Unavailable, find_kafka
from barnabas.bench.processes import broker

EFFORT = Effort(3, 1_000, 0.1, 10)
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


def test_a_case_that_fails_on_one_of_them_is_told_of_and_stops_no_other(tmp_path: Path) -> None:
    def fail(site: Site, effort: Effort) -> tuple[float]:
        raise RecordsMissing("three of four")

    cases = [Case("bad", (RATE,), fail), Case("good", (RATE,), lambda *_: (1.0,), fresh=True)]
    found = compare(system("ours"), system("theirs"), cases, EFFORT, tmp_path, silent)
    assert found.failures == ["bad: three of four"]
    assert [row.metric for row in found.rows] == [RATE]
    assert list(tmp_path.iterdir()) == [], "no data is left behind"


def test_a_comparison_is_written_as_json_page_and_picture(tmp_path: Path) -> None:
    case = Case("a", (RATE, TIME), lambda site, _: (2.0, 1.0))
    found = compare(system("<ours>"), system("theirs"), [case], EFFORT, tmp_path, silent)
    paths = write(found, {"cores": 2}, tmp_path / "results")
    assert [path.name for path in paths] == ["compare.json", "compare.html", "compare.png"]
    content = json.loads(paths[0].read_text())
    assert [row["ratios"] for row in content["rows"]] == [[1.0] * 3] * 2
    page = paths[1].read_text()
    assert "&lt;ours&gt; beside theirs" in page
    assert "<svg" in page
    assert paths[2].read_bytes().startswith(b"\x89PNG")
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


def test_a_case_that_nobody_knows_is_refused() -> None:
    refused = asked("--bootstrap", "a:1", "--bootstrap", "b:1", "--only", "nonsense")
    assert refused.exit_code == 2
    assert "nonsense" in refused.output


def test_without_kafka_one_line_says_so_and_the_raw_limits_remain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unavailable() -> Unavailable:
        return Unavailable("Maven could not fetch it")

    monkeypatch.setattr(kafka_release, "find_kafka", unavailable)
    monkeypatch.setattr("barnabas.bench.compare.AGAINST_LIMITS", ("raw",))
    told = asked("--quick")
    assert told.exit_code == 0, told.output
    assert "No Apache Kafka 3.9.1 here (Maven could not fetch it)" in told.output
    assert "TCP over loopback" in told.output


def test_two_addresses_are_compared_by_what_clients_see(tmp_path: Path) -> None:
    with broker(tmp_path) as server:
        both = ("--bootstrap", server.bootstrap, "--bootstrap", f"localhost:{server.port}")
        told = asked(*both, "--quick", "--only", "unbatched", "--results", str(tmp_path / "r"))
    assert told.exit_code == 0, told.output
    (row,) = json.loads((tmp_path / "r" / "compare.json").read_text())["rows"]
    assert row["ours"][0] > 0
    assert row["theirs"][0] > 0


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
