"""`barnabas cluster --console`: the console starts with the brokers and ends with them."""

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("starlette")


@pytest.mark.long
@pytest.mark.parametrize("protection", [[], ["--secure"]], ids=["plain", "secure"])
def test_the_console_starts_and_ends_with_the_cluster(
    tmp_path: Path, protection: list[str]
) -> None:
    command = [sys.executable, "-m", "barnabas.cli.main", "cluster", "-n", "1", "-p", "0"]
    options = ["--data", str(tmp_path / "c"), "--console", "--console-listen", "127.0.0.1:0"]
    process = subprocess.Popen([*command, *options, *protection], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as output:
        lines = [output.readline(), output.readline()]
        url = next(word for line in lines for word in line.split() if word.startswith("http"))
        with urllib.request.urlopen(f"{url}topics", timeout=30) as answer:
            assert "No topics yet" in answer.read().decode()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url, timeout=5)
