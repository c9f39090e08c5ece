"""The compiled modules: loaded wherever they were built, and not needed by the broker."""

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from barnabas.base import twins
from tests.support.twins import compiled, in_python

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
DECLARED = sorted(SOURCE.rglob("*.pxd"))
COMPILED = [".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in DECLARED]
LEAVES = ["barnabas.base.buffers", "barnabas.base.system_calls"]
# A whole broker and the log below it, in some seconds.
A_BROKER = (
    "tests/base/test_buffers.py",
    "tests/log/test_active_segment.py",
    "tests/log/test_log.py",
    "tests/replication/test_leader_replica.py",
    "tests/server/test_fast_path.py",
    "tests/server/test_produce.py",
)
IN_PYTHON = (
    *A_BROKER,
    "tests/disk/test_disk.py",
    "tests/log/test_log_flushes.py",
    "tests/log/test_log_producers.py",
    "tests/log/test_log_removals.py",
    "tests/log/test_segment.py",
    "tests/log/test_model.py",
    "tests/server/test_produce.py",
    "tests/server/test_fetch.py",
    "tests/server/test_fetch_waiting.py",
    "tests/server/test_connection.py",
    "tests/clients/test_confluent_kafka.py",
)


@pytest.mark.parametrize("name", COMPILED)
def test_what_was_built_is_loaded_unless_python_is_asked_for(name: str) -> None:
    path = SOURCE.joinpath(*name.split("."))
    if not list(path.parent.glob(f"{path.name}.*.so")):
        pytest.skip("there was no compiler")
    assert twins.is_compiled(import_module(name)) is not twins.PURE


@pytest.mark.parametrize("name", COMPILED)
def test_what_was_built_is_as_new_as_its_source(name: str) -> None:
    module = compiled(name)
    if module is None:
        pytest.skip("it is not compiled here")
    path = SOURCE.joinpath(*name.split("."))
    sources = [path.with_suffix(suffix) for suffix in (".py", ".pyx", ".pxd")]
    newest = max(each.stat().st_mtime for each in sources if each.exists())
    built = Path(str(module.__file__)).stat().st_mtime
    assert built >= newest, "build it again: python setup.py build_ext --inplace"


@pytest.mark.parametrize("name", LEAVES)
def test_a_leaf_module_has_the_same_names_and_constants_in_both_versions(name: str) -> None:
    extension = compiled(name)
    if extension is None:
        pytest.skip("it is not compiled here")
    source = in_python(name)
    text = (SOURCE.joinpath(*name.split(".")).with_suffix(".py")).read_text()
    names = re.findall(r"^(?:def|class) ([a-z]\w+|[A-Z]\w+)|^([A-Z]\w+): Final", text, re.MULTILINE)
    assert names
    for each in (one or other for one, other in names):
        here, there = getattr(source, each), getattr(extension, each)
        assert callable(here) or here == there, each


def without_extensions(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "BARNABAS_PURE": "1"},
        capture_output=True,
        text=True,
    )


def test_a_variable_of_the_environment_loads_sources_only() -> None:
    asked = (
        "import sys, barnabas.server.node; from barnabas.base.twins import is_compiled;"
        "print([n for n, m in sys.modules.items()"
        " if n.startswith('barnabas') and m.__file__ and is_compiled(m)])"
    )
    ended = without_extensions("-c", asked)
    assert (ended.returncode, ended.stdout.strip()) == (0, "[]"), ended.stderr


@pytest.mark.timeout(120)
def test_a_broker_in_python_alone_serves_clients() -> None:
    ended = without_extensions("-m", "pytest", "-q", "-n", "0", "-m", "not long", *A_BROKER)
    assert ended.returncode == 0, ended.stdout[-5_000:]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_broker_is_the_same_without_its_extensions() -> None:
    ended = without_extensions("-m", "pytest", "-q", "-m", "not long", *IN_PYTHON)
    assert ended.returncode == 0, ended.stdout[-5_000:]
