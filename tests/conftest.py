"""Brokers, ZooKeepers and topic names for all tests."""

import gc
import logging
import os
import re
from collections.abc import Callable, Generator, Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from barnabas.base import ports
from tests.support.broker import BrokerProcess

pytest_plugins = [
    "tests.support.examples",
    "tests.support.missing_tools",
    "tests.support.other_systems",
    "tests.support.spreading",
    "tests.support.zookeeper",
]

# Each process of a run has ports of its own: one would take what a broker of another has left for a
# moment, to be started again.
_WORKER: Final = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_SPAN: Final = (ports.LAST - ports.FIRST) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
os.environ[ports.RANGE] = f"{ports.FIRST + _WORKER * _SPAN}-{ports.FIRST + (_WORKER + 1) * _SPAN}"

os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "support" / "spark_conf"))

# On a busy machine the loop of a broker is held now and then, which is no fault of a test.
logging.getLogger("barnabas.loop").setLevel(logging.ERROR)

_numbers: Final = count(1)
_brokers: Final = pytest.StashKey[list[BrokerProcess]]()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave modules and collected tests, a million objects, out of every later collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def broker(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[BrokerProcess]:
    """One broker for all tests that leave it running; at the end it must stop cleanly."""
    # Records of long ago, as tests write them, must not be deleted under a test that is at work.
    overrides = ["log.retention.check.interval.ms=86400000"]
    process = BrokerProcess(tmp_path_factory.mktemp("broker"), overrides)
    request.config.stash.setdefault(_brokers, []).append(process)
    with process.running():
        yield process


@pytest.fixture
def fresh_broker(
    tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., BrokerProcess]]:
    """Start a broker of the test's own: `fresh_broker("key=value", ...)`; closed after the test."""
    all_brokers = request.config.stash.setdefault(_brokers, [])
    mine: list[BrokerProcess] = []

    def start(*overrides: str) -> BrokerProcess:
        folder = tmp_path / f"broker-{len(mine)}"
        folder.mkdir()
        process = BrokerProcess(folder, overrides)
        mine.append(process)
        all_brokers.append(process)
        process.start()
        return process

    try:
        yield start
    finally:
        for process in mine:
            process.close()
            all_brokers.remove(process)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses; the topic does not exist."""
    name = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name.removeprefix("test_"))
    return f"{name[:60].strip('-')}-{next(_numbers)}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for process in item.config.stash.get(_brokers, []):
            report.sections.append((f"broker at {process.bootstrap}", process.log_tail()))
    return report
