"""How tests are spread over processes: those of a file, of a mark and of Spark stay together."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.support.spreading import next_group, rotated

ROOT = Path(__file__).parent.parent
PLAIN = "".join(f"def test_{number}(): pass\n" for number in range(20))
MARKED = "import pytest\n" + "".join(
    f"@pytest.mark.xdist_group('group {number % 2}')\ndef test_{number}(): pass\n"
    for number in range(20)
)
ON_SPARK = "import pytest\n@pytest.fixture\ndef spark(): pass\ndef test_one(spark): pass\n" + PLAIN


def processes(ran: Iterable[tuple[str, str]], name: str) -> set[str]:
    """Those in which tests of this name ran."""
    return {process for process, test in ran if re.search(name, test)}


def test_what_shares_something_runs_in_one_process_and_spark_first(tmp_path: Path) -> None:
    files = {"test_a": PLAIN, "test_b": PLAIN, "test_marked": MARKED}
    for name, tests in {**files, "test_on_spark": ON_SPARK, "test_spark_too": ON_SPARK}.items():
        (tmp_path / f"{name}.py").write_text(tests)
    plugins = ("-p", "xdist", "-p", "tests.support.spreading")
    options = ("-n", "3", "--dist", "loadgroup", "--no-loadscope-reorder", "-v", "--rootdir=.")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    ran = re.findall(r"^\[(gw\d)\] .*PASSED (\S+)", ended.stdout, re.MULTILINE)
    assert len(ran) == 20 * 5 + 2
    for together in ("test_a", "test_b", "test_marked.*[02468]$", "test_marked.*[13579]$", "spark"):
        assert len(processes(ran, together)) == 1, (together, ran)
    first_of_each = dict(reversed(ran))
    assert any("spark" in test for test in first_of_each.values())
    assert not list(tmp_path.glob(".pytest_cache/d/groups/*"))


def test_one_process_computes_while_others_wait() -> None:
    queue, waiting = ["cluster", "chaos", "wire", "log"], {"cluster", "chaos", "clients"}
    assert next_group(queue, [], waiting) == "wire"
    assert next_group(queue, ["clients", "clients"], waiting) == "wire"
    assert next_group(queue, ["clients", "server"], waiting) == "cluster"


def test_where_one_kind_is_done_the_other_is_next() -> None:
    assert next_group(["wire", "log"], ["server"], {"cluster"}) == "wire"
    assert next_group(["cluster"], ["cluster"], {"cluster"}) == "cluster"


def test_processes_begin_at_different_places_of_the_suite() -> None:
    sizes = {"base": 10, "cli": 40, "log": 30, "wire": 20}
    assert rotated(sizes, 0.0) == ["base", "cli", "log", "wire"]
    assert rotated(sizes, 0.5) == ["log", "wire", "base", "cli"]
    assert rotated(sizes, 0.9) == ["wire", "base", "cli", "log"]
