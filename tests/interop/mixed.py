"""A mixed cluster: brokers of Barnabas and one of Apache Kafka on the same ZooKeeper."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Producer
from kazoo.exceptions import NoNodeError

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.support.apache_kafka import ApacheKafka
from tests.support.asking import ask
from tests.support.clients import PATIENCE_S, Message
from tests.support.cluster import Cluster, read_znodes, until
from tests.support.confluent_client import ConfluentAdmin, ConfluentClient, admin, only_result
from tests.support.kafka_broker import KafkaBroker, ZooKeeper

OURS: Final = (0, 1)
THEIRS: Final = 2
# Each broker is the first replica once, so each leads one partition.
EACH_LEADS: Final = ([0, 1, 2], [1, 2, 0], [2, 0, 1])

# A follower leaves the ISR long before its session expires.
LAG_MS: Final = 1_500
SESSION_MS: Final = 4_000
_BOTH: Final = {
    "replica.lag.time.max.ms": str(LAG_MS),
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "auto.leader.rebalance.enable": "false",
    "log.segment.delete.delay.ms": "500",
}

_IDEMPOTENT: Final[dict[str, Any]] = {
    "transactional_id": None,
    "transaction_timeout": timedelta(seconds=60),
    "producer_id": -1,
    "producer_epoch": -1,
}


class State(NamedTuple):
    """A partition in the znodes."""

    replicas: list[int]
    leader: int
    leader_epoch: int
    isr: list[int]


class Mixed:
    """Two brokers of Barnabas and one of Kafka; the first to start is the controller."""

    def __init__(
        self,
        kafka: ApacheKafka,
        folder: Path,
        zookeeper: str,
        their_properties: Mapping[str, str],
        our_overrides: Sequence[str] = (),
    ) -> None:
        self.kafka = kafka
        self.zookeeper = zookeeper
        settings = [*(f"{key}={value}" for key, value in _BOTH.items()), *our_overrides]
        self.ours = Cluster(folder, zookeeper, len(OURS), settings)
        address = ZooKeeper(
            kafka, folder / "theirs"
        )  # only for its address: our server runs instead
        address.address = zookeeper
        self.theirs = KafkaBroker(
            address,
            folder / "theirs",
            folder / "theirs" / "data",
            {**_BOTH, "broker.id": str(THEIRS), **their_properties},
        )

    def close(self) -> None:
        self.ours.close()
        self.theirs.kill()

    # -- places ----------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        return f"{self.ours.bootstrap},{self.theirs.bootstrap}"

    @property
    def folders(self) -> dict[int, Path]:
        """The log directory of each broker."""
        ours = {number: broker.data for number, broker in self.ours.brokers.items()}
        return {**ours, THEIRS: self.theirs.data}

    @property
    def ports(self) -> dict[int, int]:
        """The addresses of the running brokers."""
        ours = {number: broker.port for number, broker in self.ours.running.items()}
        their_port = int(self.theirs.bootstrap.rpartition(":")[2])
        return {**ours, THEIRS: their_port} if self.theirs.is_running else ours

    def partition(self, topic: str, partition: int) -> State:
        return State(*self.znodes()["partitions"][f"{topic}-{partition}"])

    def znodes(self) -> dict[str, Any]:
        """The state in the tree, once it is complete: topics are created and deleted in steps."""
        found: list[dict[str, Any]] = []

        def whole() -> bool:
            with suppress(NoNodeError):
                found.append(read_znodes(self.zookeeper))
            return bool(found)

        until(whole, "a whole tree")
        return found[0]

    def segments(self, broker: int, topic: str, partition: int) -> bytes:
        files = sorted((self.folders[broker] / f"{topic}-{partition}").glob("*.log"))
        return b"".join(file.read_bytes() for file in files)

    # -- operations ------------------------------------------------------------

    def create(
        self, topic: str, assignment: Sequence[list[int]] = EACH_LEADS, **config: str
    ) -> None:
        """Create a topic; return when all brokers know it."""
        new = admin.NewTopic(
            topic,
            num_partitions=len(assignment),
            replica_assignment=list(assignment),
            config={key.replace("_", "."): value for key, value in config.items()},
        )
        client = admin.AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        only_result(client.create_topics([new]))
        self.wait_agreed()

    def new_producer_ids(self) -> dict[int, int]:
        """A producer id of each broker, as soon as it has a block."""
        found: dict[int, int] = {}

        def all_gave() -> bool:
            for number, port in self.ports.items():
                if number not in found:
                    answer = ask(port, ApiKey.INIT_PRODUCER_ID, **_IDEMPOTENT)
                    if answer.error_code is ErrorCode.none:
                        found[number] = answer.producer_id
            return found.keys() == self.ports.keys()

        until(all_gave, "producer ids")
        return found

    def delete(self, topic: str) -> None:
        """Delete a topic; return when no broker has it, except as files to be deleted."""
        ConfluentAdmin(self.bootstrap).delete_topic(topic)

        def gone() -> bool:
            return not any(list(at.glob(f"{topic}-[0-9]")) for at in self.folders.values())

        until(gone, f"{topic} gone")
        self.wait_agreed()

    def produce(self, topic: str, partition: int, *values: str, acks: str = "all") -> list[int]:
        """Send to one partition; with acks=all by an idempotent producer."""
        now_ms = int(time.time() * 1000)
        messages = [Message(value.encode(), None, (), now_ms, partition) for value in values]
        client = ConfluentClient(self.bootstrap)
        return client.produce(topic, messages, acks=acks, idempotent=acks == "all")

    def producer_at(self, broker: int) -> Producer:
        """A producer with acks=1 that has its metadata from this broker."""
        settings = {"bootstrap.servers": f"127.0.0.1:{self.ports[broker]}", "acks": "1"}
        return Producer({**settings, "log_level": 0})

    def read(self, topic: str, partition: int, count: int) -> list[str]:
        """The first values of a partition."""
        client = ConfluentClient(self.bootstrap)
        with client.reading(topic, partitions=(partition,)) as next_message:
            return [(next_message().message.value or b"").decode() for _ in range(count)]

    # -- waiting -------------------------------------------------------------

    def wait_in_sync(self, topic: str, brokers: Sequence[int] = (*OURS, THEIRS)) -> None:
        """Return when exactly these brokers are the ISR of every partition."""

        def in_sync() -> bool:
            found = self.znodes()["partitions"]
            isrs = [state[3] for name, state in found.items() if name.startswith(f"{topic}-")]
            return bool(isrs) and all(isr == sorted(brokers) for isr in isrs)

        until(in_sync, f"{topic} in sync on {brokers}")

    def wait_agreed(self) -> None:
        """Return when every broker's metadata agrees with the znodes, including topic ids."""
        until(lambda: not self.disagreements(), "agreement")

    def disagreements(self) -> list[str]:
        znodes = self.znodes()
        wanted = (znodes["brokers"], znodes["controller"], znodes["partitions"])
        answers = {number: _metadata(port) for number, port in self.ports.items()}
        ids = {str(_ids(answer)) for answer in answers.values()}
        if znodes["brokers"] != sorted(self.ports):
            return [f"brokers {sorted(self.ports)} run, the znodes have {znodes['brokers']}"]
        return [
            f"broker {number} tells {_told(answer)}, the znodes {wanted}"
            for number, answer in answers.items()
            if _told(answer) != wanted
        ] + ([] if len(ids) == 1 else [f"topic ids: {ids}"])

    def wait_same_bytes(self, topic: str, partitions: int = len(EACH_LEADS)) -> None:
        """Return when every partition's files are identical on all its brokers."""

        def same() -> bool:
            return all(
                len({self.segments(broker, topic, each) for broker in self.folders}) == 1
                for each in range(partitions)
            )

        until(same, f"the same bytes of {topic} everywhere", PATIENCE_S)


def _metadata(port: int) -> Any:
    return ask(
        port,
        ApiKey.METADATA,
        topics=None,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )


def _told(metadata: Any) -> tuple[list[int], int, dict[str, Any]]:
    """Brokers, controller and partitions, in the format of `read_znodes`."""
    partitions = {
        f"{topic.name}-{each.partition_index}": (
            list(each.replica_nodes),
            each.leader_id,
            each.leader_epoch,
            sorted(each.isr_nodes),
        )
        for topic in metadata.topics
        for each in topic.partitions
    }
    return sorted(each.node_id for each in metadata.brokers), metadata.controller_id, partitions


def _ids(metadata: Any) -> list[tuple[str, str]]:
    return sorted((topic.name, str(topic.topic_id)) for topic in metadata.topics)
