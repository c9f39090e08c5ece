"""An outage of ZooKeeper: brokers keep serving, and settle when it is back.

In `make chaos` the outage takes a minute, too long for CI.
"""

import time
from collections.abc import Callable
from typing import Final

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.znodes import paths
from barnabas.znodes.zookeeper.zookeeper_server import ZooKeeperServer
from tests.cluster.operations import create, partitions
from tests.support.agreement import children, read_znodes
from tests.support.chaos import IS_LONG
from tests.support.clients import Message
from tests.support.cluster import SESSION_TIMEOUT_MS, Cluster, until
from tests.support.confluent_client import ConfluentClient

pytestmark = pytest.mark.timeout(400)

AWAY_S: Final = 60.0 if IS_LONG else 2 * SESSION_TIMEOUT_MS / 1000


@pytest.mark.parametrize("how", ["paused", "killed"])
def test_brokers_serve_while_zookeeper_is_down_and_settle_when_it_is_back(
    fresh_cluster: Callable[..., Cluster],
    fresh_zookeeper: Callable[[], ZooKeeperServer],
    topic: str,
    how: str,
) -> None:
    server = fresh_zookeeper()
    cluster = fresh_cluster(zookeeper=server.address)
    cluster.start()
    create(cluster, topic, 3, configs={"min.insync.replicas": "2"})
    cluster.wait_settled()
    sent = dict.fromkeys(("1", "all"), 0)

    if how == "paused":
        server.pause()
    else:
        server.kill()
    ends = time.monotonic() + AWAY_S
    try:
        while time.monotonic() < ends:
            for acks in sent:
                serve(cluster, topic, acks)
                sent[acks] += 1
    finally:
        if how == "paused":
            server.resume()
        else:
            server.start()
    print(f"without ZooKeeper for {AWAY_S} s: served {sent}")
    cluster.wait_settled()
    # Refused until the controller has reached ZooKeeper again.
    made = (ErrorCode.none, ErrorCode.topic_already_exists)
    until(lambda: create(cluster, f"{topic}-after", 3) in made, "a topic to be made")
    cluster.wait_settled()
    serve(cluster, topic, "all")
    wanted = 1 + sum(sent.values())
    for index in range(3):
        client = ConfluentClient(cluster.bootstrap)
        assert len(client.consume(topic, wanted, partitions=[index])) == wanted


def serve(cluster: Cluster, topic: str, acks: str) -> None:
    """Send one record to every partition; read the last one."""
    client = ConfluentClient(cluster.bootstrap)
    messages = [Message(acks.encode(), partition=index) for index in range(3)]
    offset = client.produce(topic, messages, acks=acks)[-1]
    (found,) = client.consume(topic, 1, partitions=[2], start=offset)
    assert found.message.value == acks.encode()


def test_when_all_sessions_expire_at_once_the_cluster_recovers(
    cluster: Cluster, topic: str
) -> None:
    """Every broker is paused beyond its session; none could take over meanwhile."""
    create(cluster, topic, 6)
    cluster.wait_settled()
    epoch = read_znodes(cluster.zookeeper)["epoch"]
    ConfluentClient(cluster.bootstrap).produce(topic, [Message(b"%d" % n) for n in range(9)])
    for broker in cluster.brokers.values():
        broker.pause()
    try:
        until(lambda: children(cluster.zookeeper, paths.BROKER_IDS) == [], "all sessions to end")
    finally:
        for broker in cluster.brokers.values():
            broker.resume()
    cluster.wait_settled()
    assert read_znodes(cluster.zookeeper)["epoch"] > epoch
    assert all(len(each.isr_nodes) == 3 for each in partitions(cluster, topic).values())
    found = ConfluentClient(cluster.bootstrap).consume(topic, 9)
    assert [each.message.value for each in found] == [b"%d" % n for n in range(9)]
