"""The console of a cluster with 10,000 topics and 50,000 partitions: quick, and small.

No request may take longer than 200 ms by the clock, without the time for which the console and its
broker were ready to run and other programs had the processors.
"""

import contextlib
import os
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from barnabas.base.ports import free_port
from tests.console.conftest import ConsoleProcess, running_console
from tests.support.broker import BrokerProcess
from tests.support.confluent_client import admin
from tests.support.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(1800)]
TOPICS = 10_000
AT_ONCE = 250
FIRST_PAGE_S = 1.0
REQUEST_S = 0.2
MEMORY_MB = 150
IDLE_S = 5.0
IDLE_COST_S = 0.1


class Many(NamedTuple):
    """A console, and the broker with very many topics, which serves its metrics."""

    console: ConsoleProcess
    broker: BrokerProcess
    metrics: str = ""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Many]:
    folder = tmp_path_factory.mktemp("many-topics")
    metrics = f"127.0.0.1:{free_port()}"
    configs = ["log.index.size.max.bytes=4096", f"barnabas.metrics.listener={metrics}"]
    broker = BrokerProcess(folder, configs)
    broker.start()
    try:
        settings = {"bootstrap.servers": broker.bootstrap, "socket.timeout.ms": 300_000}
        client = admin.AdminClient(settings)
        for first in range(0, TOPICS, AT_ONCE):
            names = [f"topic-{number:05}" for number in range(first, first + AT_ONCE)]
            wanted = [admin.NewTopic(name, 5, 1) for name in names]
            for made in client.create_topics(wanted, request_timeout=290).values():
                made.result(300)
        del client  # which would ask for metadata now and then
        with running_console(broker.bootstrap) as process:
            yield Many(process, broker, metrics)
    finally:
        broker.kill()  # fifty thousand logs take long to close


def requests_within(many: Many, seconds: float) -> int:
    """How many requests the broker answers in so many seconds; it counts them itself."""
    before = requests(many)
    time.sleep(seconds)
    return requests(many) - before


def requests(many: Many) -> int:
    with urllib.request.urlopen(f"http://{many.metrics}/metrics", timeout=120) as answer:
        lines: list[str] = answer.read().decode().splitlines()
    counts = [line for line in lines if line.startswith("barnabas_request_seconds_count")]
    return sum(int(float(line.split()[-1])) for line in counts if 'phase="local"' in line)


class Cost(NamedTuple):
    """The processor time of the console, and the time by the clock, with waits for processors."""

    processor_s: float
    clock_s: float
    waited_s: float

    @property
    def net_s(self) -> float:
        return max(self.processor_s, self.clock_s - self.waited_s)


def cost(many: Many, path: str, words: str) -> Cost:
    console, pids = many.console, (many.console.pid, many.broker.pid)
    began, used, waited = time.monotonic(), processor_s(console.pid), waited_s(*pids)
    with urllib.request.urlopen(f"{console.url}{path}", timeout=120) as answer:
        page = answer.read().decode()
    clock_s, waited = time.monotonic() - began, waited_s(*pids) - waited
    assert answer.status == 200
    assert words in page
    return Cost(processor_s(console.pid) - used, clock_s, waited)


def waited_s(*pids: int) -> float:
    """For how long the loops of these processes were ready to run, but had no processor."""
    fields = (Path(f"/proc/{pid}/schedstat").read_text().split() for pid in pids)
    return sum(int(waited) / 1e9 for _, waited, _ in fields)


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
AGAIN = 20


@contextlib.contextmanager
def watching(console: ConsoleProcess) -> Iterator[None]:
    """A person has the overview open: the console watches the cluster."""
    request = urllib.request.Request(console.url, headers={"Accept": "text/event-stream"})
    with urllib.request.urlopen(request, timeout=120) as events:
        assert b"event: live\n" in events  # reads up to it
        yield


def test_pages_of_ten_thousand_topics_are_quick_and_small(many: Many) -> None:
    idle = processor_s(many.console.pid)
    first = cost(many, "topics", "10,000 topics")
    cost(many, "groups", "No groups yet")  # modules are loaded
    found = {path: [cost(many, path, words) for _ in range(AGAIN)] for path, words in PAGES.items()}
    with watching(many.console):
        for path, words in PAGES.items():
            found[path] += [cost(many, path, words) for _ in range(AGAIN)]
    print(f"before {idle:.2f} s, first page {first}")
    assert first.net_s <= FIRST_PAGE_S
    check(many, found)


def check(many: Many, found: Mapping[str, list[Cost]]) -> None:
    """No request took longer than a person should wait."""
    for path, costs in found.items():
        clock = sorted(each.clock_s for each in costs)
        net, used = max(each.net_s for each in costs), max(each.processor_s for each in costs)
        print(
            f"{path:24} by the clock: median {clock[len(clock) // 2]:.3f} s, greatest"
            f" {clock[-1]:.3f} s, without waits {net:.3f} s; of the processor {used:.2f} s"
        )
    print(f"{memory_mb(many.console.pid):.0f} MB")
    assert max(each.net_s for costs in found.values() for each in costs) <= REQUEST_S
    assert memory_mb(many.console.pid) <= MEMORY_MB


def test_nothing_is_asked_of_the_cluster_while_nobody_looks(many: Many) -> None:
    """While somebody looks, the cluster is asked every two seconds."""
    with watching(many.console):
        until(lambda: requests_within(many, IDLE_S) > 0, "the watch of the cluster")
    ended = "the watch of the cluster ends with the last page"
    until(lambda: requests_within(many, IDLE_S) == 0, ended, 120)
    pid, used = many.console.pid, processor_s(many.console.pid)
    assert requests_within(many, IDLE_S) == 0
    assert processor_s(pid) - used <= IDLE_COST_S
