"""The second chance that CI gives to a test that failed, and what it says of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RERUN = Path(__file__).parents[1] / ".ci" / "rerun.py"
FLAKY = """
from pathlib import Path

def test_that_fails_once():
    been_here = Path("been-here")
    assert been_here.exists() or been_here.write_text("") is None and False
"""
# Only what reruns use: to import all plugins takes longer than all that the tests do.
PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist"}
BROKEN = "def test_that_always_fails():\n    assert False\n"


def run_and_rerun(folder: Path) -> subprocess.CompletedProcess[str]:
    first = run(folder, "-m", "pytest", "-q")
    assert first.returncode == 1
    return run(folder, str(RERUN))


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **PLUGINS},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def test_a_test_that_passes_alone_is_named_as_flaky_and_the_run_is_green(suite: Path) -> None:
    (suite / "test_it.py").write_text(FLAKY)
    rerun = run_and_rerun(suite)
    assert rerun.returncode == 0
    assert rerun.stdout.splitlines()[-1] == "flaky: test_it.py::test_that_fails_once"


def test_a_test_that_fails_twice_keeps_the_run_red(suite: Path) -> None:
    (suite / "test_it.py").write_text(FLAKY + BROKEN)
    rerun = run_and_rerun(suite)
    assert rerun.returncode == 1
    assert rerun.stdout.splitlines()[-2:] == [
        "flaky: test_it.py::test_that_fails_once",
        "failed twice: test_it.py::test_that_always_fails",
    ]


def test_many_failures_are_not_run_again(suite: Path) -> None:
    (suite / "test_it.py").write_text(
        "".join(BROKEN.replace("always", f"always_{n}") for n in range(6))
    )
    rerun = run_and_rerun(suite)
    assert rerun.returncode == 1
    assert rerun.stdout == "not rerun: 6 failures\n"
