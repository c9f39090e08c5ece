"""Topics on three brokers: created, grown, deleted, and known to a broker that joins later."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.cluster.operations import (
    PATIENCE,
    create,
    delete,
    grow,
    new_topic,
    partitions,
)
from tests.support.asking import ask
from tests.support.clients import Message
from tests.support.cluster import Cluster, until
from tests.support.confluent_client import ConfluentAdmin, ConfluentClient

pytestmark = pytest.mark.timeout(180)


def test_topics_are_created_grown_and_deleted_and_all_agree(cluster: Cluster, topic: str) -> None:
    assert create(cluster, topic, 6) is ErrorCode.none
    cluster.wait_settled()
    made = partitions(cluster, topic)
    assert sorted(made) == list(range(6))
    assert all(sorted(each.replica_nodes) == [0, 1, 2] for each in made.values())
    # Leaders are spread: each broker is the first replica of two partitions, and leads them.
    assert sorted(each.leader_id for each in made.values()) == [0, 0, 1, 1, 2, 2]

    assert create(cluster, topic) is ErrorCode.topic_already_exists
    assert grow(cluster, topic, 9) is ErrorCode.none
    cluster.wait_settled()
    assert sorted(partitions(cluster, topic)) == list(range(9))

    assert delete(cluster, topic) is ErrorCode.none
    cluster.wait_settled()
    assert partitions(cluster, topic) == {}
    assert delete(cluster, topic) is ErrorCode.unknown_topic_or_partition

    assert create(cluster, topic, 1, 2) is ErrorCode.none
    cluster.wait_settled()
    assert len(partitions(cluster, topic)[0].replica_nodes) == 2


def test_only_the_controller_creates_topics_and_real_clients_find_it(
    cluster: Cluster, topic: str
) -> None:
    other = next(n for n in cluster.running if n != cluster.controller())
    port = cluster.brokers[other].port
    answer = ask(port, ApiKey.CREATE_TOPICS, topics=(new_topic(topic, 1, 3),), timeout=PATIENCE)
    assert answer.topics[0].error_code is ErrorCode.not_controller

    # Clients that know only that broker find the controller through its metadata.
    bootstrap = cluster.brokers[other].bootstrap
    ConfluentAdmin(bootstrap).create_topic(topic, 2)
    cluster.wait_settled()
    client = ConfluentClient(bootstrap)
    assert client.produce(topic, [Message(b"a", partition=1)]) == [0]


def test_more_replicas_than_brokers_are_refused_and_nothing_is_left(
    cluster: Cluster, topic: str
) -> None:
    assert create(cluster, topic, 1, 4) is ErrorCode.invalid_replication_factor
    assert create(cluster, topic, assignment=[[0, 7]]) is ErrorCode.invalid_replica_assignment
    cluster.wait_settled()
    assert partitions(cluster, topic) == {}


def test_without_enough_in_sync_replicas_acks_all_is_refused_until_one_returns(
    cluster: Cluster, topic: str
) -> None:
    create(cluster, topic, assignment=[[0, 1, 2]], configs={"min.insync.replicas": "2"})
    cluster.wait_settled()
    cluster.brokers[1].kill()
    cluster.brokers[2].kill()
    until(lambda: partitions(cluster, topic)[0].isr_nodes == (0,), "the ISR of one")
    assert cluster.leader(topic) == 0
    assert produce_once(cluster, topic, "1") is None
    assert produce_once(cluster, topic, "all") == "NOT_ENOUGH_REPLICAS"
    cluster.start([1])
    until(lambda: len(partitions(cluster, topic)[0].isr_nodes) == 2, "the ISR of two")
    assert produce_once(cluster, topic, "all") is None


def produce_once(cluster: Cluster, topic: str, acks: str) -> str | None:
    """The error of a producer without retries."""
    told: list[str | None] = []

    def report(error: Any, _: Any) -> None:
        told.append(None if error is None else error.name())

    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "log_level": 0,
            "acks": acks,
            "retries": 0,
            "enable.idempotence": False,
        }
    )
    producer.produce(topic, b"x", partition=0, on_delivery=report)
    assert producer.flush(30) == 0
    return told[0]


def test_a_broker_that_joins_late_knows_everything_and_gets_its_share(
    fresh_cluster: Callable[..., Cluster], topic: str
) -> None:
    cluster = fresh_cluster("broker.rack=a", brokers=2)
    cluster.start()
    create(cluster, topic, 4, 2)
    cluster.wait_settled()
    cluster.add(7, ["broker.rack=b"]).start()
    cluster.wait_settled()
    assert len(partitions(cluster, topic)) == 4

    # One replica of each partition in every rack.
    create(cluster, f"{topic}-racks", 6, 2)
    cluster.wait_settled()
    for each in partitions(cluster, f"{topic}-racks").values():
        assert 7 in each.replica_nodes
    assert grow(cluster, topic, 6) is ErrorCode.none
    cluster.wait_settled()
    assert all(7 in partitions(cluster, topic)[index].replica_nodes for index in (4, 5))
