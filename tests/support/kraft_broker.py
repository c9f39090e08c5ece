"""A real Kafka 4 broker, which is its own controller: Kafka 4 has no ZooKeeper."""

import contextlib
import shutil
import signal
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from barnabas.base.ports import free_port
from barnabas.bench.compare.maven import Artifact, Unavailable, fetched
from tests.support.apache_kafka import ApacheKafka
from tests.support.kafka_broker import JavaProcess

VERSION: Final = "4.1.0"
_ARTIFACTS: Final = (
    Artifact("org.apache.kafka", "kafka_2.13", VERSION),
    Artifact("org.slf4j", "slf4j-simple", "1.7.36"),
)
_CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
_PROPERTIES: Final = {
    "node.id": "0",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "auto.create.topics.enable": "false",
}


@cache
def _found() -> ApacheKafka | str:
    java = shutil.which("java")
    if java is None:
        return "java not found"
    try:
        return ApacheKafka(java, fetched(f"kafka-{VERSION}", _ARTIFACTS))
    except Unavailable as reason:
        return str(reason)


def kraft_kafka() -> ApacheKafka:
    """Skip the test if it is not available; download it once at most."""
    found = _found()
    if isinstance(found, str):
        pytest.skip(f"no Apache Kafka {VERSION}: {found}")
    return found


class KraftBroker(JavaProcess):
    """One broker and controller on free ports of 127.0.0.1."""

    def __init__(self, kafka: ApacheKafka, folder: Path, properties: Mapping[str, str]) -> None:
        super().__init__(kafka, folder, "kafka")
        self.bootstrap, controller = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self._properties = {
            **_PROPERTIES,
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "controller.quorum.voters": f"0@{controller}",
            "log.dirs": str(folder / "data"),
            **properties,
        }

    def start(self) -> None:
        path = self.folder / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self._properties.items()))
        self.kafka.run("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", path)
        self.launch(lambda printed: "Kafka Server started" in printed, "kafka.Kafka", path)


@contextlib.contextmanager
def running_kraft(broker: KraftBroker) -> Iterator[KraftBroker]:
    """Kill the process at the end."""
    try:
        broker.start()
        yield broker
    finally:
        broker.end(signal.SIGKILL)
