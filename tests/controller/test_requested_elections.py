"""Requested elections: performed, or refused with Kafka's error."""

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.decide.requested_elections import decide_elections
from barnabas.controller.decide.steps import (
    MovePartitions,
)
from barnabas.controller.states import PartitionState, Selector
from tests.controller.interpreter import Cluster, Controller, cluster_of, partition_led_by

P = TopicPartition("t", 0)
UNKNOWN = TopicPartition("t", 7)


def one(leader: int, isr: tuple[int, ...], brokers: int = 3) -> Cluster:
    cluster = cluster_of(brokers, t=[(0, 1, 2)])
    cluster.states[P] = partition_led_by(leader, isr)
    return cluster


def code(cluster: Cluster, by: Selector) -> ErrorCode | None:
    found = decide_elections(Controller(cluster).context, [P], by)
    if P in found.answers:
        assert found.steps == ()
        return found.answers[P].code
    assert found.steps == (MovePartitions((P,), PartitionState.ONLINE, by),)
    return None


@pytest.mark.parametrize(
    ("leader", "isr", "expected"),
    [
        (1, (1, 0), None),
        (0, (0, 1), ErrorCode.election_not_needed),
        (1, (1, 2), ErrorCode.preferred_leader_not_available),
    ],
)
def test_the_preferred_leader_is_elected_if_it_can_lead_and_does_not(
    leader: int, isr: tuple[int, ...], expected: ErrorCode | None
) -> None:
    assert code(one(leader, isr), Selector.PREFERRED) is expected


def test_a_preferred_leader_that_is_down_is_not_available() -> None:
    cluster = one(1, (1, 0))
    del cluster.live[BrokerId(0)]
    assert code(cluster, Selector.PREFERRED) is ErrorCode.preferred_leader_not_available


def test_an_unclean_election_is_only_for_partitions_without_a_leader() -> None:
    assert code(one(0, (0,)), Selector.OFFLINE_UNCLEAN) is ErrorCode.election_not_needed
    cluster = one(-1, (0,))
    del cluster.live[BrokerId(0)]
    assert code(cluster, Selector.OFFLINE_UNCLEAN) is None
    cluster.live.clear()
    answer = code(cluster, Selector.OFFLINE_UNCLEAN)
    assert answer is ErrorCode.eligible_leaders_not_available


def test_an_unclean_election_gives_a_leader_back() -> None:
    cluster = one(-1, (0,))
    del cluster.live[BrokerId(0)]
    controller = Controller(cluster)
    controller.perform(decide_elections(controller.context, [P], Selector.OFFLINE_UNCLEAN).steps)
    assert cluster.states[P].state.leader == 1
    assert cluster.isr(P) == (1,)


def test_unknown_and_deleted_partitions_are_refused() -> None:
    context = Controller(one(1, (1, 0))).context
    context.apply_deleting(["t"])
    answers = decide_elections(context, [UNKNOWN, P], Selector.PREFERRED).answers
    assert {each: refusal.code for each, refusal in answers.items()} == {
        UNKNOWN: ErrorCode.unknown_topic_or_partition,
        P: ErrorCode.invalid_topic_exception,
    }


def test_electing_for_all_partitions_omits_those_that_need_no_election() -> None:
    cluster = cluster_of(3, t=[(0, 1), (1, 0), (2, 0)])
    cluster.states[TopicPartition("t", 1)] = partition_led_by(0, (0, 1))
    cluster.states[TopicPartition("t", 2)] = partition_led_by(0, (0,))
    found = decide_elections(Controller(cluster).context, None, Selector.PREFERRED)
    assert found.steps == (
        MovePartitions((TopicPartition("t", 1),), PartitionState.ONLINE, Selector.PREFERRED),
    )
    assert list(found.answers) == [TopicPartition("t", 2)]
