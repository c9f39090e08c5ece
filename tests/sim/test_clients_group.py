"""Members of groups in the simulation: what they are given, commit, recall and write down."""

from collections.abc import Iterator

import pytest

from barnabas.base.ids import TopicPartition
from barnabas.base.randomness import Random
from barnabas.sim.checkers_groups import check_groups
from barnabas.sim.clients_group import Member, MustJoin
from barnabas.sim.history import Commit, History, Outcome, Own, Owned
from barnabas.testing import Cluster
from tests.sim.test_clients import bootstrap, new_history, run

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    quick = {"group.initial.rebalance.delay.ms": "50", "group.min.session.timeout.ms": "1000"}
    with Cluster(brokers=1, config=quick) as cluster:
        cluster.create_topic("orders", partitions=2)
        yield cluster


def member(cluster: Cluster, history: History, group: str, name: str = "member") -> Member:
    return Member(name, group, bootstrap(cluster), Random(1), history)


async def joined(member: Member) -> Owned:
    """What the member owns, as soon as it can join."""
    while True:
        try:
            return await member.join()
        except MustJoin:
            await member.connections.back_off()


def test_a_member_alone_owns_all_and_recalls_what_it_committed(
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
        assert list(check_groups(history))[1:] == [], "but for having read nothing"

    run(scenario())


def test_who_is_left_behind_by_a_generation_is_refused_and_must_join(cluster: Cluster) -> None:
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
        assert refused.outcome is Outcome.FAILED
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
        assert unsure.outcome is Outcome.UNKNOWN
        await alone.leave()
        alone.close()

    run(scenario())
