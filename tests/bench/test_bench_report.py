"""The head and the rows of a report."""

import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
from rich.console import Console

from barnabas.bench import bench_report, sections
from barnabas.bench.bench_plan import SMOKE
from barnabas.bench.bench_report import ReportRow, Section, revision

RELEASED = version("barnabas")


def in_clone(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=n", "-c", "user.email=e", *arguments]
    told = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return told.stdout.strip()


def test_the_commit_is_shown_in_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "src"
    source.mkdir()
    file = source / "report.py"
    monkeypatch.setattr(bench_report, "__file__", str(file))
    assert revision() == RELEASED, "there is no clone"
    in_clone(tmp_path, "init", "-q")
    file.write_text("first")
    assert revision() == RELEASED, "the clone is somebody else's"
    in_clone(tmp_path, "add", ".")
    in_clone(tmp_path, "commit", "-q", "-m", "first")
    commit = in_clone(tmp_path, "rev-parse", "--short=10", "HEAD")
    (tmp_path / "results").write_text("of a run before")
    assert revision() == f"{RELEASED} ({commit})"
    file.write_text("second")
    assert revision() == f"{RELEASED} ({commit}, changed)"


def test_without_git_the_version_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert revision() == RELEASED


@pytest.mark.parametrize("goals", [True, False])
def test_sections_are_judged_only_with_goals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goals: bool
) -> None:
    missed = Section("raw", "raw", "ours", "", [ReportRow("row", "1", goal="≥ 2", met=False)])
    monkeypatch.setitem(sections.SECTIONS, "raw", lambda _: missed)
    console = Console(record=True, quiet=False, width=80)
    outcome = sections.run(["raw"], SMOKE, tmp_path, console, goals=goals)
    assert outcome.sections == [missed]
    assert ("✗ ≥ 2" in console.export_text()) is goals
