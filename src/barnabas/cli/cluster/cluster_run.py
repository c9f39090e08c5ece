"""Startup and shutdown of a local cluster: ZooKeeper, then the brokers; in reverse on stop."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from barnabas.base.offload import ThreadOffload
from barnabas.cli.cluster.cluster_console import ClusterConsole
from barnabas.cli.cluster.cluster_dir import BrokerFiles, ClusterDir, choose_ports
from barnabas.cli.cluster.cluster_properties import ClusterSettings, check_overrides
from barnabas.cli.cluster.cluster_security import ClusterSecurity
from barnabas.cli.cluster.cluster_supervisor import BrokerDied, Supervisor
from barnabas.cli.cluster.cluster_zookeeper import ClusterZooKeeper, check_zookeeper_installed
from barnabas.cli.exit_codes import FAILED, OK, SIGNALLED, CommandFailed, Misused
from barnabas.cli.extras import check_console_installed
from barnabas.cli.raw_client import RawClient
from barnabas.cli.show import counted, show_table
from barnabas.client.security import PLAINTEXT, SecurityContext

_LOOK_EVERY_S: Final = 0.05


def run_cluster(
    brokers: int,
    base_port: int,
    data: Path,
    zookeeper: str | None,
    overrides: Mapping[str, str],
    *,
    restart: bool,
    secure: bool = False,
    console: str | None = None,
) -> int:
    """Run a cluster until a signal stops it; return the exit code.

    `console` is the address of its web console, if it has one.

    Raises  CommandFailed, no process left running, if it cannot start
    """
    check_overrides(overrides)
    if console is not None:
        check_console_installed()
    if zookeeper is None:
        check_zookeeper_installed(with_tls=secure)
    directory = ClusterDir(data)
    directory.open()
    try:
        if not secure and ClusterSecurity.is_of(directory.path):
            raise Misused(
                f"{directory.path} has a secure cluster: add --secure, or specify another"
                " directory with --data"
            )
        files = directory.brokers(choose_ports(base_port, brokers))
        if left_out := directory.left_out(brokers):
            names = ", ".join(left_out)
            _say(f"not starting brokers {names} of an earlier run in {directory.path}")
        security = ClusterSecurity.prepare(directory.path) if secure else None
        admin = None if security is None else security.client_properties
        own = None if console is None else ClusterConsole(console, directory.path, admin)
        return asyncio.run(
            _run(directory, files, zookeeper, overrides, security, own, restart=restart)
        )
    finally:
        directory.close()


async def _run(
    directory: ClusterDir,
    files: list[BrokerFiles],
    zookeeper: str | None,
    overrides: Mapping[str, str],
    security: ClusterSecurity | None,
    console: ClusterConsole | None,
    *,
    restart: bool,
) -> int:
    with ThreadPoolExecutor(1) as one_thread:
        own = None
        if zookeeper is None:
            own = ClusterZooKeeper(
                directory, ThreadOffload(one_thread), restart=restart, say=_say, security=security
            )
        cluster = _Cluster(Supervisor(files, restart=restart, say=_say), own, security)
        signals = _Signals(cluster.supervisor)
        try:
            began = await signals.interrupting(cluster.start(files, zookeeper, overrides))
            if began and console is not None:
                await console.start(",".join(each.address for each in files))
            if began:
                await signals.first.wait()
        finally:
            if console is not None:
                await console.stop()
            is_clean = await cluster.stop()
        if signals.is_impatient or not began:
            return SIGNALLED + signals.received[0]
        return OK if is_clean else FAILED


class _Signals:
    """SIGTERM and SIGINT: the first starts a controlled shutdown, the second kills."""

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
        """Do the work unless a signal comes first; return whether it is done."""
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
    """The processes of one cluster, started and stopped in order."""

    def __init__(
        self,
        supervisor: Supervisor,
        zookeeper: ClusterZooKeeper | None,
        security: ClusterSecurity | None,
    ) -> None:
        self.supervisor = supervisor
        self._security = security
        self._zookeeper = zookeeper

    async def start(
        self, files: list[BrokerFiles], zookeeper: str | None, overrides: Mapping[str, str]
    ) -> None:
        """Return when every broker knows all others. On failure the caller must call `stop`."""
        if self._zookeeper is not None:
            _say("starting ZooKeeper")
            await self._zookeeper.start()
            zookeeper = self._zookeeper.address
        assert zookeeper is not None
        security = self._security
        is_own = self._zookeeper is not None
        secured = {} if security is None else security.of_brokers()
        if security is not None and is_own:
            secured |= security.of_tree()
        settings = ClusterSettings(len(files), zookeeper, overrides, secured)
        if security is not None:
            await security.store_users(zookeeper, is_own=is_own)
            security.write_clients([each.address for each in files])
        for each in files:
            each.write(settings)
        logs = files[0].cluster / "broker-N" / "broker.log"
        _say(f"starting {counted(len(files), 'broker')} (logs: {logs})")
        await self.supervisor.start()
        await _until_all_are_in(self.supervisor, self._client_security())
        self._show(zookeeper)

    def _client_security(self) -> SecurityContext:
        if self._security is None:
            return PLAINTEXT
        return SecurityContext.of(self._security.of_clients())

    async def stop(self) -> bool:
        """Stop all brokers, then ZooKeeper; return whether no broker had to be killed."""
        running = [broker for broker in self.supervisor.brokers if broker.pid is not None]
        if running:
            _say(f"stopping {counted(len(running), 'broker')}; press Ctrl-C again to kill")
        is_clean = await self.supervisor.stop()
        for broker in self.supervisor.brokers:
            if broker.files.is_in_use:
                _say(f"broker {broker.files.broker_id} was started by hand; leaving it running")
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
                each.files.directory,
            ]
            for each in brokers
        ]
        if self._zookeeper is not None:
            directory = brokers[0].files.cluster / "zookeeper"
            rows.append(["ZooKeeper", zookeeper, "", self._zookeeper.pid, directory])
        show_table(("", "address", "metrics", "pid", "directory"), rows, sys.stderr)
        where = ",".join(each.files.address for each in brokers)
        if self._security is not None:
            _say(f"to get in as admin: --command-config {self._security.client_properties}")
            _say(f"with librdkafka or kcat: {self._security.client_librdkafka}")
        _say(f"to use all brokers by default: export BARNABAS_BOOTSTRAP={where}")
        print(
            f"ready brokers={len(brokers)} zookeeper={zookeeper} listening on {where}", flush=True
        )


async def _until_all_are_in(supervisor: Supervisor, security: SecurityContext) -> None:
    """Wait until the metadata of each broker lists all brokers and a controller."""
    wanted = {broker.files.broker_id for broker in supervisor.brokers}
    for broker in supervisor.brokers:
        client = RawClient(broker.files.address, security)
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
