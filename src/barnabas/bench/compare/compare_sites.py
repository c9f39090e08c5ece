"""The compared systems: Barnabas and Apache Kafka, started alike, or external clusters.

Of an external cluster only the address is known; cases that need its processes or files are not
measured.
"""

import compileall
import ctypes
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient

from barnabas.base.ports import free_port
from barnabas.bench.clusters.bench_topics import client_settings
from barnabas.bench.compare.kafka_release import AS_SHIPPED, ENDING_WITH_US, ApacheKafka
from barnabas.bench.server_processes import BROKER, ServerFailed
from barnabas.znodes.zookeeper.zookeeper_server import ZooKeeperServer

HOST: Final = "127.0.0.1"
READY_WITHIN_S: Final = 90.0
STOPPED_WITHIN_S: Final = 120.0
NO_PROPERTIES: Final[Mapping[str, str]] = {}
LOOKS_EVERY_S: Final = 0.005
SESSION_TIMEOUT_MS: Final = 6_000
# The default is the session timeout: too short when three brokers start at once on two cores.
CONNECTED_WITHIN_MS: Final = 60_000
_PACKAGE: Final = Path(__file__).parents[2]
_LIBC: Final = ctypes.CDLL(None)
_DEATH_SIGNAL, _SIGKILL = 1, 9


class BrokerProcess:
    """One broker of either system; after `kill`, `crash` or `stop` it is down until `launch`.

    `on_death` is the command that a service manager runs when the process has died.
    """

    def __init__(
        self,
        broker_id: int,
        command: list[str],
        port: int,
        data: Path,
        on_death: Sequence[str] = (),
    ) -> None:
        self._on_death = on_death
        self.broker_id = broker_id
        self.port = port
        self.data = data
        self.log = data.with_suffix(".log")
        self._command = command
        self.launch()

    def launch(self) -> None:
        """Start the process, on the same directory and port as before; its log starts empty."""
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Only the parent gets Ctrl-C; the brokers end at its request, or with it.
                process_group=0,
                preexec_fn=_end_with_us if sys.platform == "linux" else None,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_listening(self) -> None:
        """Wait until it accepts connections. Raises ServerFailed with the end of its log."""
        deadline = time.perf_counter() + READY_WITHIN_S
        while not _listens(self.port):
            if not self.is_running or time.perf_counter() > deadline:
                raise ServerFailed(f"broker {self.broker_id} does not listen: {_why(self.log)}")
            time.sleep(LOOKS_EVERY_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Send SIGTERM and wait for the exit. Raises ServerFailed, no process left, on timeout."""
        self._process.terminate()
        try:
            self._process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerFailed(
                f"broker {self.broker_id} did not stop within {STOPPED_WITHIN_S:g} s of SIGTERM"
            ) from None

    def crash(self) -> None:
        """Kill it, and do what its service manager does then. Raises ServerFailed."""
        self.kill()
        if self._on_death:
            done = subprocess.run(self._on_death, capture_output=True, text=True, check=False)
            if done.returncode:
                raise ServerFailed(f"{' '.join(self._on_death)}: {done.stderr.strip()}")


@dataclass(frozen=True, slots=True)
class Site:
    """A serving cluster; `brokers` is empty for an external one."""

    bootstrap: str
    brokers: tuple[BrokerProcess, ...] = ()
    launched_at: float = 0.0  # of the same clock as time.perf_counter
    # librdkafka's settings, if it needs any
    login: Mapping[str, str] = field(default_factory=dict, hash=False)

    def settings(self, **more: Any) -> dict[str, Any]:
        """The settings of a client."""
        return client_settings(self.bootstrap, **self.login, **more)

    @property
    def replicas(self) -> int:
        return min(3, len(self.brokers)) or 1


Command = Callable[[int, int, Path, Mapping[str, str], str], list[str]]
OnDeath = Callable[[Path], list[str]]


@dataclass(frozen=True, slots=True)
class System:
    """A compared system; `start` yields a cluster of this many brokers in a directory."""

    name: str
    start: Callable[[Path, int], AbstractContextManager[Site]]


def barnabas(
    properties: Mapping[str, str] = NO_PROPERTIES, login: Mapping[str, str] = NO_PROPERTIES
) -> System:
    """Barnabas, started by `barnabas server`; a single broker needs no ZooKeeper. A broker that
    crashes is unregistered by `barnabas unregister`, as systemd's ExecStopPost does.

    Its modules are byte-compiled first, as in an installed package. `properties` are added to
    those of the comparison, and clients need the `login` then.
    """
    compileall.compile_dir(_PACKAGE, quiet=2)

    def command(
        broker_id: int, port: int, data: Path, properties: Mapping[str, str], zookeeper: str
    ) -> list[str]:
        arguments = [str(BROKER), "server", "--node-id", str(broker_id), "--data", str(data)]
        arguments += ["--listen", f"{HOST}:{port}"]
        arguments += ["--zookeeper", zookeeper] if zookeeper else []
        for key, value in properties.items():
            arguments += ["--override", f"{key}={value}"]
        return arguments

    def on_death(data: Path) -> list[str]:
        return [str(BROKER), "unregister", "--data", str(data)]

    return System(
        "Barnabas",
        lambda folder, count: _site(folder, count, command, count > 1, properties, login, on_death),
    )


def apache_kafka(
    release: ApacheKafka,
    properties: Mapping[str, str] = NO_PROPERTIES,
    login: Mapping[str, str] = NO_PROPERTIES,
) -> System:
    """Apache Kafka, with the heap and garbage collector of its start script."""

    def command(
        broker_id: int, port: int, data: Path, properties: Mapping[str, str], zookeeper: str
    ) -> list[str]:
        written = {
            "broker.id": broker_id,
            "listeners": f"PLAINTEXT://{HOST}:{port}",
            "log.dirs": data,
            "zookeeper.connect": zookeeper,
            **properties,
        }
        path = data.with_suffix(".properties")
        path.write_text("".join(f"{key}={value}\n" for key, value in written.items()))
        # Libraries that it unpacks are gone with its directory: a killed process removes nothing.
        options = (*AS_SHIPPED, f"-Djava.io.tmpdir={data.parent}")
        return release.java_command("kafka.Kafka", path, options=options)

    return System(
        "Apache Kafka", lambda folder, count: _site(folder, count, command, True, properties, login)
    )


def elsewhere(bootstrap: str) -> System:
    """An external cluster."""
    return System(bootstrap, lambda folder, count: nullcontext(Site(bootstrap)))


def _properties(brokers: int) -> dict[str, str]:
    replicas = min(3, brokers)
    return {
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(min(2, brokers)),
        "min.insync.replicas": str(min(2, brokers)),
        "group.initial.rebalance.delay.ms": "0",
        "log.segment.delete.delay.ms": "0",
        "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        "zookeeper.connection.timeout.ms": str(CONNECTED_WITHIN_MS),
    }


@contextmanager
def _site(
    folder: Path,
    count: int,
    command: Command,
    needs_zookeeper: bool,
    properties: Mapping[str, str],
    login: Mapping[str, str],
    on_death: OnDeath = lambda data: [],
) -> Iterator[Site]:
    """Brokers with ids from 0 on, until the end of the block; no process is left.

    They are killed: their data is not needed, and the last broker's shutdown takes long in Kafka.
    """
    where = folder / "zookeeper"
    zookeeper = ZooKeeperServer(where, launcher=ENDING_WITH_US) if needs_zookeeper else None
    brokers: list[BrokerProcess] = []
    try:
        if zookeeper is not None:
            zookeeper.start()
        address = f"{zookeeper.address}/bench" if zookeeper is not None else ""
        written = {**_properties(count), **properties}
        launched_at = time.perf_counter()
        for number in range(count):
            port, data = free_port(), folder / f"broker-{number}"
            arguments = command(number, port, data, written, address)
            brokers.append(BrokerProcess(number, arguments, port, data, on_death(data)))
        for broker in brokers:
            broker.wait_listening()
        bootstrap = ",".join(f"{HOST}:{broker.port}" for broker in brokers)
        site = Site(bootstrap, tuple(brokers), launched_at, login)
        _wait_joined(site)
        yield site
    finally:
        for broker in brokers:
            broker.kill()
        if zookeeper is not None:
            zookeeper.kill()


def _wait_joined(site: Site) -> None:
    admin, count = AdminClient(site.settings()), len(site.brokers)
    deadline = time.perf_counter() + READY_WITHIN_S
    while True:
        metadata = admin.list_topics(timeout=READY_WITHIN_S)
        if len(metadata.brokers) == count and metadata.controller_id >= 0:
            return
        if time.perf_counter() > deadline:
            raise ServerFailed(f"{len(metadata.brokers)} of {count} brokers joined")
        time.sleep(LOOKS_EVERY_S)


def _why(log: Path) -> str:
    """The first error in a broker's log, or its last line."""
    lines = log.read_text(errors="replace").splitlines() or ["no output"]
    errors = [line for line in lines if line.startswith(("ERROR", "FATAL", "barnabas:"))]
    return (errors or lines[-1:])[0][:300]


def _end_with_us() -> None:
    _LIBC.prctl(_DEATH_SIGNAL, _SIGKILL)


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1.0).close()
    except OSError:
        return False
    return True
