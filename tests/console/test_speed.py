"""The console of a cluster with 10,000 topics and 50,000 partitions: quick, and small."""

import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.conftest import ConsoleProcess, running_console
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import admin

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
TOPICS = 10_000
AT_ONCE = 250
FIRST_PAGE_S = 1.0
REQUEST_S = 0.2
MEMORY_MB = 150


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    folder = tmp_path_factory.mktemp("many-topics")
    broker = BrokerProcess(folder, ["log.index.size.max.bytes=4096"])
    with broker.running():
        client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
        for first in range(0, TOPICS, AT_ONCE):
            names = [f"topic-{number:05}" for number in range(first, first + AT_ONCE)]
            wanted = [admin.NewTopic(name, 5, 1) for name in names]
            for made in client.create_topics(wanted, request_timeout=120).values():
                made.result(180)
        with running_console(broker.bootstrap) as process:
            yield process


def seconds(url: str) -> float:
    began = time.monotonic()
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert answer.status == 200
        answer.read()
    return time.monotonic() - began


def memory_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def test_pages_of_ten_thousand_topics_are_quick_and_small(many: ConsoleProcess) -> None:
    first = seconds(f"{many.url}topics")
    paths = ("", "topics", "topics?q=topic-07", "topics?page=300", "topics/topic-09999", "groups")
    seconds(f"{many.url}groups")  # modules are loaded
    found = {path: min(seconds(f"{many.url}{path}") for _ in range(3)) for path in paths}
    print(f"first page {first:.2f} s, then {found}, {memory_mb(many.pid):.0f} MB")
    assert first <= FIRST_PAGE_S
    assert all(each <= REQUEST_S for each in found.values()), found
    assert memory_mb(many.pid) <= MEMORY_MB
