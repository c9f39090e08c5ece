"""Leader balancing: preferred elections for imbalanced brokers."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import Assignment, Context
from barnabas.controller.decide.leader_balancing import decide_balance
from barnabas.controller.decide.steps import (
    MovePartitions,
)
from barnabas.controller.states import PartitionState, Selector
from tests.controller.interpreter import Cluster, Controller, cluster_of, partition_led_by


def led_elsewhere(away: int, of: int) -> Cluster:
    """`of` partitions that prefer broker 1, of which broker 2 leads the first `away`."""
    cluster = cluster_of(4, t=[(1, 2)] * of)
    for index in range(away):
        cluster.states[TopicPartition("t", index)] = partition_led_by(2, (1, 2))
    return cluster


def elected(context: Context, percentage: int = 10) -> list[TopicPartition]:
    found: list[TopicPartition] = []
    for step in decide_balance(context, percentage).steps:
        assert isinstance(step, MovePartitions)
        assert (step.to, step.by) == (PartitionState.ONLINE, Selector.PREFERRED)
        found.extend(step.partitions)
    return found


def test_an_imbalanced_broker_gets_its_leaderships_back() -> None:
    controller = Controller(led_elsewhere(2, of=10))
    balance = decide_balance(controller.context, 10)
    away = [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert balance.brokers[BrokerId(1)] == (0.2, away)
    controller.perform(balance.steps)
    assert controller.cluster.states[away[0]].state.leader == 1
    assert decide_balance(controller.context, 10).steps == ()


def test_a_share_equal_to_the_percentage_is_still_balanced() -> None:
    context = Controller(led_elsewhere(1, of=10)).context
    assert elected(context, 10) == []
    assert elected(context, 9) == [TopicPartition("t", 0)]


def test_brokers_that_are_dead_or_out_of_sync_get_no_leaderships_back() -> None:
    cluster = led_elsewhere(3, of=3)
    cluster.write_isr(TopicPartition("t", 0), [BrokerId(2)])
    context = Controller(cluster).context
    assert elected(context) == [TopicPartition("t", 1), TopicPartition("t", 2)]
    context.apply_offline_replicas(BrokerId(1), [TopicPartition("t", 1)])
    assert elected(context) == [TopicPartition("t", 2)]
    context.apply_shutting_down(BrokerId(1))
    assert elected(context) == []
    assert decide_balance(context, 10).brokers[BrokerId(1)].share == 1


@given(st.integers(0, 6), st.integers(0, 6), st.booleans(), st.booleans(), st.integers(0, 100))
def test_nothing_is_elected_during_a_reassignment_nor_for_topics_under_deletion(
    away: int, gone: int, is_moving: bool, is_deleting: bool, percentage: int
) -> None:
    cluster = led_elsewhere(away, of=6)
    other = cluster_of(4, u=[(1, 2)] * 6)
    cluster.topics |= other.topics
    cluster.states |= other.states
    for index in range(gone):
        cluster.states[TopicPartition("u", index)] = partition_led_by(2, (1, 2))
    if is_moving:
        move = Assignment((BrokerId(3), BrokerId(0)), adding=(BrokerId(3),))
        cluster.topics["v"] = {0: move}
    context = Controller(cluster).context
    if is_deleting:
        context.apply_deleting(["u"])
    found = elected(context, percentage)
    if is_moving:
        assert found == []
    if is_deleting:
        assert all(each.topic != "u" for each in found)
        share = decide_balance(context, percentage).brokers[BrokerId(1)].share
        assert share == away / 6
    for each in found:
        assert context.leadership[each].state.leader == 2


def test_a_partition_that_never_had_a_leader_does_not_count_as_imbalance() -> None:
    cluster = cluster_of(4, t=[(1, 2)])
    cluster.states.clear()
    assert decide_balance(Controller(cluster).context, 0).brokers == {BrokerId(1): (0.0, [])}


def test_ten_thousand_partitions_are_each_examined_once() -> None:
    context = Controller(led_elsewhere(5_000, of=10_000)).context
    assert len(elected(context)) == 5_000
