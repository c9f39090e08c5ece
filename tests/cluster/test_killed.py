"""Killed brokers, one or all: the others continue, and the killed ones rejoin."""

from datetime import timedelta
from random import Random
from typing import Final

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.znodes import paths
from barnabas.znodes.zookeeper.session_file import SESSION_FILE
from tests.cluster.conftest import BROKERS, revive
from tests.cluster.operations import create, delete, next_controller, partitions
from tests.support.agreement import children, read_znodes
from tests.support.clients import Message
from tests.support.cluster import Cluster, until
from tests.support.confluent_client import ConfluentClient

pytestmark = pytest.mark.timeout(300)

# Longer than a broker takes to start on a busy machine.
LONG_SESSION_MS: Final = 12_000
WAITS: Final = "belongs to another session: waiting for it to expire"


def test_when_the_controller_is_killed_another_takes_over(cluster: Cluster, topic: str) -> None:
    create(cluster, topic, 6)
    cluster.wait_settled()
    before, epoch = cluster.controller(), read_znodes(cluster.zookeeper)["epoch"]
    cluster.brokers[before].kill()
    next_controller(cluster, before)
    cluster.wait_settled()
    assert all(each.leader_id != before for each in partitions(cluster, topic).values())
    assert read_znodes(cluster.zookeeper)["epoch"] == epoch + 1
    assert create(cluster, f"{topic}-next", 3, 2) is ErrorCode.none
    revive(cluster)
    assert all(len(each.isr_nodes) == 3 for each in partitions(cluster, topic).values())


def test_when_the_next_controller_is_killed_in_its_failover_the_last_takes_over(
    cluster: Cluster, topic: str
) -> None:
    create(cluster, topic, 20)
    cluster.wait_settled()
    first = cluster.controller()
    cluster.brokers[first].kill()
    second = next_controller(cluster, first)
    cluster.brokers[second].kill()
    (last,) = (number for number in BROKERS if number not in (first, second))
    until(
        lambda: all(each.leader_id == last for each in partitions(cluster, topic).values()),
        "the last one to lead all",
    )
    assert cluster.controller() == last
    revive(cluster)


@pytest.mark.parametrize("seed", [1, 2])
def test_all_brokers_are_killed_in_any_order_and_restart_in_any_other(
    cluster: Cluster, topic: str, seed: int
) -> None:
    create(cluster, topic, 6)
    cluster.wait_settled()
    sent = [Message(b"%d" % number) for number in range(20)]
    ConfluentClient(cluster.bootstrap).produce(topic, sent)
    chance = Random(seed)
    killed, back = chance.sample(BROKERS, 3), chance.sample(BROKERS, 3)
    print(f"killed in the order {killed}, started in the order {back}")
    for number in killed:
        cluster.brokers[number].kill()
    cluster.start(back)
    cluster.wait_settled()
    found = ConfluentClient(cluster.bootstrap).consume(topic, 20)
    assert [each.message.value for each in found] == [each.value for each in sent]


@pytest.mark.parametrize("unregisters", [True, False])
def test_a_broker_restarted_right_after_a_kill_ends_its_old_session_or_waits_for_it(
    cluster: Cluster, topic: str, unregisters: bool
) -> None:
    create(cluster, topic, 6)
    cluster.wait_settled()
    broker = cluster.brokers[next(n for n in BROKERS if n != cluster.controller())]
    broker.stop()
    broker.overrides += [
        f"zookeeper.session.timeout.ms={LONG_SESSION_MS}",
        f"barnabas.unregister.enable={str(unregisters).lower()}",
    ]
    try:
        broker.start()
        cluster.wait_settled()
        waits = broker.log().count(WAITS)
        broker.kill()
        broker.start()
        assert broker.log().count(WAITS) == waits + (not unregisters)
        assert (broker.data / SESSION_FILE).exists() is unregisters
    finally:
        del broker.overrides[-2:]
    cluster.wait_settled()
    broker.stop()
    broker.start()
    cluster.wait_settled()


def test_a_deletion_waits_for_a_dead_broker_across_controllers(
    cluster: Cluster, topic: str
) -> None:
    create(cluster, topic, 3)
    cluster.wait_settled()
    controller = cluster.controller()
    down = next(n for n in BROKERS if n != controller)
    cluster.brokers[down].kill()
    until(lambda: down not in read_znodes(cluster.zookeeper)["brokers"], "the death of a broker")
    delete(cluster, topic, timedelta(0))
    cluster.brokers[controller].kill()
    next_controller(cluster, controller)
    assert children(cluster.zookeeper, paths.DELETE_TOPICS) == [topic]
    assert (cluster.brokers[down].data / f"{topic}-0").exists()
    revive(cluster)
    assert children(cluster.zookeeper, paths.DELETE_TOPICS) == []
    assert partitions(cluster, topic) == {}
