"""`make long`: its two parts, and the last lines that count the tests of both."""

import os
import re
import subprocess
import sys
from pathlib import Path

LONG = Path(__file__).parents[1] / ".ci" / "long.py"
INI = "[pytest]\nmarkers =\n    long\n    alone\n"
# Only what the run uses: to import all plugins takes longer than all that the tests do.
PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist"}
SUITE = """
import os
import pytest

@pytest.mark.long
def test_spread():
    assert "PYTEST_XDIST_WORKER" in os.environ

@pytest.mark.long
@pytest.mark.alone
def test_alone():
    assert "PYTEST_XDIST_WORKER" not in os.environ

@pytest.mark.long
def test_skipped():
    pytest.skip("no Java here")

def test_short():
    assert False
"""
BROKEN = "\n@pytest.mark.long\ndef test_broken():\n    assert False\n"


def run(folder: Path, suite: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text(INI)
    (folder / "test_it.py").write_text(suite)
    plain = {key: each for key, each in os.environ.items() if not key.startswith("PYTEST_XDIST")}
    return subprocess.run(
        [sys.executable, str(LONG), "-n", "1"],
        cwd=folder,
        env={**plain, **PLUGINS},
        capture_output=True,
        text=True,
    )


def test_both_parts_run_and_the_last_lines_say_what_was_skipped(tmp_path: Path) -> None:
    ended = run(tmp_path, SUITE)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    *_, skipped, counted = ended.stdout.splitlines()
    assert skipped == "skipped 1: no Java here"
    assert re.fullmatch(r"long tests: 2 passed, 1 skipped in \d+ minutes", counted)


def test_a_test_that_fails_twice_does_not_keep_the_others_from_running(tmp_path: Path) -> None:
    ended = run(tmp_path, SUITE + BROKEN)
    assert ended.returncode == 1
    assert "failed twice: test_it.py::test_broken" in ended.stdout
    assert "long tests: 1 failure, 2 passed, 1 skipped" in ended.stdout.splitlines()[-1]


def test_what_runs_alone_is_long() -> None:
    """Else `make test` would run it among the others."""
    root = LONG.parents[1] / "tests"
    wrong = [
        str(path)
        for path in sorted(root.rglob("test_*.py"))
        if path != Path(__file__)
        and "mark.alone" in (text := path.read_text())
        and "mark.long" not in text
    ]
    assert not wrong
