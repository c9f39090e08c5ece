"""Directories of Spark sessions: what ended, failed and killed sessions leave."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from barnabas.base.clock import SystemClock
from barnabas.spark.session_directory import LOG, keep_log, remove_abandoned, session_directory

HOUR_MS = 3_600_000
KILLED = """
import sys
from barnabas.spark.session_directory import session_directory
with session_directory() as directory:
    print(directory, flush=True)
    sys.stdin.read()
"""


class Later(SystemClock):
    """The clock of a week and an hour from now."""

    def now_ms(self) -> int:
        return super().now_ms() + (7 * 24 + 1) * HOUR_MS


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def killed_session() -> Path:
    """The directory of a process that is killed amid its session."""
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        directory = Path(process.stdout.readline().strip())
        remove_abandoned(directory.parent)
        assert directory.exists(), "its process lives"
        os.kill(process.pid, signal.SIGKILL)
    return directory


def test_the_next_session_removes_the_directory_of_one_that_was_killed(temporary: Path) -> None:
    directory = killed_session()
    assert directory.exists()
    with session_directory() as mine, session_directory() as other:
        assert sorted(temporary.iterdir()) == sorted([mine, other])
    assert list(temporary.iterdir()) == []


def test_the_log_of_a_failed_session_stays_for_a_week(temporary: Path) -> None:
    with session_directory() as directory:
        assert keep_log(directory) is None
        (directory / LOG).write_text("words of Spark")
        kept = keep_log(directory)
    assert kept is not None
    remove_abandoned(temporary)
    assert kept.read_text() == "words of Spark"
    remove_abandoned(temporary, Later())
    assert not kept.exists()


def test_a_link_with_such_a_name_is_not_followed(temporary: Path) -> None:
    (temporary / "mine").mkdir()
    (temporary / "mine" / "file").touch()
    (temporary / "barnabas-spark-link").symlink_to(temporary / "mine")
    remove_abandoned(temporary)
    assert (temporary / "mine" / "file").exists()
