"""A real Kafka broker in ZooKeeper mode and its ZooKeeper, as processes."""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from barnabas.base.ports import free_port
from barnabas.znodes.zookeeper.zookeeper_server import serves_sessions
from tests.support.apache_kafka import ApacheKafka
from tests.support.confluent_client import admin
from tests.support.waiting import suspend

READY_WITHIN_S: Final = 180.0
STOPPED_WITHIN_S: Final = 60.0
SHOWN_LINES: Final = 40

# A single replica of internal topics, small buffers, and no delays.
_PROPERTIES: Final = {
    "broker.id": "0",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.index.size.max.bytes": "10240",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "auto.create.topics.enable": "false",
    "zookeeper.session.timeout.ms": "6000",
}


class JavaProcess:
    """A JVM that serves until it is stopped; its output goes to a file."""

    def __init__(self, kafka: ApacheKafka, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.kafka = kafka
        self.folder = folder
        self.log_path = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def launch(self, is_ready: Callable[[str], bool], class_name: str, *arguments: object) -> None:
        """Return when it is ready, which may show in what it printed in this run."""
        before = len(self.log)
        with self.log_path.open("ab") as output:
            self._process = subprocess.Popen(
                self.kafka.command(class_name, *arguments),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + READY_WITHIN_S
        while not is_ready(self.log[before:]):
            late = time.monotonic() > deadline
            if late or self._process.poll() is not None:
                self.end(signal.SIGKILL)
                tail = "\n".join(self.log.splitlines()[-SHOWN_LINES:])
                raise AssertionError(f"{class_name} is not ready:\n{tail}")
            time.sleep(0.05)

    def pause(self) -> None:
        """Send SIGSTOP."""
        assert self._process is not None, "it does not run"
        suspend(self._process.pid)

    def resume(self) -> None:
        assert self._process is not None, "it does not run"
        self._process.send_signal(signal.SIGCONT)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            try:
                process.wait(STOPPED_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise AssertionError(f"{number.name} did not end it") from None


class ZooKeeper(JavaProcess):
    """One ZooKeeper server on a free port of 127.0.0.1."""

    def __init__(self, kafka: ApacheKafka, folder: Path) -> None:
        super().__init__(kafka, folder, "zookeeper")
        self.address = f"127.0.0.1:{free_port()}"

    def start(self) -> None:
        host, _, port = self.address.partition(":")
        config = self.folder / "zookeeper.cfg"
        config.write_text(
            f"dataDir={self.folder}/data\nclientPort={port}\nclientPortAddress={host}\n"
            "tickTime=500\nadmin.enableServer=false\n"
        )
        self.launch(
            lambda _: serves_sessions(host, int(port)),
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            config,
        )

    def enter(self, *commands: str) -> str:
        """Run commands in ZooKeeper's shell, one a line; return the output."""
        script = "".join(f"{command}\n" for command in commands)
        shell = "org.apache.zookeeper.ZooKeeperMain"
        wait = ("-waitforconnection", "-timeout", "120000", "-server", self.address)
        return self.kafka.run(shell, *wait, stdin=script)


class KafkaBroker(JavaProcess):
    """One broker; it keeps port and data over restarts."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        folder: Path,
        data: Path,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(zookeeper.kafka, folder, "kafka")
        self.data = data
        self.bootstrap = f"127.0.0.1:{free_port()}"
        self._properties = {
            **_PROPERTIES,
            "zookeeper.connect": zookeeper.address,
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(data),
            **(properties or {}),
        }

    def start(self) -> None:
        path = self.folder / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self._properties.items()))
        started = "started (kafka.server.KafkaServer)"
        self.launch(lambda printed: started in printed, "kafka.Kafka", path)
        # A client that connects before the broker has metadata waits long until it retries.
        found = self.data.glob("*-[0-9]*/partition.metadata")
        folders = sum(not path.parent.name.endswith("-delete") for path in found)
        while self._led_partitions() < folders:
            time.sleep(0.05)

    def _led_partitions(self) -> int:
        """How many partitions it leads by its metadata; negative without a controller."""
        client = admin.AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        metadata = client.list_topics(timeout=READY_WITHIN_S)
        if metadata.controller_id < 0:
            return -1
        topics = metadata.topics.values()
        return sum(each.leader >= 0 for topic in topics for each in topic.partitions.values())

    def stop(self) -> None:
        """Send SIGTERM: a controlled shutdown, which leaves clean logs."""
        self.end(signal.SIGTERM)

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def complaints(self) -> list[str]:
        """The warnings and errors that it logged."""
        return [
            line for line in self.log.splitlines() if line.startswith(("WARN", "ERROR", "FATAL"))
        ]


@contextlib.contextmanager
def running_zookeeper(kafka: ApacheKafka, folder: Path) -> Iterator[ZooKeeper]:
    zookeeper = ZooKeeper(kafka, folder)
    try:
        zookeeper.start()
        yield zookeeper
    finally:
        zookeeper.end(signal.SIGKILL)


@contextlib.contextmanager
def running_kafka(broker: KafkaBroker) -> Iterator[KafkaBroker]:
    """Kill the process at the end, if it still runs."""
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
