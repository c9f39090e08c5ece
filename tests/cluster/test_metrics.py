"""The metrics of three brokers while one of them is paused, dies and restarts."""

import re
import urllib.request
from collections.abc import Callable
from http import HTTPStatus

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from barnabas.base.errors import ErrorCode
from tests.cluster.operations import create
from tests.support.cluster import Cluster, until

pytestmark = pytest.mark.timeout(180)

PARTITIONS = 3
# The leader removes a paused follower before its session expires and the controller acts.
SOON_OUT_OF_SYNC = (
    "replica.lag.time.max.ms=600",
    "replica.fetch.wait.max.ms=200",
    "zookeeper.session.timeout.ms=6000",
)


def metric(cluster: Cluster, number: int, name: str) -> float:
    """A broker's current value of a metric, summed over its labels."""
    addresses = re.findall(r"metrics served at (\S+)", cluster.brokers[number].log())
    with urllib.request.urlopen(addresses[-1], timeout=5) as answer:
        assert answer.status == HTTPStatus.OK
        families = list(text_string_to_metric_families(answer.read().decode()))
    samples = [sample for family in families for sample in family.samples]
    found = [sample.value for sample in samples if sample.name == f"barnabas_{name}"]
    assert found, name
    return sum(found)


def told_by(cluster: Cluster, numbers: list[int], name: str) -> float:
    return sum(metric(cluster, number, name) for number in numbers)


def produce_to_all(cluster: Cluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": 1})
    for partition in range(PARTITIONS):
        producer.produce("orders", b"one", partition=partition)
    assert producer.flush(30) == 0


def test_metrics_show_the_loss_and_the_return_of_a_follower(
    fresh_cluster: Callable[..., Cluster],
) -> None:
    cluster = fresh_cluster("barnabas.metrics.listener=127.0.0.1:0", *SOON_OUT_OF_SYNC)
    cluster.start()
    cluster.wait_settled()
    everyone = list(cluster.brokers)
    controller = cluster.controller()
    victim = next(n for n in everyone if n != controller)
    others = [n for n in everyone if n != victim]
    # The others lead everything, so that the victim is only a follower.
    replicas = [[others[n % 2], others[(n + 1) % 2], victim] for n in range(PARTITIONS)]
    assert create(cluster, "orders", assignment=replicas) is ErrorCode.none
    cluster.wait_settled()

    assert told_by(cluster, everyone, "active_controller") == 1
    assert metric(cluster, controller, "controller_brokers") == len(everyone)
    assert told_by(cluster, everyone, "leader_count") == PARTITIONS
    assert [metric(cluster, n, "partition_count") for n in everyone] == [PARTITIONS] * 3
    assert told_by(cluster, everyone, "under_replicated_partitions") == 0
    until(lambda: metric(cluster, victim, "replica_fetches_total") > 0, "fetches of the follower")
    shrinks = told_by(cluster, others, "isr_shrinks_total")

    cluster.brokers[victim].pause()
    produce_to_all(cluster)  # without new records a follower does not lag
    until(
        lambda: told_by(cluster, others, "under_replicated_partitions") == PARTITIONS,
        "the leaders to miss their follower",
    )
    assert told_by(cluster, others, "isr_shrinks_total") > shrinks
    assert told_by(cluster, others, "messages_in_total") == PARTITIONS
    cluster.brokers[victim].resume()
    until(
        lambda: told_by(cluster, others, "under_replicated_partitions") == 0,
        "the follower to be in sync again",
    )
    assert told_by(cluster, others, "isr_expands_total") >= 1

    cluster.brokers[victim].kill()
    until(
        lambda: told_by(cluster, others, "under_replicated_partitions") == PARTITIONS,
        "the leaders to miss the dead",
    )
    until(lambda: metric(cluster, controller, "controller_brokers") == 2, "the controller to know")
    assert metric(cluster, controller, "offline_partitions") == 0
    cluster.start([victim])
    until(
        lambda: told_by(cluster, everyone, "under_replicated_partitions") == 0,
        "the follower to be back",
    )
    assert metric(cluster, controller, "unclean_leader_elections_total") == 0
