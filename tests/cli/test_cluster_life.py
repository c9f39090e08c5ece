"""`barnabas cluster` as a process: signals, pid files and the lock of its directory.

The brokers are fake; test_cluster_command uses real ones.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import until

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 30.0


class Cluster:
    """One `barnabas cluster` and its directory; can be started and stopped repeatedly."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "data"
        self._errors = directory / "stderr"
        self._process: subprocess.Popen[str] | None = None

    def begin(self, *options: str, behaviour: str = "ready") -> None:
        command = [sys.executable, "-m", "tests.cli.fake_cluster", "cluster", "--brokers", "2"]
        if "--zookeeper" not in options and "--own-zookeeper" not in options:
            options += ("--zookeeper", "127.0.0.1:1")
        chosen = [option for option in options if option != "--own-zookeeper"]
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [*command, "--base-port", "0", "--data", str(self.directory), *chosen],
                cwd=ROOT,
                env={**os.environ, "FAKE_BROKER": behaviour},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    @property
    def process(self) -> "subprocess.Popen[str]":
        assert self._process is not None
        return self._process

    def line(self) -> str:
        """The next line of stdout; empty at its end."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
        assert ready, f"silent: {self.errors()}"
        return self.process.stdout.readline().strip()

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        process, self._process = self.process, None
        with process:
            return process.wait(PATIENCE_S)

    def errors(self) -> str:
        return self._errors.read_text()

    def await_message(self, words: str) -> None:
        until(lambda: words in self.errors(), self.errors, PATIENCE_S)

    def pids(self) -> dict[str, int]:
        files = sorted(self.directory.glob("*.pid"))
        return {path.stem: int(path.read_text()) for path in files if path.read_text()}

    def close(self) -> None:
        if self._process is not None:
            self.end(signal.SIGKILL)
        for pid in self.pids().values():
            end(pid)


def end(pid: int) -> None:
    """Kill a process that is not a child, and wait until it is gone."""
    deadline = time.monotonic() + PATIENCE_S
    while is_alive(pid):
        os.kill(pid, signal.SIGKILL)
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """True if the process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


def test_a_cluster_reports_when_it_is_ready_and_leaves_no_process_behind(cluster: Cluster) -> None:
    for _ in range(2):  # in the same directory again
        cluster.begin()
        line = cluster.line()
        assert line.startswith("ready brokers=2 ")
        where = line.rpartition(" ")[2]
        assert f"export BARNABAS_BOOTSTRAP={where}\n" in cluster.errors()
        ports = [address.rpartition(":")[2] for address in where.split(",")]
        pids = cluster.pids()
        assert list(pids) == ["broker-0", "broker-1"]
        for number, port in enumerate(ports):
            text = (cluster.directory / f"broker-{number}" / "server.properties").read_text()
            assert f"listeners=PLAINTEXT://127.0.0.1:{port}\n" in text
        assert cluster.end(signal.SIGTERM) == 0
        assert cluster.pids() == {}
        assert not any(map(is_alive, pids.values()))
        assert cluster.errors().endswith("stopped\n")


def test_a_killed_broker_is_reported_and_the_others_stay(cluster: Cluster) -> None:
    cluster.begin()
    assert cluster.line()
    os.kill(cluster.pids()["broker-1"], signal.SIGKILL)
    cluster.await_message("was killed by SIGKILL; restart it with: barnabas server --config")
    assert list(cluster.pids()) == ["broker-0"]
    assert cluster.end(signal.SIGINT) == 0


def test_a_second_ctrl_c_kills_brokers_that_do_not_stop(cluster: Cluster) -> None:
    cluster.begin(behaviour="deaf")
    assert cluster.line()
    pids = cluster.pids()
    cluster.process.send_signal(signal.SIGINT)
    cluster.await_message("stopping 2 brokers")
    assert cluster.end(signal.SIGINT) == 130
    assert not any(map(is_alive, pids.values()))
    assert cluster.pids() == {}


def test_a_broker_that_fails_to_start_stops_the_cluster_and_its_log_is_shown(
    cluster: Cluster,
) -> None:
    cluster.begin(behaviour="dead")
    assert cluster.line() == ""
    assert cluster.wait() == 1
    errors = cluster.errors().splitlines()
    assert "  barnabas: no space left on device" in errors
    assert errors[-1].startswith("barnabas: broker ")
    assert "failed to start: it exited with code 1; see " in errors[-1]
    assert cluster.pids() == {}


def test_a_cluster_can_be_stopped_while_it_starts(cluster: Cluster) -> None:
    cluster.begin(behaviour="mute")
    cluster.await_message("starting 2 brokers")
    assert cluster.end(signal.SIGTERM) == 143
    assert cluster.pids() == {}
    assert cluster.errors().endswith("stopped\n")


def test_a_directory_in_use_is_rejected_and_its_cluster_keeps_running(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.begin()
    assert cluster.line()
    (tmp_path / "other").mkdir()
    other = Cluster(tmp_path / "other")
    other.directory = cluster.directory
    other.begin()
    assert other.wait() == 1
    assert f"in use by another `barnabas cluster` (pid {cluster.process.pid})" in other.errors()
    assert other.errors().count("\n") == 1
    assert len(cluster.pids()) == 2
    assert cluster.end() == 0


def test_brokers_that_outlive_their_supervisor_are_reported_until_they_are_gone(
    cluster: Cluster,
) -> None:
    cluster.begin()
    assert cluster.line()
    pids = cluster.pids()
    cluster.end(signal.SIGKILL)
    assert all(map(is_alive, pids.values()))

    cluster.begin()
    assert cluster.wait() == 1
    assert f"kill {' '.join(map(str, pids.values()))}" in cluster.errors()

    for pid in pids.values():
        end(pid)
    cluster.begin()
    assert cluster.line().startswith("ready ")
    assert cluster.end() == 0


def test_a_cluster_runs_its_own_zookeeper_and_stops_it_last(cluster: Cluster) -> None:
    cluster.begin("--own-zookeeper", "--brokers", "1")
    assert " zookeeper=127.0.0.1:" in cluster.line()
    pid = cluster.pids()["zookeeper"]
    properties = (cluster.directory / "broker-0" / "server.properties").read_text()
    assert "zookeeper.connect=127.0.0.1:" in properties
    os.kill(pid, signal.SIGKILL)
    cluster.await_message("ZooKeeper died")
    assert cluster.end() == 0
    assert cluster.pids() == {}


def test_with_restart_zookeeper_is_restarted_too(cluster: Cluster) -> None:
    cluster.begin("--own-zookeeper", "--brokers", "1", "--restart")
    assert cluster.line()
    first = cluster.pids()["zookeeper"]
    os.kill(first, signal.SIGKILL)
    cluster.await_message("is back")
    second = cluster.pids()["zookeeper"]
    assert second != first
    assert cluster.end() == 0
    assert not is_alive(second)
