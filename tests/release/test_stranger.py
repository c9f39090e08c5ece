"""A stranger's three paths through docs/quickstart.md, from nothing, each with its limit of time.

`make dist-test` walks them with what `make dist` built. The limits include pip, unless the machine
is busy with other work; what it takes is printed apart, since it is the network's.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from barnabas.base.ports import free_port
from tests.support.documents import TITLED, blocks, document

pytestmark = [
    pytest.mark.long,
    pytest.mark.alone,
    pytest.mark.timeout(1800),
    pytest.mark.skipif("BARNABAS_DIST" not in os.environ, reason="make dist-test runs it"),
]

PAGE: Final = document("docs/quickstart.md")
BUSY: Final = os.getloadavg()[0] > 2 * (os.cpu_count() or 1)
FIRST_MESSAGE_S: Final = 60
FAILING_TEST_S: Final = 300
SPARK_JOB_S: Final = 300
# A person reads the line; a script waits for it.
READY: Final = "> ready & until grep -q ^ready ready; do sleep 0.1; done"


class Stranger:
    """A shell in an empty environment and an empty directory; port 9092 is any free one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._port = free_port()
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)

    def install(self, line: str) -> None:
        assert line.startswith("pip install ")
        self._began = time.monotonic()
        ran = self.run(line)
        assert ran.returncode == 0, ran.stderr
        self._pip_s = time.monotonic() - self._began
        print(f"\n{line}: {self._pip_s:.0f} s")

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        here = re.sub(
            r"^(.*barnabas server.*) &$",
            rf"\1 --listen 127.0.0.1:{self._port} {READY}",
            script,
            flags=re.M,
        )
        environment = {
            "BARNABAS_BOOTSTRAP": f"127.0.0.1:{self._port}",
            "PATH": f"{self.folder}/venv/bin{os.pathsep}{os.environ['PATH']}",
            "HOME": os.environ["HOME"],
            **{name: value for name, value in os.environ.items() if name.startswith("PIP_")},
            "PIP_FIND_LINKS": os.environ["BARNABAS_DIST"],
            "PIP_NO_CACHE_DIR": "1",
        }
        return subprocess.run(
            ["bash", "-c", here.replace("127.0.0.1:9092", f"127.0.0.1:{self._port}")],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
        )

    def took(self, what: str) -> float:
        seconds = time.monotonic() - self._began
        print(f"{what}: {seconds:.1f} s, with the installation")
        return seconds - self._pip_s if BUSY else seconds


@pytest.fixture
def stranger(tmp_path: Path) -> Stranger:
    return Stranger(tmp_path)


def test_a_first_message_takes_three_lines_and_a_minute(stranger: Stranger) -> None:
    install, serve, send = blocks(PAGE, "sh")[0].splitlines()
    stranger.install(install)
    ran = stranger.run(f"{serve}\n{send}\nkill %1; wait")
    took = stranger.took("a first message")
    assert "hello" in ran.stdout.split(), ran.stdout + ran.stderr
    assert took <= FIRST_MESSAGE_S


def test_a_failing_test_of_a_consumer_takes_five_minutes(stranger: Stranger) -> None:
    (install,) = re.findall("`(pip install [^`]*pytest)`", PAGE)
    stranger.install(install)
    for name, text in TITLED.findall(document("docs/testing.md"))[:2]:
        (stranger.folder / name).write_text(text)
    ran = stranger.run("pytest")
    took = stranger.took("a failing test")
    assert "assert 0 == 5050" in ran.stdout, ran.stdout + ran.stderr
    assert took <= FAILING_TEST_S


@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
def test_a_spark_job_takes_five_minutes(stranger: Stranger) -> None:
    (program,) = (text for name, text in TITLED.findall(PAGE) if name == "revenue.py")
    port = stranger.run("echo 127.0.0.1:9092").stdout.strip()
    (stranger.folder / "revenue.py").write_text(program.replace("127.0.0.1:9092", port))
    (first, spark) = blocks(PAGE, "sh")
    serve = first.splitlines()[1]
    install, send = spark.splitlines()
    stranger.install(install)
    ran = stranger.run(f"{serve}\n{send} && python revenue.py; kill %1; wait")
    took = stranger.took("a Spark job")
    assert re.search(r"\| *1\| *250\|", ran.stdout), ran.stdout + ran.stderr
    assert took <= SPARK_JOB_S
