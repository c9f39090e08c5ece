"""Killed group coordinators: groups lose no records, and no partition has two owners.

All groups of the test have one coordinator; each is in another phase when it is killed.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.cluster.operations import create
from tests.support.asking import ask
from tests.support.background import in_background
from tests.support.cluster import Cluster, until
from tests.support.groups import Group

PARTITIONS = 4
EACH = 60
# The duration of a phase in which the coordinator is killed.
SLOW_S = 5.0
SETTINGS = (
    "offsets.topic.num.partitions=1",
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
    "group.consumer.heartbeat.interval.ms=300",
    "group.consumer.min.heartbeat.interval.ms=100",
)
LONG_SESSION = {"session.timeout.ms": 20_000, "heartbeat.interval.ms": 300}
RANGE = {**LONG_SESSION, "partition.assignment.strategy": "range"}
COOPERATIVE = {**LONG_SESSION, "partition.assignment.strategy": "cooperative-sticky"}
PYTHON = {"session_timeout_ms": 20_000, "heartbeat_interval_ms": 300}
NEW = {"group.protocol": "consumer"}
PHASES = {
    "joining": "PreparingRebalance",
    "syncing": "CompletingRebalance",
    "committing": "Stable",
}


@contextmanager
def produced_meanwhile(cluster: Cluster, topics: list[str]) -> Iterator[None]:
    """Send records continuously, up to EACH in every partition; at the end all are sent."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def produce(stop: threading.Event) -> None:
        for number in range(EACH):
            for topic in topics:
                for partition in range(PARTITIONS):
                    producer.produce(topic, b"%d" % number, partition=partition)
            producer.poll(0)
            stop.wait(0.2)

    with in_background(produce):
        yield
    assert producer.flush(30) == 0


def state_of(cluster: Cluster, broker: int, group: str) -> str:
    answer = ask(
        cluster.brokers[broker].port,
        ApiKey.DESCRIBE_GROUPS,
        groups=(group,),
        include_authorized_operations=False,
    )
    return str(answer.groups[0].group_state)


def phases(cluster: Cluster, coordinator: int) -> dict[str, str]:
    return {group: state_of(cluster, coordinator, group) for group in PHASES}


def committed(cluster: Cluster, group: str, topic: str) -> dict[int, int]:
    settings: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap, "group.id": group}
    consumer = Consumer({**settings, "log_level": 0})
    asked = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    try:
        return {each.partition: each.offset for each in consumer.committed(asked, timeout=30)}
    finally:
        consumer.close()


def test_the_coordinator_is_killed_in_every_phase_of_a_rebalance(
    fresh_cluster: Callable[..., Cluster],
) -> None:
    cluster = fresh_cluster(*SETTINGS)
    cluster.start()
    names = ["joining", "syncing", "committing", "cooperating", "reconciling"]
    for name in names:
        assert create(cluster, name, PARTITIONS) is ErrorCode.none
    with ExitStack() as stack:
        groups = {name: stack.enter_context(Group(cluster.bootstrap, name, name)) for name in names}
        joining, syncing, committing, cooperating, reconciling = groups.values()
        first = {
            joining: joining.join(config=RANGE, slow_revoke_s=SLOW_S),
            syncing: syncing.join("kafka-python", config=PYTHON, slow_assign_s=SLOW_S),
            committing: committing.join(config=RANGE),
            cooperating: cooperating.join(config=COOPERATIVE, slow_revoke_s=SLOW_S),
            reconciling: reconciling.join(config=NEW, slow_revoke_s=SLOW_S),
        }
        for group, member in first.items():
            group.wait_shared(PARTITIONS, [member])
        second_of_committing = committing.join(config=RANGE)
        committing.wait_shared(PARTITIONS, [first[committing], second_of_committing])
        coordinator = cluster.leader("__consumer_offsets")
        with produced_meanwhile(cluster, names):
            committing.wait(committing.acknowledged, "the first commits")
            for group, config in (
                (joining, RANGE),
                (cooperating, COOPERATIVE),
                (reconciling, NEW),
                (syncing, RANGE),
            ):
                group.join(config=config)
            for group in (cooperating, reconciling):
                group.wait(partial(first[group].events_of, "revoked"), "a revocation")
            until(lambda: phases(cluster, coordinator) == PHASES, "all phases at once")
            cluster.brokers[coordinator].kill()
        for name, group in groups.items():
            group.wait_shared(PARTITIONS, group.members)
            group.wait_processed(dict.fromkeys(range(PARTITIONS), EACH))
            acknowledged = group.acknowledged()
            for member in group.members:
                member.stop()
            group.check_nothing_was_owned_twice()
            found = committed(cluster, name, name)
            assert all(found[each] >= end for each, end in acknowledged.items()), name
