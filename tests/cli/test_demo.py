"""The demo tells its story to the end, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.cli.demo_broker import BrokerProcess
from barnabas.cli.failures import CommandFailed


def start_demo(folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "barnabas.cli.main", "demo"],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def brokers_in(folder: Path) -> list[str]:
    """The command lines of running processes that name the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().decode().replace("\0", " ")
        except OSError:
            continue
        if str(folder) in command:
            found.append(command)
    return found


def test_every_claim_of_the_demo_holds(tmp_path: Path) -> None:
    with start_demo(tmp_path) as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "9. What to try next" in out
    assert out.count("✓") >= 10
    assert list(tmp_path.iterdir()) == []
    assert brokers_in(tmp_path) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_demo_stops_its_broker(number: int, code: int, tmp_path: Path) -> None:
    with start_demo(tmp_path) as process:
        assert process.stdout is not None
        while "ready broker" not in process.stdout.readline():
            pass
        assert brokers_in(tmp_path) != []
        process.send_signal(number)
        _, err = process.communicate()
    assert (process.returncode, err) == (code, "")
    assert list(tmp_path.iterdir()) == []
    assert brokers_in(tmp_path) == []


def test_a_broker_that_cannot_start_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where a folder should be")
    broker = BrokerProcess(tmp_path / "data")
    with pytest.raises(CommandFailed, match="the broker did not start: "):
        broker.start()
    broker.stop()
