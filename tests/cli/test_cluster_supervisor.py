"""The supervisor of broker processes: start, death, restart, stop; no process is left."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from barnabas.cli.cluster import cluster_supervisor
from barnabas.cli.cluster.cluster_dir import BrokerFiles
from barnabas.cli.cluster.cluster_supervisor import BrokerDied, Supervisor

FAKE = Path(__file__).parent / "fake_broker.py"


class Cluster:
    """Fake brokers and the messages of their supervisor."""

    def __init__(self, directory: Path, *behaviour: str, restart: bool = False) -> None:
        self.said: list[str] = []
        self.files = [BrokerFiles(number, 0, directory) for number in range(len(behaviour))]
        for each in self.files:
            each.directory.mkdir()
        self.behaviour = list(behaviour)
        self.supervisor = Supervisor(
            self.files, restart=restart, say=self.said.append, command=self._command
        )

    def _command(self, files: BrokerFiles) -> list[str]:
        return [sys.executable, str(FAKE), self.behaviour[files.broker_id]]

    def pid(self, broker_id: int) -> int:
        return int(self.files[broker_id].pid.read_text())

    @property
    def pid_files(self) -> list[str]:
        return sorted(each.pid.name for each in self.files if each.pid.exists())

    async def await_message(self, words: str) -> str:
        """Wait for the line with these words."""
        async with asyncio.timeout(20):
            while True:
                for line in self.said:
                    if words in line:
                        return line
                await asyncio.sleep(0.01)


async def one_has_started(cluster: Cluster) -> None:
    async with asyncio.timeout(20):
        while True:
            await asyncio.sleep(0)
            if cluster.pid_files:
                return


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def run(cluster: Cluster, scenario: Callable[[], Awaitable[None]]) -> None:
    async def run_and_stop() -> None:
        try:
            await scenario()
        finally:
            cluster.supervisor.kill()
            await cluster.supervisor.stop()

    asyncio.run(run_and_stop())


def test_all_brokers_start_and_stop_and_leave_no_pid_file(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "ready", "ready", "ready")

    async def scenario() -> None:
        await cluster.supervisor.start()
        assert cluster.pid_files == ["broker-0.pid", "broker-1.pid", "broker-2.pid"]
        pids = [cluster.pid(number) for number in range(3)]
        assert all(map(is_alive, pids))
        assert await cluster.supervisor.stop()
        assert not any(map(is_alive, pids))
        assert cluster.pid_files == []

    run(cluster, scenario)


def test_a_broker_that_fails_to_start_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "ready", "dead")

    async def scenario() -> None:
        with pytest.raises(BrokerDied, match="broker 1 failed to start: it exited with code 1"):
            await cluster.supervisor.start()
        assert cluster.said[-1] == "  barnabas: no space left on device"
        await cluster.supervisor.stop()
        assert cluster.pid_files == []

    run(cluster, scenario)


def test_a_broker_that_dies_stays_down_and_the_others_run(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "ready", "ready")

    async def scenario() -> None:
        await cluster.supervisor.start()
        os.kill(cluster.pid(1), signal.SIGKILL)
        line = await cluster.await_message("broker 1 ")
        assert "was killed by SIGKILL; restart it with: barnabas server --config" in line
        assert cluster.pid_files == ["broker-0.pid"]
        assert await cluster.supervisor.stop()

    run(cluster, scenario)


def test_with_restart_a_broker_that_dies_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_supervisor, "_FIRST_BACK_OFF_S", 0.01)
    cluster = Cluster(tmp_path, "ready", "ready", restart=True)

    async def scenario() -> None:
        await cluster.supervisor.start()
        first = cluster.pid(1)
        os.kill(first, signal.SIGKILL)
        await cluster.await_message("is back")
        assert cluster.pid(1) != first
        assert await cluster.supervisor.stop()
        assert cluster.pid_files == []

    run(cluster, scenario)


def test_a_broker_that_does_not_stop_in_time_is_killed(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "ready", "deaf")

    async def scenario() -> None:
        await cluster.supervisor.start()
        pid = cluster.pid(1)
        assert not await cluster.supervisor.stop(within_s=0.2)
        assert not is_alive(pid)
        assert cluster.pid_files == []
        assert any("still waiting for broker 1" in line for line in cluster.said)

    run(cluster, scenario)


def test_a_paused_broker_is_stopped(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "ready")

    async def scenario() -> None:
        await cluster.supervisor.start()
        os.kill(cluster.pid(0), signal.SIGSTOP)
        assert await cluster.supervisor.stop()

    run(cluster, scenario)


def test_a_cancelled_start_leaves_no_process_after_stop(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "ready", "ready")

    async def scenario() -> None:
        start = asyncio.create_task(cluster.supervisor.start())
        await one_has_started(cluster)
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start
        pids = [cluster.pid(int(name[7])) for name in cluster.pid_files]
        await cluster.supervisor.stop()
        assert not any(map(is_alive, pids))
        assert cluster.pid_files == []

    run(cluster, scenario)
