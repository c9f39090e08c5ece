"""The README's commands and programs run, and its claims are the code's."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.documents import BIN, BLOCK, Running, block, blocks, document
from tests.support.served import ADVERTISED

README = document("README.md")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The broker of the quick start. Port 0 replaces the README's: any free one."""
    asked = Running("127.0.0.1:0", tmp_path_factory.mktemp("readme"))
    command = shlex.split(asked.here(block(README, "sh", "barnabas server")))
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


def python_block(mentioning: str = "confluent_kafka") -> str:
    return block(README, "python", mentioning)


def test_the_python_quick_start_prints_what_it_produced(served: Running) -> None:
    assert len(python_block().splitlines()) <= 20
    printed = served.run(sys.executable, "-c", served.here(python_block()))
    assert printed.splitlines() == [f"{n} b'customer-{n}' b'order {n}'" for n in range(3)]


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_the_kcat_quick_start_prints_what_it_produced(served: Running) -> None:
    printed = served.run("sh", "-euc", served.here(block(README, "sh", "kcat")))
    assert printed == "hello from kcat\n"


def test_the_commands_of_the_quick_start_work_after_the_program(served: Running) -> None:
    served.run(sys.executable, "-c", served.here(python_block()))
    printed = served.run("sh", "-euc", served.here(block(README, "sh", "topics create shipments")))
    assert "hello from barnabas\n" in printed
    assert f"{served.data}/orders-0/{0:020}.log" in printed


@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
def test_spark_reads_what_the_quick_start_produced(served: Running) -> None:
    served.run(sys.executable, "-c", served.here(python_block()))
    printed = served.run(sys.executable, "-c", served.here(python_block("pyspark")))
    for n in range(3):
        assert re.search(rf"\| *{n}\|customer-{n}\|order {n}\|", printed), printed


def test_the_simulation_of_the_readme_runs_its_seed() -> None:
    command = shlex.split(block(README, "sh", "barnabas sim").replace(".venv/bin/", f"{BIN}/"))
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr
    assert "seed 7" in ran.stdout


def test_every_block_is_of_a_kind_that_is_tested() -> None:
    assert {tag for tag, _ in BLOCK.findall(README)} == {"", "sh", "python"}
    assert len(blocks(README, "python")) == 2
    assert len(blocks(README, "sh")) == 4


def test_the_readme_can_be_read_in_a_few_minutes() -> None:
    assert len(README.splitlines()) <= 153


def test_the_make_targets_named_exist() -> None:
    makefile = document("Makefile")
    named = re.findall(r"^make ([a-z-]+)", "".join(blocks(README, "")), re.MULTILINE)
    named += re.findall(r"`make ([a-z-]+)`", README)
    assert named[:2] == ["demo", "test"]
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_readme_counts_the_apis_that_are_served() -> None:
    assert f"serves {len(ADVERTISED)} APIs" in README
