"""Releases as a stranger installs them: without a compiler, in an empty environment.

`make dist-test` runs these with what `make dist` built; `make long` builds its own.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.release.test_hosts import check_host, lines_for_hosts, run_unit
from tests.support.documents import ROOT, block, document
from tests.support.host import Host, needs

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(1800)]

README = document("README.md")
KINDS = {"compiled": "*-cp*.whl", "pure": "*-none-any.whl", "sdist": "*.tar.gz"}
TEST_OF_A_USER = """
from confluent_kafka import Producer


def test_a_cluster_starts(kafka_cluster):
    kafka_cluster.create_topic("orders")
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    producer.produce("orders", "one")
    assert producer.flush(10) == 0
"""
LOADED = "import barnabas.base.buffers as b; print(b.__file__.endswith('.py'))"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if given := os.environ.get("BARNABAS_DIST"):
        return Path(given)
    to = tmp_path_factory.mktemp("dist")
    command = ["make", "dist", f"DIST={to}", f"PYTHON={sys.base_prefix}/bin/python3"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
    return to


class Installed:
    """An environment that holds one release and what it requires, and finds no compiler."""

    def __init__(self, folder: Path, release: Path) -> None:
        self.folder = folder
        self._release = release
        self.bin = folder / "venv" / "bin"
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "CC": "/nonexistent/cc",
            "CXX": "/nonexistent/c++",
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
        }

    def call(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(word) for word in command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
        )

    def run(self, *command: str | Path) -> str:
        ran = self.call(*command)
        assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
        return ran.stdout

    def add(self, extra: str) -> None:
        self.run(self.bin / "pip", "install", "--quiet", f"{self._release}[{extra}]")

    def here(self, text: str, bootstrap: str) -> str:
        return text.replace("127.0.0.1:9092", bootstrap)


@pytest.fixture(scope="module", params=KINDS)
def installed(
    request: pytest.FixtureRequest, dist: Path, tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    (release,) = dist.glob(KINDS[request.param])
    there = Installed(tmp_path_factory.mktemp(request.param), release)
    there.run(sys.executable, "-m", "venv", "venv")
    there.run(there.bin / "pip", "install", "--quiet", release, "pytest")
    return there


@contextmanager
def serving(installed: Installed, *command: str | Path) -> Iterator[str]:
    """Start a command of the release; yields the address that it serves."""
    with subprocess.Popen(
        [str(word) for word in (installed.bin / "barnabas", *command)],
        env=installed.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert ready.startswith("ready "), ready
            yield ready.split()[-1]
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()


@pytest.fixture
def bootstrap(installed: Installed, tmp_path: Path) -> Iterator[str]:
    with serving(installed, "server", "--listen", "127.0.0.1:0", "--data", tmp_path) as address:
        yield address


def test_the_compiled_wheel_has_every_compiled_module(dist: Path) -> None:
    (wheel,) = dist.glob(KINDS["compiled"])
    names = zipfile.ZipFile(wheel).namelist()
    declared = {name.rpartition(".")[0] for name in names if name.endswith((".pxd", ".pyx"))}
    assert declared == {name.partition(".")[0] for name in names if name.endswith(".so")}


def test_the_quick_start_runs(installed: Installed, bootstrap: str) -> None:
    program = installed.here(block(README, "python", "confluent_kafka"), bootstrap)
    printed = installed.run(installed.bin / "python", "-c", program)
    assert printed.splitlines() == [f"{n} b'customer-{n}' b'order {n}'" for n in range(3)]


def test_the_command_produces_and_consumes(installed: Installed, bootstrap: str) -> None:
    barnabas = installed.bin / "barnabas"
    installed.run("sh", "-c", f"echo hello | {barnabas} produce greetings --create -b {bootstrap}")
    assert "hello" in installed.run(barnabas, "consume", "greetings", "-b", bootstrap)


def test_the_pytest_plugin_is_found(installed: Installed) -> None:
    (installed.folder / "test_mine.py").write_text(TEST_OF_A_USER)
    assert "1 passed" in installed.run(installed.bin / "python", "-m", "pytest", "test_mine.py")


def test_only_the_compiled_wheel_has_extensions(
    installed: Installed, request: pytest.FixtureRequest
) -> None:
    is_source = installed.run(installed.bin / "python", "-c", LOADED).strip()
    assert is_source == str("compiled" not in installed.folder.name)


@pytest.mark.parametrize(
    ("command", "extra"),
    [("console", "console"), ("demo", "spark"), ("pipeline archive orders --to archive", "spark")],
)
def test_a_command_without_its_extra_names_it(
    installed: Installed, bootstrap: str, command: str, extra: str
) -> None:
    ran = installed.call(installed.bin / "barnabas", *command.split())
    assert ran.returncode != 0
    assert f"pip install 'barnabas[{extra}]'" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_the_console_serves_with_its_extra(installed: Installed, bootstrap: str) -> None:
    installed.add("console")
    command = ("console", "-b", bootstrap, "--listen", "127.0.0.1:0")
    with serving(installed, *command) as url, urlopen(f"{url}topics") as page:
        assert page.status == 200
        assert b"<html" in page.read()


@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
def test_spark_reads_with_the_extra(installed: Installed, bootstrap: str) -> None:
    """`all` is both extras."""
    installed.add("all")
    program = installed.here(block(README, "python", "confluent_kafka"), bootstrap)
    installed.run(installed.bin / "python", "-c", program)
    program = installed.here(block(README, "python", "pyspark"), bootstrap)
    printed = installed.run(installed.bin / "python", "-c", program)
    for n in range(3):
        assert re.search(rf"\| *{n}\|customer-{n}\|order {n}\|", printed), printed


def test_a_host_is_installed_as_the_page_shows(
    dist: Path, tmp_path: Path, zookeeper_chroot: str
) -> None:
    """All lines of docs/operate.md for a host; pip finds the release among all packages."""
    needs("useradd", "systemctl")
    host = Host(tmp_path)
    for line in lines_for_hosts():
        host.run(line, PIP_FIND_LINKS=str(dist), PYTHONPATH="")
    check_host(host)
    run_unit(host, zookeeper_chroot)
