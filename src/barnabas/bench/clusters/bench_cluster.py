"""Three brokers as processes on a ZooKeeper of their own: killed, emptied and started again."""

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
# What a topic leaves behind must not fill the disk of a bench that deletes it after each round;
# and brokers that all end have nobody to hand over to: they ask again soon.
OVERRIDES: Final = (
    "min.insync.replicas=2",
    "log.segment.delete.delay.ms=0",
    "controlled.shutdown.retry.backoff.ms=200",
)


class Member:
    """One broker of a cluster; it keeps its id, port and folder over restarts."""

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
        assert self._process is not None, "the broker does not run"
        return Server(self._process.pid, self.port, 0.0)

    def launch(self) -> None:
        """Begin to start; several can do that side by side."""
        command = [str(BROKER), "server", "--node-id", str(self.broker_id)]
        command += ["--listen", f"127.0.0.1:{self.port}", "--data", str(self.data)]
        command += ["--zookeeper", self._zookeeper]
        for override in self._overrides:
            command += ["--override", override]
        self._process = spawn(command, self._log)

    def wait_ready(self) -> None:
        """Raises ServerFailed with its last words."""
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            self.port = listening_port(self._process.stdout)
        except Exception as problem:
            problem.add_note(last_words(self._log))
            raise

    def kill(self) -> None:
        """SIGKILL; returns when the process is gone."""
        self._end(lambda process: process.send_signal(signal.SIGKILL))

    def stop(self) -> None:
        self._end(stop)

    def terminate(self) -> None:
        """SIGTERM; it runs on for as long as its controlled shutdown takes, see `wait_ended`."""
        assert self._process is not None, "the broker does not run"
        self._process.terminate()

    def wait_ended(self) -> None:
        """Raises ServerFailed, with no process left, if it does not end in time."""
        self._end(wait_ended)

    def close(self) -> None:
        if self._process is not None:
            self.kill()

    def wipe(self) -> None:
        """Take all its data, as if its disk had been replaced."""
        shutil.rmtree(self.data)

    def _end(self, tell: "Callable[[subprocess.Popen[bytes]], None]") -> None:
        process, self._process = self._process, None
        assert process is not None, "the broker does not run"
        assert process.stdout is not None
        tell(process)
        process.wait()
        process.stdout.close()


@dataclass(frozen=True, slots=True)
class Cluster:
    """Brokers that run, and where they meet."""

    members: tuple[Member, ...]
    zookeeper: str
    session_timeout_ms: int

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{member.port}" for member in self.members)

    def stop_together(self) -> None:
        """SIGTERM to all at once; returns when all have ended."""
        for member in self.members:
            member.terminate()
        for member in self.members:
            member.wait_ended()

    @asynccontextmanager
    async def tree(self) -> AsyncIterator[Coordination]:
        """A session with their ZooKeeper."""
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
def cluster(folder: Path, session_timeout_ms: int) -> Iterator[Cluster]:
    """Three brokers with an acks=all that means two of them; nothing is left running.

    Raises ConfigError without Java or the jars of PySpark, ServerFailed if a broker does not start.
    """
    zookeeper = ZooKeeperServer(folder / "zookeeper")
    zookeeper.start()
    address = f"{zookeeper.address}/bench"
    members = [Member(n, folder, address, session_timeout_ms) for n in range(BROKERS)]
    try:
        for member in members:
            member.launch()
        for member in members:
            member.wait_ready()
        yield Cluster(tuple(members), address, session_timeout_ms)
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
