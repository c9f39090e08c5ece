"""Coordinators in a cluster: answers that wait for replicas, and leaders that change."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from barnabas.testing import Cluster
from barnabas.wire.apis import ApiKey
from tests.server.admin.client import Client
from tests.server.admin.running import until
from tests.server.group_members import (
    NOT_AVAILABLE,
    NOT_COORDINATOR,
    ClassicMember,
    commit,
    committed,
    coordinated,
    fetch_offsets,
    found,
    new_group,
)

ONE_PARTITION = {"offsets.topic.num.partitions": "1"}
OFFSETS = "__consumer_offsets"


@pytest.fixture
def kafka() -> Iterator[Cluster]:
    config = {**ONE_PARTITION, "replica.lag.time.max.ms": "60000"}
    with Cluster(brokers=2, config=config, session_timeout_ms=60_000) as cluster:
        cluster.create_topic("t", partitions=2)
        yield cluster


def connected(kafka: Cluster, broker: int, timeout_s: float = 20) -> Client:
    host, _, port = kafka.address(broker).partition(":")
    return Client(host, int(port), timeout_s)


def coordinator(kafka: Cluster, group: str) -> int:
    with connected(kafka, kafka.running[0]) as client:
        coordinated_somewhere(client, group)
    leader = kafka.leader_of(OFFSETS)
    kafka.wait_for_isr(OFFSETS)
    with connected(kafka, leader) as client:
        coordinated(client, group)
    return leader


def coordinated_somewhere(client: Client, group: str) -> None:
    until(lambda: found(client, group).error_code == 0, "a coordinator")


def test_another_broker_says_that_it_does_not_coordinate(kafka: Cluster) -> None:
    group = new_group()
    leader = coordinator(kafka, group)
    with connected(kafka, 1 - leader) as client, ClassicMember(client, group) as member:
        assert found(client, group).node_id == leader
        assert fetch_offsets(client, group, None).error_code == NOT_COORDINATOR
        assert commit(client, group, {("t", 0): 1}) == {("t", 0): NOT_COORDINATOR}
        assert member.join().error_code == NOT_COORDINATOR
        assert member.heartbeat() == NOT_COORDINATOR
        (deleted,) = client.call(ApiKey.DELETE_GROUPS, groups_names=(group,)).results
        assert deleted.error_code == NOT_COORDINATOR
        assert client.call(ApiKey.LIST_GROUPS).groups == ()


def test_a_commit_is_acknowledged_when_the_follower_has_it(kafka: Cluster) -> None:
    group = new_group()
    leader = coordinator(kafka, group)
    with connected(kafka, leader) as client, connected(kafka, leader, 0.3) as hasty:
        assert commit(client, group, {("t", 0): 1}) == {("t", 0): 0}
        kafka.pause(1 - leader)
        # Neither a commit nor what rests on it is acknowledged while it may still be lost.
        with pytest.raises(TimeoutError):
            commit(hasty, group, {("t", 0): 2})
        with connected(kafka, leader, 0.3) as reader, pytest.raises(TimeoutError):
            committed(reader, group)
        kafka.resume(1 - leader)
        assert committed(client, group) == {("t", 0): 2}


def test_a_commit_that_the_follower_does_not_get_in_time_is_not_acknowledged() -> None:
    config = {
        **ONE_PARTITION,
        "offsets.commit.timeout.ms": "200",
        "replica.lag.time.max.ms": "60000",
    }
    with Cluster(brokers=2, config=config, session_timeout_ms=60_000) as kafka:
        kafka.create_topic("t")
        group = new_group()
        leader = coordinator(kafka, group)
        kafka.pause(1 - leader)
        with connected(kafka, leader) as client:
            assert commit(client, group, {("t", 0): 2}) == {("t", 0): NOT_AVAILABLE}


def test_with_too_few_in_sync_nothing_is_acknowledged() -> None:
    config = {**ONE_PARTITION, "min.insync.replicas": "2"}
    with Cluster(brokers=2, config=config) as kafka:
        kafka.create_topic("t")
        group = new_group()
        leader = coordinator(kafka, group)
        with connected(kafka, leader) as client, ClassicMember(client, group) as member:
            member.enter()
            kafka.kill_unclean(1 - leader, at_once=True)
            kafka.wait_for_isr(OFFSETS, isr={leader})
            assert member.commit("t", 1) == NOT_AVAILABLE
            assert member.heartbeat() in (0, NOT_AVAILABLE)
            kafka.restart(1 - leader)
            kafka.wait_for_isr(OFFSETS)
            until(lambda: member.commit("t", 3) == 0, "enough replicas")
            assert committed(client, group) == {("t", 0): 3}


def test_the_next_coordinator_knows_what_the_last_one_answered() -> None:
    with Cluster(brokers=3, config=ONE_PARTITION) as kafka:
        kafka.create_topic("t")
        group = new_group()
        leader = coordinator(kafka, group)
        with connected(kafka, leader) as client, ClassicMember(client, group) as member:
            member.enter()
            assert member.commit("t", 41) == 0
        kafka.kill_unclean(leader, at_once=True)
        successor = kafka.leader_of(OFFSETS)
        with connected(kafka, successor) as client:
            coordinated(client, group)
            member.client = client
            assert member.heartbeat() == 0
            assert member.commit("t", 42) == 0
            assert committed(client, group) == {("t", 0): 42}


def test_waiting_requests_get_an_error_when_the_coordinator_moves() -> None:
    config = {**ONE_PARTITION, "group.initial.rebalance.delay.ms": "60000"}
    with Cluster(brokers=2, config=config) as kafka:
        group = new_group()
        leader = coordinator(kafka, group)
        with connected(kafka, leader) as client, ClassicMember(client, group) as member:
            member.send_join(3, rebalance_timeout=timedelta(minutes=5))
            with connected(kafka, leader) as other:
                until(
                    lambda: other.call(ApiKey.DESCRIBE_GROUPS, groups=(group,)).groups[0].members,
                    "the member to wait",
                )
            kafka.kill(leader)
            assert member.receive_join().error_code == NOT_COORDINATOR
        with connected(kafka, 1 - leader) as client:
            coordinated(client, group)
            until(lambda: found(client, group).node_id == 1 - leader, "the new coordinator")
