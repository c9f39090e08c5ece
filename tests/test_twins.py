"""The compiled twins: in use wherever they were built, and the broker is the same without them."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from barnabas.base import twins
from tests.support.twins import compiled

ROOT = Path(__file__).parent.parent
# What is written in Python, and the names that the twin beside it takes over.
TWINS = {
    "barnabas.wire.produce.plain_batch": (
        "barnabas.wire.produce._plain_batch",
        "Answer judge_plain last_records",
    ),
    "barnabas.wire.records.batch_walk": ("barnabas.wire.records._batch_walk", "whole_batches"),
    "barnabas.wire.fetch.single_fetch": ("barnabas.wire.fetch._single_fetch", "SingleAnswer"),
    "barnabas.disk.open_file": ("barnabas.disk._open_file", "OpenFile"),
    "barnabas.log.segment.active_segment": (
        "barnabas.log.segment._active_segment",
        "LogEnd SegmentEnd",
    ),
    "barnabas.log.segment.index_end": ("barnabas.log.segment._index_end", "IndexEnd"),
    "barnabas.server.network.sending": ("barnabas.server.network._sending", "send_now"),
    "barnabas.server.requests.fast_path": ("barnabas.server.requests._fast_path", "serve_known"),
    "barnabas.server.requests.repeated_produce": (
        "barnabas.server.requests._repeated_produce",
        "RepeatedProduce",
    ),
    "barnabas.server.requests.repeated_fetch": (
        "barnabas.server.requests._repeated_fetch",
        "RepeatedFetch",
    ),
}
WITHOUT_TWINS = (
    "tests/disk/test_disk.py",
    "tests/log/test_log.py",
    "tests/log/test_log_flushes.py",
    "tests/log/test_log_producers.py",
    "tests/log/test_log_removals.py",
    "tests/log/test_segment.py",
    "tests/log/test_model.py",
    "tests/server/test_fast_path.py",
    "tests/server/test_produce.py",
    "tests/server/test_fetch.py",
    "tests/server/test_fetch_waiting.py",
    "tests/server/test_connection.py",
    "tests/clients/test_confluent_kafka.py",
)


@pytest.mark.parametrize("name", TWINS)
def test_what_was_built_is_used_unless_python_is_asked_for(name: str) -> None:
    twin_name, names = TWINS[name]
    twin = compiled(twin_name.replace("._", "."))
    if twin is None:
        pytest.skip("there was no compiler")
    module = import_module(name)
    for each in names.split():
        assert (getattr(module, each) is getattr(twin, each)) is not twins.PURE


def in_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "BARNABAS_PURE": "1"},
        capture_output=True,
        text=True,
    )


def test_a_variable_of_the_environment_keeps_all_of_it_to_python() -> None:
    asked = "import sys, barnabas.server.node; print([n for n in sys.modules if '._' in n])"
    ended = in_python("-c", asked)
    assert ended.returncode == 0, ended.stderr
    assert not [twin for twin, _ in TWINS.values() if twin in ended.stdout]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_broker_is_the_same_without_its_twins() -> None:
    ended = in_python("-m", "pytest", "-q", "-m", "not long", *WITHOUT_TWINS)
    assert ended.returncode == 0, ended.stdout[-5_000:]
