"""A real Apache Kafka on our ZooKeeper server: its znodes are byte for byte as ours.

Optional: skipped, with the reason, where Apache Kafka is not available.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.znodes import layout, paths
from barnabas.znodes.paths import ConfigEntity
from barnabas.znodes.tree import Stat
from barnabas.znodes.zookeeper.zookeeper_tree import ZooKeeperSession, connect
from tests.support.apache_kafka import ApacheKafka, apache_kafka
from tests.support.clients import Message
from tests.support.confluent_client import ConfluentAdmin, ConfluentClient
from tests.support.kafka_broker import KafkaBroker, ZooKeeper, running_kafka

pytestmark = pytest.mark.timeout(300)


class Node(NamedTuple):
    data: bytes
    stat: Stat


def again_partition_state(data: bytes, topic: str, partition: str) -> bytes:
    of = TopicPartition(topic, int(partition))
    return layout.encode_partition_state(layout.decode_partition_state(of, data))


def again_producer_id_block(data: bytes) -> bytes:
    block = layout.decode_producer_id_block(data)
    return b"" if block is None else layout.encode_producer_id_block(block)


def again_config(data: bytes, entity: str) -> bytes:
    of = ConfigEntity(entity)
    return layout.encode_config(layout.decode_config(of, data)) if data else data


def again_config_change(data: bytes, name: str) -> bytes:
    change = layout.decode_config_change(f"{paths.CONFIG_CHANGES}/{name}", data)
    return layout.encode_config_change(change)


# By path: decode and encode the value.
AGAIN: Final[dict[str, Callable[..., bytes]]] = {
    r"/cluster/id": lambda data: layout.encode_cluster_id(layout.decode_cluster_id(data)),
    r"/brokers/ids/(\d+)": lambda data, broker_id: layout.encode_broker(
        layout.decode_broker(BrokerId(int(broker_id)), data)
    ),
    r"/controller": lambda data: layout.encode_controller(layout.decode_controller(data)),
    r"/controller_epoch": lambda data: layout.encode_controller_epoch(
        layout.decode_controller_epoch(data)
    ),
    r"/brokers/topics/([^/]+)": lambda data, topic: layout.encode_topic(
        layout.decode_topic(topic, data)
    ),
    r"/brokers/topics/([^/]+)/partitions/(\d+)/state": again_partition_state,
    r"/config/((?:topics|brokers|clients|users|ips)/.+)": again_config,
    r"/config/changes/(.+)": again_config_change,
    r"/latest_producer_id_block": again_producer_id_block,
    r"/feature": lambda data: layout.encode_features(layout.decode_features(data)),
}


@pytest.fixture(scope="module")
def kafka() -> ApacheKafka:
    return apache_kafka()


@pytest.fixture(params=["3.9", pytest.param("2.6", marks=pytest.mark.long)])
def protocol_version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def written(
    kafka: ApacheKafka, tmp_path: Path, zookeeper_chroot: str, protocol_version: str
) -> Iterator[dict[str, Node]]:
    """Every node of a running Kafka with topics, configs, quotas and producer ids."""
    address = ZooKeeper(kafka, tmp_path)  # only for its address: our server runs instead
    address.address = zookeeper_chroot
    properties = {
        "broker.id": "-1",
        "broker.rack": "räck",
        "inter.broker.protocol.version": protocol_version,
    }
    broker = KafkaBroker(address, tmp_path, tmp_path / "data", properties)
    with running_kafka(broker):
        client, admin = ConfluentClient(broker.bootstrap), ConfluentAdmin(broker.bootstrap)
        admin.create_topic("plain", 1)
        admin.create_topic("wide", 7, {"retention.ms": "-1", "cleanup.policy": "compact"})
        admin.add_partitions("plain", 3)
        admin.replace_configs("plain", {"segment.bytes": "2000000"})
        client.produce("plain", [Message(b"value", b"key", (), 1)], idempotent=True)
        configure = ("--bootstrap-server", broker.bootstrap, "--alter", "--add-config")
        quota = (*configure, "producer_byte_rate=1000,consumer_byte_rate=2000", "--entity-type")
        command = "kafka.admin.ConfigCommand"
        kafka.run(command, *quota, "users", "--entity-name", "a b/ü*~", "--entity-type", "clients",
                  "--entity-default")  # fmt: skip
        kafka.run(command, *configure, "background.threads=8", "--entity-type", "brokers",
                  "--entity-default")  # fmt: skip
        yield asyncio.run(all_nodes(zookeeper_chroot))


async def all_nodes(address: str) -> dict[str, Node]:
    session = await connect(address, session_timeout_ms=6000, connection_timeout_ms=10000)
    found = dict[str, Node]()
    await gather_below(session, "/", found)
    await session.close()
    return found


async def gather_below(session: ZooKeeperSession, path: str, found: dict[str, Node]) -> None:
    for name in await session.children(path):
        child = f"{path.rstrip('/')}/{name}"
        found[child] = Node(*await session.get(child))
        await gather_below(session, child, found)


def test_kafkas_znodes_are_byte_for_byte_as_ours(
    written: dict[str, Node], protocol_version: str
) -> None:
    compared, other = list[str](), dict[str, bytes]()
    for path, (data, _) in written.items():
        for pattern, again in AGAIN.items():
            if match := re.fullmatch(pattern, path):
                assert again(data, *match.groups()) == data, path
                compared.append(pattern)
        if (
            path not in paths.PERSISTENT_PATHS
            and data
            and not any(re.fullmatch(pattern, path) for pattern in AGAIN)
        ):
            other[path] = data
    assert sorted(set(compared)) == sorted(AGAIN)
    assert other == {}

    for path in paths.PERSISTENT_PATHS:
        assert path in written
        assert path == paths.PRODUCER_ID_BLOCK or written[path].data == b""
    # A generated id is the version of this node, above the configured ids.
    assert written[paths.BROKER_SEQUENCE_ID].stat.version == 1
    assert written[paths.broker_path(BrokerId(1001))].stat.ephemeral_owner != 0
    quota = "/config/users/a%20b%2F%C3%BC%2A%7E/clients/<default>"
    assert written[quota].data.startswith(b'{"version":1,"config":{')
