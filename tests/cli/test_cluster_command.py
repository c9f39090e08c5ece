"""`barnabas cluster` with real brokers: brokers die and return, replicas move."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Barnabas
from tests.cli.test_cluster_life import end
from tests.support.waiting import until

PATIENCE_S = 60.0


class RunningCluster:
    """`barnabas cluster` with three brokers on free ports."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "data"
        self._errors = directory / "stderr"
        self._process: subprocess.Popen[str] | None = None
        self.bootstrap = ""

    def start(self) -> None:
        command = [sys.executable, "-m", "barnabas.cli.main", "cluster", "--base-port", "0"]
        with self._errors.open("a") as errors:
            self._process = subprocess.Popen(
                [*command, "--data", str(self.directory)],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("ready brokers=3 "), self._errors.read_text()
        self.bootstrap = line.split()[-1]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        process, self._process = self._process, None
        assert process is not None
        process.send_signal(number)
        with process:
            return process.wait(PATIENCE_S)

    def pid(self, name: str) -> int:
        return int((self.directory / f"{name}.pid").read_text())

    def close(self) -> None:
        if self._process is not None:
            self.stop(signal.SIGKILL)
        for path in self.directory.glob("*.pid"):
            end(int(path.read_text()))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    cluster = RunningCluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def on_cluster(
    cluster: RunningCluster, offline: Barnabas, monkeypatch: pytest.MonkeyPatch
) -> Barnabas:
    monkeypatch.setenv("BARNABAS_BOOTSTRAP", cluster.bootstrap)
    return offline


def partitions(barnabas: Barnabas, topic: str) -> list[dict[str, Any]]:
    """The partitions, once the broker asked knows the topic."""
    (found,) = until(
        lambda: json.loads(barnabas("topics", "describe", topic, "--json").out or b"[]")
    )
    return list(found["partitions"])


def test_the_controller_lists_three_brokers(on_cluster: Barnabas) -> None:
    state = json.loads(on_cluster("controller", "--json").out)
    assert sorted(state["brokers"]) == ["0", "1", "2"]
    assert state["counts"]["brokers"] == 3
    assert on_cluster("controller").code == 0


def test_a_topic_has_three_replicas_and_delivers_messages(on_cluster: Barnabas) -> None:
    assert on_cluster("topics", "create", "orders", "--partitions", 3).code == 0
    for partition in partitions(on_cluster, "orders"):
        assert sorted(partition["replicas"]) == [0, 1, 2]
    until(lambda: on_cluster("produce", "orders", "a", "b", "c").code == 0)
    assert sorted(on_cluster("consume", "orders").lines) == ["a", "b", "c"]


def test_a_killed_broker_leaves_the_isr_and_returns_to_it(
    cluster: RunningCluster, on_cluster: Barnabas
) -> None:
    on_cluster("topics", "create", "missed", "--partitions", 3, "--if-not-exists")
    os.kill(cluster.pid("broker-1"), signal.SIGKILL)
    until(lambda: all(1 not in p["isr"] for p in partitions(on_cluster, "missed")))
    assert all(p["leader"] in (0, 2) for p in partitions(on_cluster, "missed"))
    ended = on_cluster("topics", "describe", "missed", "--under-replicated", "--json")
    assert len(json.loads(ended.out)[0]["partitions"]) == 3
    assert on_cluster("produce", "missed", "while one is away").code == 0

    config = cluster.directory / "broker-1" / "server.properties"
    command = [sys.executable, "-m", "barnabas.cli.main", "server", "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as by_hand:
        try:
            until(lambda: all(1 in p["isr"] for p in partitions(on_cluster, "missed")))
            assert on_cluster("elect", "--preferred", "--topic", "missed").code == 0
            until(
                lambda: all(
                    p["leader"] == p["replicas"][0] for p in partitions(on_cluster, "missed")
                )
            )
        finally:
            by_hand.terminate()


def test_replicas_move_as_a_plan_says(on_cluster: Barnabas) -> None:
    assert on_cluster("topics", "create", "moving", "-p", 1, "-r", 1).code == 0
    until(lambda: on_cluster("produce", "moving", "a", "b").code == 0)
    (before,) = partitions(on_cluster, "moving")
    target = next(number for number in (0, 2) if number not in before["replicas"])
    ended = on_cluster(
        "reassign", "run", "-p", f"moving:0={target}", "--throttle", 10_000_000, "--timeout", 60
    )
    assert ended.code == 0, ended.err
    (after,) = partitions(on_cluster, "moving")
    assert (after["replicas"], after["leader"]) == ([target], target)
    assert on_cluster("consume", "moving").lines == ["a", "b"]
    configs = json.loads(on_cluster("configs", "describe", "--topic", "moving", "--json").out)
    assert [c["name"] for c in configs if c["source"] == "dynamic topic"] == []


def test_a_cluster_keeps_its_data_after_all_processes_were_killed(
    tmp_path: Path, offline: Barnabas
) -> None:
    cluster = RunningCluster(tmp_path)
    try:
        cluster.start()
        on = ("-b", cluster.bootstrap)
        assert offline("topics", "create", "kept", *on).code == 0
        # Brokers learn of a topic one after the other.
        until(lambda: offline("produce", "kept", "a", *on).code == 0)
        pids = [int(path.read_text()) for path in sorted(cluster.directory.glob("*.pid"))]
        cluster.stop(signal.SIGKILL)
        for pid in pids:
            end(pid)
        cluster.start()
        # The high watermark is known again when the followers have fetched.
        until(lambda: offline("consume", "kept", "-b", cluster.bootstrap).lines == ["a"])
        assert cluster.stop() == 0
        assert list(cluster.directory.glob("*.pid")) == []
    finally:
        cluster.close()
