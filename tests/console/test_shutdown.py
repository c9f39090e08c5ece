"""`barnabas cluster --console`: a broker is shut down by its button, and comes back."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.console.conftest import Visitor

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]
Visit = Callable[..., Visitor]


class LocalCluster:
    """Three brokers and their console, as the command starts them."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "barnabas.cli.main", "cluster", "-n", "3", "-p", "0"]
        options = ["--data", str(folder), "--console", "--console-listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            [*command, *options, "--restart"], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        lines = [self.process.stdout.readline(), self.process.stdout.readline()]
        self.url = next(word for line in lines for word in line.split() if word.startswith("http"))

    def close(self) -> None:
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(90) == 0
        self.process.stdout.close()


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path / "cluster")
    try:
        yield cluster
    finally:
        cluster.close()


def test_a_broker_is_shut_down_in_a_controlled_way_and_comes_back(
    visit: Visit, local: LocalCluster
) -> None:
    person = visit(at=local)
    page = person.open("cluster", "Cluster")
    person.check_all_looks()
    page.get_by_role("button", name="Shut down broker 2").click()
    page.get_by_text("Broker 2 hands over its").wait_for()
    person.check_all_looks()
    person.confirm("Shut down")
    page.get_by_text("Broker 2 shuts down.").wait_for()
    gone = page.get_by_role("button", name="Shut down broker 2")
    gone.wait_for(state="detached", timeout=60_000)
    gone.wait_for(timeout=60_000)  # --restart
    page.get_by_text("Shut down broker 2: Broker 2 hands over").wait_for()  # the audit log
    person.check_all_looks()


def test_a_cluster_elsewhere_says_how_to_do_it(visit: Visit) -> None:
    page = visit().open("cluster", "Cluster")
    page.get_by_text("send SIGTERM to its process").wait_for()
    assert page.get_by_role("button", name="Shut down").count() == 0
