"""The README does what it says: its commands and programs run, its tables are the code's."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.served import ADVERTISED

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BIN = Path(sys.executable).parent


def blocks(language: str) -> list[str]:
    return [text for tag, text in BLOCK.findall(README) if tag == language]


def rows(heading: str) -> list[list[str]]:
    """The cells of the table whose first heading this is."""
    _, _, rest = README.partition(f"| {heading} |")
    lines = rest.split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


class Served(NamedTuple):
    """The broker of the quick start, started as the README says."""

    bootstrap: str
    data: Path

    def here(self, text: str) -> str:
        """A block of the README for this broker and the environment of this test."""
        local = text.replace("127.0.0.1:9092", self.bootstrap)
        local = local.replace("./barnabas-data", str(self.data)).replace(".venv/bin/", f"{BIN}/")
        return local.replace("./barnabas-cluster", str(self.data))

    def run(self, *command: str) -> str:
        """What the command prints; it must succeed."""
        ran = subprocess.run(
            command,
            env={
                **os.environ,
                "BARNABAS_BOOTSTRAP": self.bootstrap,
                "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            },
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


def shell_block(mentioning: str) -> str:
    (block,) = (text for text in blocks("sh") if mentioning in text)
    return block


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Port 0 stands for the README's, so that the broker takes a free one."""
    asked = Served("127.0.0.1:0", tmp_path_factory.mktemp("readme"))
    command = shlex.split(asked.here(shell_block("barnabas server")))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert ready.startswith("ready "), ready
            yield asked._replace(bootstrap=ready.split()[-1])
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Served]:
    """The cluster of the quick start, on free ports."""
    asked = Served("", tmp_path)
    command = shlex.split(asked.here(shell_block("barnabas cluster")))
    with subprocess.Popen(
        [*command, "--base-port", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert ready.startswith("ready "), ready
            yield asked._replace(bootstrap=ready.split()[-1])
        finally:
            process.terminate()
            process.wait(60)


def python_block(mentioning: str = "confluent_kafka") -> str:
    (program,) = (text for text in blocks("python") if mentioning in text)
    return program


def test_the_python_quick_start_prints_what_it_produced(served: Served) -> None:
    assert len(python_block().splitlines()) <= 20
    printed = served.run(sys.executable, "-c", served.here(python_block()))
    assert printed.splitlines() == [f"{n} b'customer-{n}' b'order {n}'" for n in range(3)]


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_the_kcat_quick_start_prints_what_it_produced(served: Served) -> None:
    printed = served.run("sh", "-euc", served.here(shell_block("kcat")))
    assert printed == "hello from kcat\n"


def test_the_commands_of_the_quick_start_work_after_the_program(served: Served) -> None:
    served.run(sys.executable, "-c", served.here(python_block()))
    printed = served.run("sh", "-euc", served.here(shell_block("topics create shipments")))
    assert "hello from barnabas\n" in printed
    assert f"{served.data}/orders-0/{0:020}.log" in printed


@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
def test_spark_reads_what_the_quick_start_produced(served: Served) -> None:
    served.run(sys.executable, "-c", served.here(python_block()))
    printed = served.run(sys.executable, "-c", served.here(python_block("pyspark")))
    for n in range(3):
        assert re.search(rf"\| *{n}\|customer-{n}\|order {n}\|", printed), printed


def test_the_simulation_of_the_readme_tells_its_story() -> None:
    command = shlex.split(shell_block("barnabas sim").replace(".venv/bin/", f"{BIN}/"))
    told = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert told.returncode == 0, told.stdout[-2000:] + told.stderr
    assert "seed 7" in told.stdout


@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
def test_the_cluster_of_the_quick_start_goes_on_without_the_broker_that_is_killed(
    cluster: Served,
) -> None:
    pid = int((cluster.data / "broker-1.pid").read_text())
    printed = cluster.run("sh", "-euc", cluster.here(shell_block("topics create payments")))
    assert "payments" in printed
    with pytest.raises(ProcessLookupError):
        until_gone(pid)
    cluster.run(f"{BIN}/barnabas", "produce", "payments", "still", "here")


def until_gone(pid: int) -> None:
    """Raises ProcessLookupError as soon as the process is gone."""
    for _ in range(1000):
        os.kill(pid, 0)
        time.sleep(0.01)


def test_every_block_is_of_a_kind_that_is_tested() -> None:
    assert {tag for tag, _ in BLOCK.findall(README)} == {"", "sh", "python"}
    assert len(blocks("python")) == 2
    assert len(blocks("sh")) == 6


def test_the_make_targets_named_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = re.findall(r"^make ([a-z-]+)", "".join(blocks("")), re.MULTILINE)
    named += re.findall(r"`make ([a-z-]+)`", README)
    assert named[:2] == ["demo", "test"]
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_table_of_apis_is_what_is_served() -> None:
    told = {}
    for name, key, versions in rows("API"):
        lowest, _, highest = versions.partition(" to ")
        told[int(key)] = (name.lower(), int(lowest), int(highest or lowest))
    served = {
        int(key): (key.name.replace("_", "").lower(), api.lowest, api.highest)
        for key, api in ADVERTISED.items()
    }
    assert told == served
    assert list(told) == sorted(told)


def test_each_client_named_is_used_by_a_test() -> None:
    imports = {
        "confluent-kafka": "confluent_kafka",
        "kafka-python": "kafka",
        "aiokafka": "aiokafka",
    }
    tests = [path.read_text() for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    for client, _ in rows("Client used in the tests"):
        used = rf"(?:from|import) {imports[client]}\b" if client in imports else rf"\b{client}\b"
        assert any(re.search(used, text) for text in tests), client


def test_the_table_of_commands_is_what_the_command_offers() -> None:
    shown = subprocess.run([BIN / "barnabas", "--help"], capture_output=True, text=True).stdout
    _, _, commands = shown.partition("Commands:\n")
    offered = re.findall(r"^  ([a-z]+) ", commands, re.MULTILINE)
    assert [row[0].strip("`").removeprefix("barnabas ") for row in rows("Command")] == offered


def test_the_table_of_folders_has_every_part() -> None:
    named = re.findall(r"\]\(src/barnabas/([a-z]+)\)", "\n".join(row[0] for row in rows("Folder")))
    parts = [path.parent.name for path in (ROOT / "src" / "barnabas").glob("*/__init__.py")]
    assert sorted(named) == sorted(parts)
