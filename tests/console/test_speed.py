"""The console of a cluster with 10,000 topics and 50,000 partitions: quick, and small."""

import os
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.console.conftest import ConsoleProcess, running_console
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import admin

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
TOPICS = 10_000
AT_ONCE = 250
FIRST_PAGE_S = 1.0
REQUEST_S = 0.2
MEMORY_MB = 150
IDLE_S = 5.0
IDLE_COST_S = 0.1


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    folder = tmp_path_factory.mktemp("many-topics")
    broker = BrokerProcess(folder, ["log.index.size.max.bytes=4096"])
    broker.start()
    try:
        settings = {"bootstrap.servers": broker.bootstrap, "socket.timeout.ms": 300_000}
        client = admin.AdminClient(settings)
        for first in range(0, TOPICS, AT_ONCE):
            names = [f"topic-{number:05}" for number in range(first, first + AT_ONCE)]
            wanted = [admin.NewTopic(name, 5, 1) for name in names]
            for made in client.create_topics(wanted, request_timeout=290).values():
                made.result(300)
        with running_console(broker.bootstrap) as process:
            yield process
    finally:
        broker.kill()  # fifty thousand logs take long to close


class Cost(NamedTuple):
    """The processor time of the console, which other programs do not lengthen, and the clock's."""

    processor_s: float
    clock_s: float


def cost(console: ConsoleProcess, path: str) -> Cost:
    began, used = time.monotonic(), processor_s(console.pid)
    with urllib.request.urlopen(f"{console.url}{path}", timeout=120) as answer:
        assert answer.status == 200
        assert "does not answer" not in answer.read().decode()
    return Cost(processor_s(console.pid) - used, time.monotonic() - began)


def processor_s(pid: int) -> float:
    """User and system time of a process, in all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


PAGES = (
    "",
    "topics",
    "topics?q=topic-07",
    "topics?page=300",
    "topics/topic-09999",
    "groups",
    "cluster",
)


def test_pages_of_ten_thousand_topics_are_quick_and_small(many: ConsoleProcess) -> None:
    idle = processor_s(many.pid)
    first = cost(many, "topics")
    cost(many, "groups")  # modules are loaded
    found = {path: min(cost(many, path) for _ in range(3)) for path in PAGES}
    print(f"before {idle:.2f} s, first page {first}, then {found}, {memory_mb(many.pid):.0f} MB")
    assert first.processor_s <= FIRST_PAGE_S
    assert all(each.processor_s <= REQUEST_S for each in found.values()), found
    assert memory_mb(many.pid) <= MEMORY_MB


def test_nothing_is_asked_of_the_cluster_while_nobody_looks(many: ConsoleProcess) -> None:
    """The console is idle: a request to the cluster would cost it time."""
    used = processor_s(many.pid)
    deadline = time.monotonic() + IDLE_S
    while time.monotonic() < deadline:
        time.sleep(0.1)
    assert processor_s(many.pid) - used <= IDLE_COST_S
