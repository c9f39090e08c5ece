"""Simulated group members against a real cluster: assignments, commits, fencing."""

from collections.abc import Iterator

import pytest

from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.sim.checkers.group_checkers import check_groups
from barnabas.sim.checkers.history import (
    Commit,
    Hold,
    OperationHistory,
    OperationOutcome,
    Own,
    Owned,
)
from barnabas.sim.checkers.violations import ViolationKind
from barnabas.sim.clients.classic_group_member import SimClassicMember
from barnabas.sim.clients.consumer_group_member import SimConsumerMember
from barnabas.sim.clients.group_membership import MustJoin
from barnabas.testing import Cluster
from tests.sim.test_client_connections import bootstrap, new_history, run

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    quick = {"group.initial.rebalance.delay.ms": "50", "group.min.session.timeout.ms": "1000"}
    with Cluster(brokers=1, config=quick) as cluster:
        cluster.create_topic("orders", partitions=2)
        yield cluster


def member(
    cluster: Cluster, history: OperationHistory, group: str, name: str = "member"
) -> SimClassicMember:
    return SimClassicMember(name, group, bootstrap(cluster), Random(1), history)


async def joined(member: SimClassicMember) -> Owned:
    """The member's assignment, once it has joined."""
    while True:
        try:
            return await member.join()
        except MustJoin:
            await member.connections.back_off()


def test_a_single_member_owns_all_partitions_and_fetches_its_commits(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        history = new_history()
        alone = member(cluster, history, "alone")
        assert (await joined(alone)).partitions == (ONE, TWO)
        assert "subscription not readable" not in caplog.text
        assert await alone.recall() == {ONE: -1, TWO: -1}
        await alone.commit({TWO: 5})
        await alone.heartbeat()
        assert await alone.recall() == {ONE: -1, TWO: 5}
        await alone.leave()
        assert (await joined(alone)).partitions == (ONE, TWO)
        await alone.leave()
        alone.close()
        assert list(check_groups(history))[1:] == [], "except for reading nothing"

    run(scenario())


def test_a_member_of_an_older_generation_is_fenced_and_must_join(cluster: Cluster) -> None:
    async def scenario() -> None:
        history = new_history()
        first = member(cluster, history, "left", "first")
        second = member(cluster, history, "left", "second")
        before = await joined(first)
        await first.leave()
        assert (await joined(second)).generation > before.generation
        first.owned = before
        with pytest.raises(MustJoin):
            await first.commit({ONE: 3})
        *_, (refused, _) = history.of(Commit)
        assert refused.outcome is OperationOutcome.FAILED
        await second.leave()
        first.close()
        second.close()

    run(scenario())


def test_a_commit_without_an_answer_ends_the_membership(cluster: Cluster) -> None:
    async def scenario() -> None:
        history = new_history()
        alone = member(cluster, history, "unsure")
        await joined(alone)
        cluster.fail_next("offset_commit", "coordinator_not_available")
        with pytest.raises(MustJoin):
            await alone.commit({ONE: 3})
        with pytest.raises(MustJoin, match="not a member"):
            await alone.heartbeat()
        generations = [op.got.generation for op, _ in history.of(Own) if isinstance(op.got, Owned)]
        assert (await joined(alone)).generation > max(generations)
        *_, (unsure, _) = history.of(Commit)
        assert unsure.outcome is OperationOutcome.UNKNOWN
        await alone.leave()
        alone.close()

    run(scenario())


def newer(cluster: Cluster, history: OperationHistory, group: str, name: str) -> SimConsumerMember:
    return SimConsumerMember(name, group, bootstrap(cluster), Random(1), history)


async def settled(members: list[SimConsumerMember], count: int) -> None:
    """Send heartbeats until each member owns this many partitions."""
    while any(each.owned is None or len(each.owned.partitions) != count for each in members):
        for each in members:
            await each.heartbeat()


def test_consumer_group_members_share_the_partitions(
    cluster: Cluster,
) -> None:
    async def scenario() -> None:
        history = new_history()
        first = newer(cluster, history, "shared", "first")
        second = newer(cluster, history, "shared", "second")
        while True:
            try:
                await first.join()
                break
            except MustJoin:
                await first.connections.back_off()
        await settled([first], 2)
        await first.commit({ONE: 4, TWO: 5})
        await second.join()
        await settled([first, second], 1)
        assert second.owned is not None
        (at,) = second.owned.partitions
        assert await second.recall() == {at: 4 if at == ONE else 5}
        await first.leave()
        await settled([second], 2)
        await second.leave()
        first.close()
        second.close()
        assert {each.kind for each in check_groups(history)} == {ViolationKind.GROUP_SKIPPED}
        assert len({hold.member for _, hold in history.of(Hold)}) == 2

    run(scenario())


def test_a_fenced_member_rejoins_with_a_new_id(cluster: Cluster) -> None:
    async def scenario() -> None:
        history = new_history()
        alone = newer(cluster, history, "fenced", "alone")
        before = await alone.join()
        cluster.fail_next("consumer_group_heartbeat", "coordinator_not_available")
        await alone.heartbeat()
        assert alone.owned == before, "without an answer it may still be a member"
        cluster.fail_next("consumer_group_heartbeat", "fenced_member_epoch")
        with pytest.raises(MustJoin):
            await alone.heartbeat()
        assert (await alone.join()).member != before.member
        await alone.leave()
        alone.close()

    run(scenario())
