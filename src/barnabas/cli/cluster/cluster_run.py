"""The life of a cluster on this machine: ZooKeeper, then the brokers; at the end the reverse."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from barnabas.base.offload import ThreadOffload
from barnabas.cli.cluster.cluster_dir import BrokerFiles, ClusterFolder, choose_ports
from barnabas.cli.cluster.cluster_properties import Choices, check_overrides
from barnabas.cli.cluster.cluster_supervisor import BrokerDied, Supervisor
from barnabas.cli.cluster.cluster_zookeeper import ClusterZooKeeper
from barnabas.cli.exit_codes import FAILED, OK, SIGNALLED, CommandFailed
from barnabas.cli.raw_client import RawClient
from barnabas.cli.show import counted, show_table

_LOOK_EVERY_S: Final = 0.05


def run_cluster(
    brokers: int,
    base_port: int,
    data: Path,
    zookeeper: str | None,
    overrides: Mapping[str, str],
    *,
    restart: bool,
) -> int:
    """Run a cluster until a signal ends it; tells the exit code.

    Raises  CommandFailed, nothing left running, for whatever keeps it from starting
    """
    check_overrides(overrides)
    folder = ClusterFolder(data)
    folder.open()
    try:
        files = folder.brokers(choose_ports(base_port, brokers))
        if left_out := folder.left_out(brokers):
            _say(f"not started: brokers {', '.join(left_out)} of an earlier run in {folder.path}")
        return asyncio.run(_run(folder, files, zookeeper, overrides, restart=restart))
    finally:
        folder.close()


async def _run(
    folder: ClusterFolder,
    files: list[BrokerFiles],
    zookeeper: str | None,
    overrides: Mapping[str, str],
    *,
    restart: bool,
) -> int:
    with ThreadPoolExecutor(1) as one_thread:
        own = None
        if zookeeper is None:
            own = ClusterZooKeeper(folder, ThreadOffload(one_thread), restart=restart, say=_say)
        cluster = _Cluster(Supervisor(files, restart=restart, say=_say), own)
        signals = _Signals(cluster.supervisor)
        try:
            began = await signals.interrupting(cluster.start(files, zookeeper, overrides))
            if began:
                await signals.first.wait()
        finally:
            is_clean = await cluster.stop()
        if signals.is_impatient or not began:
            return SIGNALLED + signals.received[0]
        return OK if is_clean else FAILED


class _Signals:
    """The first asks for a controlled shutdown, which the second cuts short."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.received: list[int] = []
        self.first = asyncio.Event()
        self._supervisor = supervisor
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal, number)

    @property
    def is_impatient(self) -> bool:
        return len(self.received) > 1

    async def interrupting(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do the work, unless a signal comes first; tells whether it is done."""
        task, interrupted = asyncio.create_task(work), asyncio.create_task(self.first.wait())
        try:
            await asyncio.wait({task, interrupted}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task
            return task.done()
        finally:
            for each in (task, interrupted):
                each.cancel()
            await asyncio.gather(task, interrupted, return_exceptions=True)

    def _on_signal(self, number: int) -> None:
        self.received.append(number)
        if self.is_impatient:
            self._supervisor.kill()
        self.first.set()


class _Cluster:
    """The processes of one cluster, and the order in which they begin and end."""

    def __init__(self, supervisor: Supervisor, zookeeper: ClusterZooKeeper | None) -> None:
        self.supervisor = supervisor
        self._zookeeper = zookeeper

    async def start(
        self, files: list[BrokerFiles], zookeeper: str | None, overrides: Mapping[str, str]
    ) -> None:
        """Return when every broker knows all of them; what runs is for `stop` to end."""
        if self._zookeeper is not None:
            _say("starting ZooKeeper")
            await self._zookeeper.start()
            zookeeper = self._zookeeper.address
        assert zookeeper is not None
        choices = Choices(len(files), zookeeper, overrides)
        for each in files:
            each.write(choices)
        logs = files[0].cluster / "broker-N" / "broker.log"
        _say(f"starting {counted(len(files), 'broker')} (logs: {logs})")
        await self.supervisor.start()
        await _until_all_are_in(self.supervisor)
        self._show(zookeeper)

    async def stop(self) -> bool:
        """End all brokers, then ZooKeeper; tells whether none had to be killed."""
        running = [broker for broker in self.supervisor.brokers if broker.pid is not None]
        if running:
            _say(f"stopping {counted(len(running), 'broker')}; Ctrl-C again kills them")
        is_clean = await self.supervisor.stop()
        for broker in self.supervisor.brokers:
            if broker.files.is_in_use:
                _say(f"broker {broker.files.broker_id}, started by hand, is left running")
        if self._zookeeper is not None:
            await self._zookeeper.stop()
        _say("stopped")
        return is_clean

    def _show(self, zookeeper: str) -> None:
        brokers = self.supervisor.brokers
        rows: list[list[object]] = [
            [
                f"broker {each.files.broker_id}",
                each.files.address,
                each.files.metrics_address,
                each.pid,
                each.files.folder,
            ]
            for each in brokers
        ]
        if self._zookeeper is not None:
            folder = brokers[0].files.cluster / "zookeeper"
            rows.append(["ZooKeeper", zookeeper, "", self._zookeeper.pid, folder])
        show_table(("", "address", "metrics", "pid", "folder"), rows, sys.stderr)
        where = ",".join(each.files.address for each in brokers)
        _say(f"so that commands find whichever brokers live: export BARNABAS_BOOTSTRAP={where}")
        print(
            f"ready brokers={len(brokers)} zookeeper={zookeeper} listening on {where}", flush=True
        )


async def _until_all_are_in(supervisor: Supervisor) -> None:
    """Wait until each broker tells clients of all brokers, and of a controller."""
    wanted = {broker.files.broker_id for broker in supervisor.brokers}
    for broker in supervisor.brokers:
        client = RawClient(broker.files.address)
        with contextlib.closing(client):
            while not await _knows_all(client, wanted):
                dead = [
                    str(each.files.broker_id) for each in supervisor.brokers if each.pid is None
                ]
                if dead:
                    raise BrokerDied(f"broker {dead[0]} died before the cluster was ready")
                await asyncio.sleep(_LOOK_EVERY_S)


async def _knows_all(client: RawClient, wanted: set[int]) -> bool:
    try:
        found = await client.metadata()
    except CommandFailed:
        return False
    return found.controller_id >= 0 and wanted <= {broker.node_id for broker in found.brokers}


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
