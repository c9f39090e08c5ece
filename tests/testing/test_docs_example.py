"""The examples of docs/testing.md work: a test finds the bug, the fix and the other test pass."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
BLOCK = re.compile(r'^```python title="(\S+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
PLUGIN_IS_LIGHT = """
import sys
def test_nothing_heavy_is_imported_where_no_broker_is_wanted():
    assert "barnabas.testing.plugin" in sys.modules
    assert "barnabas.server.compose" not in sys.modules
    assert "uvloop" not in sys.modules
"""
MISTAKE = """
import pytest
@pytest.mark.kafka(broker=2)
def test_of_a_marker_with_a_mistake(kafka):
    pass
"""


def run(folder: Path) -> tuple[dict[str, str], str]:
    """Run pytest as a user would; return the outcome of each test, and the output."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-W", "error", "-p", "no:cacheprovider", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=110,
    )
    found = re.findall(r"^(\w+)/test_\w+\.py::\w+ (\w+)", ran.stdout, re.MULTILINE)
    return dict(found), ran.stdout + ran.stderr


def write(folder: Path, **modules: str) -> None:
    folder.mkdir()
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)


def test_the_bug_is_found_by_the_test_and_only_by_a_failover(tmp_path: Path) -> None:
    (_, buggy), (_, test), (_, fixed), (_, payments) = BLOCK.findall(PAGE)
    assert len(test[test.index("@pytest") :].splitlines()) <= 10
    kill = next(line for line in test.splitlines(True) if "kill_unclean" in line)
    healthy = test.replace(kill, "")
    patient = buggy.replace("poll(1.0)", "poll(5.0)")  # a busy machine takes more than a second
    assert patient != buggy
    for folder, job, checked in (
        ("a_healthy", patient, healthy),
        ("b_buggy", buggy, test),
        ("c_fixed", fixed, test),
    ):
        name = f"takings_{folder}"  # otherwise all would be one module
        write(
            tmp_path / folder,
            **{name: job, f"test_{folder}": checked.replace("from takings", f"from {name}")},
        )
    write(tmp_path / "0_light", test_light=PLUGIN_IS_LIGHT)
    write(tmp_path / "d_mistake", test_mistake=MISTAKE)
    write(tmp_path / "e_payments", test_payments=payments)
    outcomes, printed = run(tmp_path)
    assert outcomes == {
        "0_light": "PASSED",
        "a_healthy": "PASSED",
        "b_buggy": "FAILED",
        "c_fixed": "PASSED",
        "d_mistake": "ERROR",
        "e_payments": "PASSED",
    }, printed
    assert "assert 0 == 5050" in printed
    assert "accepts brokers=, config=, session_timeout_ms= and not broker" in printed
