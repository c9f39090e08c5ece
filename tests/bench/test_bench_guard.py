"""`bench guard`: fallen ratios, and their second measurement."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from barnabas.bench import bench_guard
from barnabas.bench.bench_command import NAMES, app
from barnabas.bench.bench_guard import better, fallen, ratios
from barnabas.bench.bench_report import ReportRow, Section


def test_a_ratio_has_fallen_if_it_is_lower_by_more_than_a_third() -> None:
    recorded = {"a": 0.9, "b": 0.9, "c": 0.9}
    assert fallen(recorded, {"a": 0.61, "b": 0.59, "d": 0.1}) == ["b", "c"]


def test_of_two_runs_the_better_counts() -> None:
    assert better({"a": 0.3, "b": 0.5}, {"a": 0.4, "c": 0.1}) == {"a": 0.4, "b": 0.5, "c": 0.1}


def test_rows_are_identified_by_name_without_varying_parts() -> None:
    produce = Section("produce", "", "", "", [ReportRow("1 KiB (generator-bound)", "", ratio=0.5)])
    log = Section(
        "log",
        "",
        "",
        "",
        [ReportRow("append", "", ratio=0.7), ReportRow("recovery", "", ratio=0.1)],
    )
    sessions = Section("sessions", "", "", "", [ReportRow("6 partitions", "", ratio=1.2)])
    assert ratios([produce, sessions, log]) == {
        "produce 1 KiB": 0.5,
        "sessions 6 partitions": 1.2,
        "log append": 0.7,
    }


def test_consuming_six_partitions_in_a_fetch_session_is_guarded() -> None:
    assert "sessions" in bench_guard.SECTIONS
    assert set(bench_guard.SECTIONS) <= set(NAMES)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, float]]:
    """The results of the next runs."""
    measured: list[dict[str, float]] = []
    monkeypatch.setattr(bench_guard, "_measured", lambda *_: measured.pop(0))
    return measured


def asked(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["guard", *map(str, arguments)])


def test_a_fallen_ratio_is_measured_again_before_it_fails(
    tmp_path: Path, runs: list[dict[str, float]]
) -> None:
    recorded = tmp_path / "recorded.json"
    runs.append({"produce 1 KiB": 0.6, "fetch 16 KiB": 0.5})
    assert asked("--record", "--recorded", recorded).exit_code == 0
    assert list(json.loads(recorded.read_text()).values()) == [
        {"fetch 16 KiB": 0.5, "produce 1 KiB": 0.6}
    ]
    runs += [{"produce 1 KiB": 0.2, "fetch 16 KiB": 0.5}, {"produce 1 KiB": 0.55}]
    assert asked("--recorded", recorded).exit_code == 0
    runs += [{"produce 1 KiB": 0.2, "fetch 16 KiB": 0.5}, {"produce 1 KiB": 0.3}]
    failed = asked("--recorded", recorded)
    assert failed.exit_code == 1
    (row,) = (
        line for line in failed.output.splitlines() if "produce 1 KiB" in line and "│" in line
    )
    assert row.strip("│").replace("│", " ").split() == [
        "produce",
        "1",
        "KiB",
        "0.30",
        "0.60",
        "0.50",
    ]
    assert "1 of 2 ratios are as recorded" in failed.output


def test_without_recorded_ratios_the_error_says_how_to_record_them(
    tmp_path: Path, runs: list[dict[str, float]]
) -> None:
    runs.append({"produce 1 KiB": 0.6})
    failed = asked("--recorded", tmp_path / "none.json")
    assert failed.exit_code == 1
    assert "--record" in failed.output


def test_a_row_without_a_recorded_ratio_does_not_fail(
    tmp_path: Path, runs: list[dict[str, float]]
) -> None:
    recorded = tmp_path / "recorded.json"
    runs.append({"produce 1 KiB": 0.6})
    assert asked("--record", "--recorded", recorded).exit_code == 0
    runs.append({"produce 1 KiB": 0.6, "sessions 6 partitions": 1.2})
    done = asked("--recorded", recorded)
    assert done.exit_code == 0
    assert "not recorded" in done.output
    assert "1 of 1 ratios are as recorded" in done.output
