"""The console of a cluster with 10,000 topics and 50,000 partitions: quick, and small."""

import contextlib
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
from tests.support.waiting import until

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


def is_idle(console: ConsoleProcess) -> bool:
    """True if it used no processor for longer than the watch goes without the topics."""
    used = processor_s(console.pid)
    time.sleep(6)
    return processor_s(console.pid) - used < 0.02


class Cost(NamedTuple):
    """The processor time of the console, which other programs do not lengthen, and the clock's."""

    processor_s: float
    clock_s: float


def cost(console: ConsoleProcess, path: str, words: str) -> Cost:
    began, used = time.monotonic(), processor_s(console.pid)
    with urllib.request.urlopen(f"{console.url}{path}", timeout=120) as answer:
        assert answer.status == 200
        assert words in answer.read().decode()
    return Cost(processor_s(console.pid) - used, time.monotonic() - began)


def processor_s(pid: int) -> float:
    """User and system time of a process, in all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


# Pages, and what they say if they show the cluster.
PAGES = {
    "": "50,000 partitions",
    "topics": "10,000 topics",
    "topics?q=topic-07": "1,000 topics",
    "topics?page=300": "page 300 of 400",
    "topics/topic-09999": "Leader epoch",
    "groups": "No groups yet",
    "cluster": "Log directories",
}
AGAIN = 5


@contextlib.contextmanager
def watching(console: ConsoleProcess) -> Iterator[None]:
    """A person has the overview open: the console watches the cluster."""
    request = urllib.request.Request(console.url, headers={"Accept": "text/event-stream"})
    with urllib.request.urlopen(request, timeout=120) as events:
        assert b"event: live\n" in events  # reads up to it
        yield


def test_pages_of_ten_thousand_topics_are_quick_and_small(many: ConsoleProcess) -> None:
    idle = processor_s(many.pid)
    first = cost(many, "topics", "10,000 topics")
    cost(many, "groups", "No groups yet")  # modules are loaded
    found = {path: [cost(many, path, words) for _ in range(AGAIN)] for path, words in PAGES.items()}
    with watching(many):
        for path, words in PAGES.items():
            cost(many, path, words)
    most = {path: max(each.processor_s for each in costs) for path, costs in found.items()}
    least = {path: round(min(each.clock_s for each in costs), 3) for path, costs in found.items()}
    print(f"before {idle:.2f} s, first page {first}, then at most {most} of the processor,")
    print(f"at least {least} by the clock, {memory_mb(many.pid):.0f} MB")
    assert first.processor_s <= FIRST_PAGE_S
    assert max(most.values()) <= REQUEST_S, most
    assert memory_mb(many.pid) <= MEMORY_MB


def test_nothing_is_asked_of_the_cluster_while_nobody_looks(many: ConsoleProcess) -> None:
    """The console is idle: a request to the cluster would cost it time."""
    until(lambda: is_idle(many), "the watch of the cluster ends with the last page", 60)
    used = processor_s(many.pid)
    deadline = time.monotonic() + IDLE_S
    while time.monotonic() < deadline:
        time.sleep(0.1)
    assert processor_s(many.pid) - used <= IDLE_COST_S
