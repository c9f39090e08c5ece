"""The demo runs to its end and leaves nothing behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.spark.commands import barnabas

pytestmark = pytest.mark.timeout(900)


def start_demo(
    folder: Path, *options: str, environment: Mapping[str, str] | None = None
) -> "subprocess.Popen[str]":
    """The files that the demo writes by default go to `folder`."""
    return subprocess.Popen(
        [sys.executable, "-m", "barnabas.cli.main", "demo", *options],
        env={**os.environ, "TMPDIR": str(folder), **(environment or {})},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: "subprocess.Popen[str]", folder: Path) -> tuple[str, str]:
    """The output of the demo, after checking that it left no process running.

    Reading to the end of the pipe would wait for leftover processes that hold it open, so the check
    comes first; the pipe has room for all output.
    """
    process.wait()
    assert running_in(folder) == []
    return process.communicate()


def running_in(folder: Path) -> list[str]:
    """The command lines of running processes that name the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if str(folder) in command:
            found.append(command)
    return found


def test_every_acknowledged_order_is_counted_once_although_a_broker_is_killed(
    tmp_path: Path,
) -> None:
    with start_demo(tmp_path, "--seconds", "10", "--rate", "500") as process:
        out, err = end(process, tmp_path)
    assert (process.returncode, err) == (0, ""), out
    assert "SIGKILL for broker" in out
    assert out.count("✓") == 9
    assert "✗" not in out
    assert [path.name for path in tmp_path.iterdir()] == ["barnabas-demo.html"]
    report = (tmp_path / "barnabas-demo.html").read_text()
    assert "Every acknowledged order was counted exactly once: 5,000 orders" in report
    assert report.count("<svg") == 4
    assert "the table and the log agree: 5,001 rows" in out
    assert "The topic as a table" in report
    assert "from an order to its result: p50" in out
    assert "barnabas cluster --data ./shop/cluster --console" in out


@pytest.mark.parametrize(
    ("number", "code", "after"),
    [
        (signal.SIGINT, 130, "1. "),
        pytest.param(signal.SIGTERM, 143, "SIGKILL for broker", marks=pytest.mark.long),
    ],
)
def test_an_interrupted_demo_stops_every_process_it_started(
    number: signal.Signals, code: int, after: str, tmp_path: Path
) -> None:
    with start_demo(tmp_path) as process:
        assert process.stdout is not None
        while after not in (line := process.stdout.readline()):
            assert line, "the demo ended before it could be interrupted"
        process.send_signal(number)
        _, err = process.communicate()
    assert (process.returncode, err) == (code, "")
    assert list(tmp_path.iterdir()) == []
    assert running_in(tmp_path) == []


def test_without_java_the_error_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with start_demo(tmp_path, environment={"PATH": str(tmp_path)}) as process:
        _, err = process.communicate()
    assert process.returncode == 1
    assert err.count("\n") == 1
    assert "needs Java 17" in err


def test_without_pyspark_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.demo.demo_command.find_spec", lambda name: None)
    ended = barnabas("demo")
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert "pip install 'barnabas[spark]'" in ended.err


def test_keep_refuses_a_directory_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder, told in (
        (tmp_path, "directory is not empty"),
        (tmp_path / "file", "file"),
    ):
        ended = barnabas("demo", "--keep", folder)
        assert (ended.code, ended.err.count("\n")) == (2, 1)
        assert told in ended.err
