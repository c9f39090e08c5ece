"""A cluster with a network that can be partitioned between brokers and from ZooKeeper."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from barnabas.base.ports import free_port
from barnabas.wire.records.batch import headers
from barnabas.wire.records.records import read_records
from tests.chaos.network import Network
from tests.support.broker import BrokerProcess
from tests.support.clients import PATIENCE_S
from tests.support.cluster import Cluster, until
from tests.support.confluent_client import admin, only_result

LAG_TIME_MS: Final = 3_000
# Short timeouts, so that tests need not wait long.
SETTINGS: Final = (
    f"replica.lag.time.max.ms={LAG_TIME_MS}",
    "replica.fetch.wait.max.ms=300",
    "replica.fetch.backoff.ms=100",
    "replica.socket.timeout.ms=2000",
    "controller.socket.timeout.ms=3000",
    "controlled.shutdown.retry.backoff.ms=500",
    "replica.high.watermark.checkpoint.interval.ms=500",
    "log.flush.offset.checkpoint.interval.ms=500",
    "offsets.topic.replication.factor=3",
    "auto.create.topics.enable=false",
    "auto.leader.rebalance.enable=false",
    "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector",
)


class CutCluster(Cluster):
    """Each broker has its own rack, and reaches the others through `network`."""

    def __init__(
        self,
        folder: Path,
        zookeeper: str,
        brokers: int = 3,
        overrides: Sequence[str] = (),
        prelude: str = "",
    ) -> None:
        self.network = Network()
        self._prelude = prelude
        super().__init__(folder, zookeeper, brokers, [*SETTINGS, *overrides])

    def _broker(self, number: int, overrides: Sequence[str] = ()) -> BrokerProcess:
        folder = self._folder / f"broker-{number}"
        folder.mkdir(parents=True)
        client, internal = free_port(), free_port()
        way = self.network.open_to_broker(number, internal)
        host, _, chroot = self.zookeeper.partition("/")
        zookeeper = self.network.open_to_zookeeper(number, int(host.rpartition(":")[2]))
        broker = BrokerProcess(
            folder,
            [
                f"listeners=INTERNAL://127.0.0.1:{internal},CLIENT://127.0.0.1:{client}",
                f"advertised.listeners=INTERNAL://127.0.0.1:{way},CLIENT://127.0.0.1:{client}",
                "listener.security.protocol.map=INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT",
                "inter.broker.listener.name=INTERNAL",
                f"broker.rack=rack-{number}",
                *self._overrides,
                *overrides,
            ],
            node_id=number,
            zookeeper=f"127.0.0.1:{zookeeper}/{chroot}",
            prelude=self._prelude,
        )
        broker.port = client
        return broker

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.network.close()

    def heal(self) -> None:
        """Heal the network and resume all brokers."""
        self.network.mend(breaking=True)
        for broker in self.running.values():
            broker.resume()
        gone = [number for number in self.brokers if number not in self.running]
        for number in gone:
            self.brokers[number].close()
        self.start(gone)
        self.wait_complete()

    def wait_complete(self) -> None:
        """Return when every broker knows all brokers."""

        def complete() -> bool:
            views = [self.metadata(number).brokers for number in self.brokers]
            return all(len(brokers) == len(self.brokers) for brokers in views)

        until(complete, "all brokers")

    # -- topics --------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        assignment: Sequence[Sequence[int]],
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic with these replicas; return when all are in sync."""
        topic = admin.NewTopic(
            name,
            len(assignment),
            replica_assignment=[list(replicas) for replicas in assignment],
            config=dict(config or {}),
        )
        client = admin.AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        only_result(client.create_topics([topic], request_timeout=PATIENCE_S))
        self.wait_in_sync(name)

    def partitions(self, topic: str, asked: int | None = None) -> list[Any]:
        """The topic's partitions in the metadata of a running broker, in order."""
        number = next(iter(self.running)) if asked is None else asked
        for each in self.metadata(number).topics:
            if each.name == topic:
                return sorted(each.partitions, key=lambda p: int(p.partition_index))
        return []

    def wait_isr(self, topic: str, isr: list[int], asked: int) -> None:
        """Return when a broker's metadata has this ISR for partition 0."""

        def is_so() -> bool:
            found = self.partitions(topic, asked)
            return bool(found) and sorted(found[0].isr_nodes) == isr

        until(is_so, f"{isr} in sync")

    def wait_in_sync(self, topic: str, within_s: float = 60.0) -> None:
        """Return when every broker's metadata has all replicas of every partition in sync."""

        def in_sync() -> bool:
            views = [self.partitions(topic, number) for number in self.running]
            return all(
                partitions
                and all(sorted(p.isr_nodes) == sorted(p.replica_nodes) for p in partitions)
                for partitions in views
            )

        try:
            until(in_sync, f"all replicas of {topic} in sync", within_s)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.logs()}") from None

    def records(self, number: int, topic: str, partition: int = 0) -> dict[int, bytes]:
        """The records of a partition on a broker's disk, by offset."""
        segments = self.brokers[number].segments(topic, partition)
        return {
            record.offset: record.value or b""
            for position, header in headers(segments)
            for record in read_records(segments[position : position + header.size])
        }

    def wipe(self, number: int) -> None:
        """Delete all data of a stopped broker."""
        shutil.rmtree(self.brokers[number].data)
