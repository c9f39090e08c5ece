"""A ZooKeeper ensemble with deploy/zoo.cfg: brokers go on without one server of three."""

import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException, Producer

from barnabas.base.errors import ConfigError
from barnabas.base.ports import free_port
from barnabas.znodes.zookeeper import zookeeper_server
from tests.support.cluster import Cluster
from tests.support.confluent_client import admin
from tests.support.documents import document
from tests.support.waiting import until
from tests.support.zookeeper import DIES_WITH_US

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(600)]

ZOO_CFG: Final = document("deploy/zoo.cfg")
NUMBERS: Final = (1, 2, 3)
MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
HOST: Final = "127.0.0.1"


class Ensemble:
    """Three servers, each with deploy/zoo.cfg for its own ports and directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._java = zookeeper_server.java_command(with_tls=True)
        self._ports = {number: free_port() for number in NUMBERS}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        peers = {n: f"{HOST}:{free_port()}:{free_port()}" for n in NUMBERS}
        self._config = re.sub(r"zk-(\d)\S+", lambda found: peers[int(found[1])], ZOO_CFG)

    @property
    def address(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self._ports.values()) + "/kafka"

    def start(self, number: int) -> None:
        folder = self._folder / f"zookeeper-{number}"
        (folder / "data").mkdir(parents=True, exist_ok=True)
        (folder / "data" / "myid").write_text(f"{number}\n")
        config = self._config.replace("/var/lib/zookeeper", str(folder))
        config = config.replace("clientPort=2181", f"clientPort={self._ports[number]}")
        (folder / "zoo.cfg").write_text(config)
        with (folder / "output").open("ab") as output:
            self._processes[number] = subprocess.Popen(
                [*DIES_WITH_US, *self._java, MAIN_CLASS, str(folder / "zoo.cfg")],
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def kill(self, number: int) -> None:
        process = self._processes.pop(number)
        process.kill()
        process.wait()

    @property
    def running(self) -> set[int]:
        return set(self._processes)

    def close(self) -> None:
        for number in self.running:
            self.kill(number)

    def outputs(self) -> str:
        return "\n".join(path.read_text()[-3000:] for path in self._folder.glob("*/output"))

    def modes(self) -> dict[int, str]:
        """`leader` or `follower` of those that serve."""
        found = {number: self._mode(self._ports[number]) for number in self._processes}
        return {number: mode for number, mode in found.items() if mode}

    def _mode(self, port: int) -> str | None:
        try:
            with socket.create_connection((HOST, port), timeout=1) as connection:
                connection.sendall(b"srvr")
                with connection.makefile("rb") as answer:
                    mode = re.search(rb"Mode: (\w+)", answer.read())
        except OSError:
            return None
        return mode[1].decode() if mode else None


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[Ensemble]:
    try:
        made = Ensemble(tmp_path)
    except ConfigError as missing:
        pytest.skip(str(missing))
    try:
        for number in NUMBERS:
            made.start(number)
        until(lambda: len(made.modes()) == len(NUMBERS), "an ensemble", 60)
        yield made
    finally:
        made.close()
        print(made.outputs())  # for a test that failed


def created(cluster: Cluster, topic: str) -> bool:
    client: Any = admin.AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    try:
        client.create_topics([admin.NewTopic(topic, 3, 3)], request_timeout=10)[topic].result(15)
    except KafkaException:
        return topic in client.list_topics(timeout=10).topics
    return True


def test_brokers_go_on_without_one_server_of_three_and_recover_from_the_loss_of_two(
    ensemble: Ensemble, tmp_path: Path
) -> None:
    with Cluster(tmp_path, ensemble.address) as cluster:
        until(lambda: created(cluster, "before"), "a topic")
        (leader,) = (number for number, mode in ensemble.modes().items() if mode == "leader")
        ensemble.kill(leader)
        until(lambda: created(cluster, "without-one"), "a topic without one server", 60)

        ensemble.kill(min(ensemble.modes()))
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        producer.produce("before", b"without a majority")
        assert producer.flush(30) == 0

        for number in set(NUMBERS) - ensemble.running:
            ensemble.start(number)
        until(lambda: created(cluster, "after"), "a topic after the recovery", 90)
        producer.produce("after", b"served again")
        assert producer.flush(30) == 0
