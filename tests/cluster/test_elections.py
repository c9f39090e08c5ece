"""Requested elections, preferred and unclean, by request and by znode."""

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.znodes import layout, paths
from tests.cluster.conftest import BROKERS, revive
from tests.cluster.operations import PREFERRED, UNCLEAN, create, elect, partitions
from tests.support.agreement import znodes
from tests.support.clients import Message
from tests.support.cluster import Cluster, until
from tests.support.confluent_client import ConfluentClient

pytestmark = pytest.mark.timeout(300)


def leaders(cluster: Cluster, topic: str) -> list[int]:
    found = partitions(cluster, topic)
    return [found[index].leader_id for index in sorted(found)]


def restart(cluster: Cluster, number: int) -> None:
    """Restart a broker, so that it leads nothing."""
    cluster.brokers[number].stop()
    cluster.brokers[number].start()
    cluster.wait_settled()


def test_preferred_leaders_are_elected_by_request_and_by_znode(
    cluster: Cluster, topic: str
) -> None:
    create(cluster, topic, assignment=[[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    cluster.wait_settled()
    every = [TopicPartition(topic, index) for index in range(3)]
    restart(cluster, 0)
    assert leaders(cluster, topic) == [1, 1, 2]
    assert elect(cluster, PREFERRED, [*every, TopicPartition("nowhere", 0)]) == {
        every[0]: ErrorCode.none,
        every[1]: ErrorCode.election_not_needed,
        every[2]: ErrorCode.election_not_needed,
        TopicPartition("nowhere", 0): ErrorCode.unknown_topic_or_partition,
    }
    until(lambda: leaders(cluster, topic) == [0, 1, 2], "the leaders to be home")

    restart(cluster, 1)
    assert leaders(cluster, topic) == [0, 2, 2]
    with znodes(cluster.zookeeper) as client:
        client.create(paths.PREFERRED_REPLICA_ELECTION, layout.encode_partitions(every))
    until(lambda: leaders(cluster, topic) == [0, 1, 2], "the leaders to be home")
    cluster.wait_settled()  # includes that the znode is gone


def test_a_dead_preferred_leader_is_not_elected(cluster: Cluster, topic: str) -> None:
    down = next(n for n in BROKERS if n != cluster.controller())
    create(cluster, topic, assignment=[[down, *(n for n in BROKERS if n != down)]])
    cluster.wait_settled()
    cluster.brokers[down].stop()
    first = TopicPartition(topic, 0)
    assert elect(cluster, PREFERRED, [first]) == {first: ErrorCode.preferred_leader_not_available}
    revive(cluster)


def test_a_replica_outside_the_isr_leads_only_on_request(cluster: Cluster, topic: str) -> None:
    """The last in-sync replica dies: its records are given up only on request."""
    controller = cluster.controller()
    last, behind = (n for n in BROKERS if n != controller)
    create(cluster, topic, assignment=[[last, behind]])
    cluster.wait_settled()
    first = TopicPartition(topic, 0)
    client = ConfluentClient(cluster.bootstrap)
    client.produce(topic, [Message(b"on both")])
    cluster.brokers[behind].kill()
    until(lambda: partitions(cluster, topic)[0].isr_nodes == (last,), "the ISR of one")
    client.produce(topic, [Message(b"on one")])
    cluster.brokers[last].kill()
    until(lambda: leaders(cluster, topic) == [-1], "the partition to have no leader")
    cluster.start([behind])
    assert elect(cluster, PREFERRED, [first]) == {first: ErrorCode.preferred_leader_not_available}
    assert leaders(cluster, topic) == [-1]
    assert partitions(cluster, topic)[0].isr_nodes == (last,)

    assert elect(cluster, UNCLEAN, [first]) == {first: ErrorCode.none}
    until(lambda: leaders(cluster, topic) == [behind], "the one that was behind to lead")
    client.produce(topic, [Message(b"instead")])
    revive(cluster)
    found = client.consume(topic, 2)
    assert [each.message.value for each in found] == [b"on both", b"instead"]
    assert cluster.brokers[last].segments(topic) == cluster.brokers[behind].segments(topic)
