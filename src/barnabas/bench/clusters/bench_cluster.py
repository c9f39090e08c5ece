"""Three broker processes with their own ZooKeeper, which can be killed, wiped and restarted."""

import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.bench.server_processes import (
    BROKER,
    PATIENCE_S,
    Server,
    last_words,
    listening_port,
    spawn,
    stop,
    wait_ended,
)
from barnabas.znodes import layout, paths
from barnabas.znodes.tree import Coordination
from barnabas.znodes.zookeeper.zookeeper_server import ZooKeeperServer
from barnabas.znodes.zookeeper.zookeeper_tree import connect

BROKERS: Final = 3
CONNECTED_WITHIN_MS: Final = 20_000
# Deleted topics must not fill the disk between rounds; and when all brokers stop, controlled
# shutdown finds no other leader and should retry soon.
OVERRIDES: Final = (
    "min.insync.replicas=2",
    "log.segment.delete.delay.ms=0",
    "controlled.shutdown.retry.backoff.ms=200",
)


class ClusterBroker:
    """One broker of a cluster; it keeps its id, port and directory across restarts."""

    def __init__(
        self, broker_id: int, folder: Path, zookeeper: str, session_timeout_ms: int
    ) -> None:
        self.broker_id = BrokerId(broker_id)
        self.data = folder / f"broker-{broker_id}"
        self._log = folder / f"broker-{broker_id}.log"
        self._zookeeper = zookeeper
        self._overrides = (*OVERRIDES, f"zookeeper.session.timeout.ms={session_timeout_ms}")
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def server(self) -> Server:
        assert self._process is not None, "the broker is not running"
        return Server(self._process.pid, self.port, 0.0)

    def launch(self) -> None:
        """Start without waiting; several brokers can start in parallel."""
        command = [str(BROKER), "server", "--node-id", str(self.broker_id)]
        command += ["--listen", f"127.0.0.1:{self.port}", "--data", str(self.data)]
        command += ["--zookeeper", self._zookeeper]
        for override in self._overrides:
            command += ["--override", override]
        self._process = spawn(command, self._log)

    def wait_ready(self, patience_s: float = PATIENCE_S) -> None:
        """Wait until it is ready. Raises ServerFailed with the end of its log."""
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            self.port = listening_port(self._process.stdout, patience_s)
        except Exception as problem:
            problem.add_note(last_words(self._log))
            raise

    def kill(self) -> None:
        """Send SIGKILL and wait for the exit."""
        self._end(lambda process: process.send_signal(signal.SIGKILL))

    def stop(self) -> None:
        self._end(stop)

    def terminate(self) -> None:
        """Send SIGTERM, which starts a controlled shutdown; see `wait_ended`."""
        assert self._process is not None, "the broker is not running"
        self._process.terminate()

    def wait_ended(self, patience_s: float = PATIENCE_S) -> None:
        """Wait for the exit. Raises ServerFailed, no process left, on timeout."""
        self._end(lambda process: wait_ended(process, patience_s))

    def close(self) -> None:
        if self._process is not None:
            self.kill()

    def wipe(self) -> None:
        """Remove all its data, as if the disk had been replaced."""
        shutil.rmtree(self.data)

    def _end(self, tell: "Callable[[subprocess.Popen[bytes]], None]") -> None:
        process, self._process = self._process, None
        assert process is not None, "the broker is not running"
        assert process.stdout is not None
        tell(process)
        process.wait()
        process.stdout.close()


@dataclass(frozen=True, slots=True)
class BenchCluster:
    """Running brokers and their ZooKeeper."""

    members: tuple[ClusterBroker, ...]
    zookeeper: str
    session_timeout_ms: int

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{member.port}" for member in self.members)

    def stop_together(self, patience_s: float = PATIENCE_S) -> None:
        """Send SIGTERM to all brokers and wait for their exit."""
        for member in self.members:
            member.terminate()
        for member in self.members:
            member.wait_ended(patience_s)

    @asynccontextmanager
    async def tree(self) -> AsyncIterator[Coordination]:
        """A session with the cluster's ZooKeeper."""
        session = await connect(
            self.zookeeper,
            session_timeout_ms=CONNECTED_WITHIN_MS,
            connection_timeout_ms=CONNECTED_WITHIN_MS,
        )
        try:
            yield session
        finally:
            await session.close()


@contextmanager
def cluster(folder: Path, session_timeout_ms: int) -> Iterator[BenchCluster]:
    """Three brokers with min.insync.replicas=2, stopped after the block.

    Raises ConfigError without Java or the jars of PySpark, ServerFailed if a broker does not start.
    """
    zookeeper = ZooKeeperServer(folder / "zookeeper")
    zookeeper.start()
    address = f"{zookeeper.address}/bench"
    members = [ClusterBroker(n, folder, address, session_timeout_ms) for n in range(BROKERS)]
    try:
        for member in members:
            member.launch()
        for member in members:
            member.wait_ready()
        yield BenchCluster(tuple(members), address, session_timeout_ms)
    finally:
        for member in members:
            member.close()
        zookeeper.stop()


async def state_of(tree: Coordination, partition: TopicPartition) -> layout.LeaderAndIsr:
    data, _ = await tree.get(paths.partition_state_path(partition))
    return layout.decode_partition_state(partition, data)


async def controller_of(tree: Coordination) -> BrokerId:
    data, _ = await tree.get(paths.CONTROLLER)
    return layout.decode_controller(data).broker_id
