"""The controller killed during long operations: the next one completes them."""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.wire.apis import ApiKey
from barnabas.znodes import paths
from tests.cluster.conftest import BROKERS, revive
from tests.cluster.operations import (
    PATIENCE,
    PREFERRED,
    create,
    delete,
    elect,
    new_topic,
    next_controller,
    partitions,
)
from tests.support.agreement import znodes
from tests.support.asking import ask
from tests.support.cluster import Cluster, until

pytestmark = pytest.mark.timeout(300)

MANY = 60


def test_a_topic_of_many_partitions_is_created_although_the_controller_dies(
    cluster: Cluster, topic: str
) -> None:
    first = cluster.controller()
    port = cluster.brokers[first].port
    with ThreadPoolExecutor() as threads, znodes(cluster.zookeeper) as client:
        asked = threads.submit(
            ask, port, ApiKey.CREATE_TOPICS, topics=(new_topic(topic, MANY, 3),), timeout=PATIENCE
        )
        until(lambda: client.exists(paths.topic_path(topic)) is not None, "the topic's node")
        cluster.brokers[first].kill()
        await_broken(asked)
    next_controller(cluster, first)
    cluster.wait_settled()
    assert len(partitions(cluster, topic)) == MANY
    assert all(each.leader_id >= 0 for each in partitions(cluster, topic).values())
    revive(cluster)


def test_a_deletion_continues_when_the_controller_dies(cluster: Cluster, topic: str) -> None:
    create(cluster, topic, MANY)
    cluster.wait_settled()
    first = cluster.controller()
    with ThreadPoolExecutor() as threads, znodes(cluster.zookeeper) as client:
        asked = threads.submit(partial(delete, cluster, topic))
        marked = paths.delete_topic_path(topic)
        until(lambda: client.exists(marked) is not None or asked.done(), "the mark of the deletion")
        cluster.brokers[first].kill()
        revive(cluster)
        assert asked.result() in (ErrorCode.none, ErrorCode.unknown_topic_or_partition)
    cluster.wait_settled()
    assert partitions(cluster, topic) == {}


def test_preferred_elections_complete_although_the_controller_dies(
    cluster: Cluster, topic: str
) -> None:
    first = cluster.controller()
    home = next(n for n in BROKERS if n != first)
    create(cluster, topic, assignment=[[home, *(n for n in BROKERS if n != home)]] * MANY)
    cluster.wait_settled()
    cluster.brokers[home].stop()
    cluster.brokers[home].start()
    cluster.wait_settled()
    assert all(each.leader_id != home for each in partitions(cluster, topic).values())
    with ThreadPoolExecutor() as threads:
        asked = threads.submit(elect, cluster, PREFERRED)
        until(lambda: home in leaders(cluster, topic) or asked.done(), "the first to go home")
        cluster.brokers[first].kill()
        revive(cluster)
        asked.result()
    every = [TopicPartition(topic, index) for index in range(MANY)]
    codes = elect(cluster, PREFERRED, every)
    fine = (ErrorCode.none, ErrorCode.election_not_needed)
    assert [each for each in every if codes[each] not in fine] == []
    cluster.wait_settled()
    assert leaders(cluster, topic) == {home}


def test_a_controlled_shutdown_completes_although_the_controller_dies(
    cluster: Cluster, topic: str
) -> None:
    create(cluster, topic, MANY)
    cluster.wait_settled()
    first = cluster.controller()
    leaving = next(n for n in BROKERS if n != first)
    (last,) = (n for n in BROKERS if n not in (first, leaving))
    led = led_by(cluster, topic, leaving)
    with ThreadPoolExecutor() as threads:
        stopped = threads.submit(cluster.brokers[leaving].stop)
        until(
            lambda: stopped.done() or led_by(cluster, topic, leaving, first) < led,
            "the first that are handed over",
        )
        cluster.brokers[first].kill()
        stopped.result()
    until(lambda: leaders(cluster, topic) == {last}, "the last one to lead all")
    revive(cluster)


def leaders(cluster: Cluster, topic: str) -> set[int]:
    return {each.leader_id for each in partitions(cluster, topic).values()}


def led_by(cluster: Cluster, topic: str, leader: int, told_by: int | None = None) -> int:
    """How many partitions a broker leads, by another's metadata."""
    metadata = cluster.metadata(leader if told_by is None else told_by)
    (told,) = (each for each in metadata.topics if each.name == topic)
    return sum(each.leader_id == leader for each in told.partitions)


def await_broken(asked: "Future[object]") -> None:
    """The response may be lost with the controller."""
    with suppress(OSError):
        asked.result()
