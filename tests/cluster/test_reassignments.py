"""Reassignments: by request and by znode, several at once, cancelled, with dying controllers."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.znodes import layout, paths
from tests.cluster.conftest import BROKERS, revive
from tests.cluster.operations import (
    create,
    grow,
    next_controller,
    partitions,
    reassign,
    reassigning,
    throttle,
)
from tests.support.agreement import children, read_znodes, znodes
from tests.support.clients import Message
from tests.support.cluster import Cluster, until
from tests.support.confluent_client import ConfluentClient

pytestmark = pytest.mark.timeout(300)

RECORDS = 300
RECORD = b"x" * 10_000
# At this rate the records take minutes.
SLOWLY = 20_000
PAIRS = ((0, 1), (1, 2), (2, 0))


def targets(
    topic: str, *replicas: tuple[int, ...] | None
) -> dict[TopicPartition, tuple[int, ...] | None]:
    return {TopicPartition(topic, index): each for index, each in enumerate(replicas)}


def homes(cluster: Cluster, topic: str) -> list[tuple[int, ...]]:
    found = partitions(cluster, topic)
    return [tuple(found[index].replica_nodes) for index in sorted(found)]


def fill(cluster: Cluster, topic: str, partition: int = 0) -> None:
    client = ConfluentClient(cluster.bootstrap)
    client.produce(topic, [Message(RECORD, partition=partition)] * RECORDS)


@contextmanager
def slow_moves(cluster: Cluster, topic: str) -> Iterator[None]:
    """Three partitions of two replicas; the first has so much data that moving it takes long."""
    create(cluster, topic, assignment=PAIRS)
    cluster.wait_settled()
    fill(cluster, topic)
    throttle(cluster, topic, SLOWLY)
    try:
        yield
    finally:
        revive_running(cluster)
        throttle(cluster, topic, None)


def revive_running(cluster: Cluster) -> None:
    cluster.start([n for n, broker in cluster.brokers.items() if not broker.is_running])


def is_moving(cluster: Cluster, topic: str, *indexes: int) -> bool:
    moving = reassigning(cluster)
    return all(TopicPartition(topic, index) in moving for index in indexes)


def test_several_partitions_are_reassigned_by_request_and_by_znode(
    cluster: Cluster, topic: str
) -> None:
    create(cluster, topic, assignment=PAIRS)
    cluster.wait_settled()
    fill(cluster, topic, 1)
    codes = reassign(cluster, targets(topic, (2,), (0, 1, 2), (0, 1)))
    assert codes == [ErrorCode.none] * 3
    cluster.wait_settled()
    assert homes(cluster, topic) == [(2,), (0, 1, 2), (0, 1)]
    assert reassigning(cluster) == {}

    ask_by_node(cluster, targets(topic, (0, 1), (2, 0), (1, 2)))
    until(lambda: homes(cluster, topic) == [(0, 1), (2, 0), (1, 2)], "the moves to end")
    cluster.wait_settled()
    found = ConfluentClient(cluster.bootstrap).consume(topic, RECORDS, partitions=[1])
    assert {each.message.value for each in found} == {RECORD}


def ask_by_node(cluster: Cluster, wanted: dict[TopicPartition, tuple[int, ...] | None]) -> None:
    plan = {each: tuple(map(BrokerId, to)) for each, to in wanted.items() if to is not None}
    with znodes(cluster.zookeeper) as client:
        client.create(paths.REASSIGN_PARTITIONS, layout.encode_reassignment(plan))


def test_invalid_reassignments_are_refused_and_the_others_done(
    cluster: Cluster, topic: str
) -> None:
    create(cluster, topic, assignment=PAIRS)
    cluster.wait_settled()
    codes = reassign(cluster, targets(topic, (7,), (2, 2), (1,), None))
    assert codes == [
        ErrorCode.invalid_replica_assignment,
        ErrorCode.invalid_replica_assignment,
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert reassign(cluster, targets(topic, None)) == [ErrorCode.no_reassignment_in_progress]
    ask_by_node(cluster, targets(topic, (2, 2), (0, 2)))
    until(lambda: homes(cluster, topic)[1:] == [(0, 2), (1,)], "the moves to end")
    cluster.wait_settled()
    assert homes(cluster, topic)[0] == (0, 1)


def test_a_reassignment_by_znode_waits_for_a_dead_broker(cluster: Cluster, topic: str) -> None:
    create(cluster, topic, assignment=PAIRS[:1])
    cluster.wait_settled()
    cluster.brokers[2].kill()
    until(lambda: "2" not in children(cluster.zookeeper, paths.BROKER_IDS), "it to be missed")
    ask_by_node(cluster, targets(topic, (2, 0)))
    until(lambda: is_moving(cluster, topic, 0), "the move to begin")
    cluster.start([2])
    until(lambda: homes(cluster, topic) == [(2, 0)], "the move to end")
    cluster.wait_settled()


def test_a_reassignment_is_listed_and_can_be_cancelled(cluster: Cluster, topic: str) -> None:
    with slow_moves(cluster, topic):
        first = TopicPartition(topic, 0)
        assert reassign(cluster, {first: (2, 1)}) == [ErrorCode.none]
        replicas, adding, removing = reassigning(cluster)[first]
        assert (sorted(replicas), adding, removing) == ([0, 1, 2], [2], [0])
        assert read_znodes(cluster.zookeeper)["moving"] == [str(first)]
        assert reassign(cluster, {first: None}) == [ErrorCode.none]
        until(lambda: reassigning(cluster) == {}, "the end of the move")
        cluster.wait_settled()
        # The order is Kafka's: it keeps that of the target where it can.
        assert homes(cluster, topic) == [(1, 0), *PAIRS[1:]]


def test_a_long_reassignment_is_replaced_while_partitions_are_added_to_its_topic(
    cluster: Cluster, topic: str
) -> None:
    with slow_moves(cluster, topic):
        first = TopicPartition(topic, 0)
        reassign(cluster, {first: (2, 1)})
        assert is_moving(cluster, topic, 0)
        assert grow(cluster, topic, 4) in (ErrorCode.none, ErrorCode.reassignment_in_progress)
        assert reassign(cluster, {first: (1,)}) == [ErrorCode.none]
        until(lambda: homes(cluster, topic)[0] == (1,), "the other move to end")
    cluster.wait_settled()


@pytest.mark.parametrize("ending", ["done", "cancelled"])
def test_a_reassignment_survives_its_controllers(cluster: Cluster, topic: str, ending: str) -> None:
    with slow_moves(cluster, topic):
        reassign(cluster, targets(topic, (2, 1), (1, 0), (2, 1)))
        assert is_moving(cluster, topic, 0)
        for _ in range(2):
            controller = cluster.controller()
            cluster.brokers[controller].kill()
            next_controller(cluster, controller)
            assert is_moving(cluster, topic, 0)
            cluster.start([controller])
        if ending == "cancelled":
            assert reassign(cluster, targets(topic, None)) == [ErrorCode.none]
    cluster.wait_settled()
    assert homes(cluster, topic)[0] == ((2, 1) if ending == "done" else (1, 0))
    assert homes(cluster, topic)[1:] == [(1, 0), (2, 1)]


@pytest.mark.parametrize("seed", range(3))
def test_reassignments_complete_wherever_a_controller_dies(
    cluster: Cluster, topic: str, seed: int
) -> None:
    """The moment is counted in znodes of unfinished reassignments."""
    chance = Random(seed)
    create(cluster, topic, assignment=[PAIRS[index % 3] for index in range(30)])
    cluster.wait_settled()
    wanted = {
        TopicPartition(topic, index): tuple(chance.sample(BROKERS, chance.randint(1, 3)))
        for index in range(30)
    }
    ask_by_node(cluster, dict(wanted))
    left, controller = chance.randint(1, 29), cluster.controller()
    until(lambda: len(read_znodes(cluster.zookeeper)["moving"]) <= left, "the moment to come")
    cluster.brokers[controller].kill()
    print(f"killed {controller} with at most {left} moves under way")
    revive(cluster)
    assert homes(cluster, topic) == list(wanted.values())
