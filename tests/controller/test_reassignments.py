"""Reassignments: the steps of Kafka's design, completed by any later controller without loss."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import Assignment, Context, PartitionReplica
from barnabas.controller.decide.reassignments import (
    check_cancel,
    check_planned,
    check_target,
    decide_cancel,
    decide_progress,
    decide_resume,
    decide_starts,
    moving_to,
    reassigned,
)
from barnabas.controller.decide.steps import (
    AssumeAssignments,
    DropReassignments,
    MarkEligible,
    MarkIneligible,
    MovePartitions,
    MoveReplicas,
    RaiseLeaderEpochs,
    SendMetadata,
    SetAssignments,
    Steps,
    Then,
)
from barnabas.controller.states import ReplicaState, Selector
from tests.controller.interpreter import Cluster, Controller, Crash, cluster_of

P = TopicPartition("t", 0)


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def decide_start(
    context: Context, partition: TopicPartition, target: tuple[BrokerId, ...]
) -> Steps:
    return decide_starts(context, {partition: target})


def moving(replicas: tuple[int, ...], target: tuple[int, ...], brokers: int = 8) -> Controller:
    """A controller that has started to reassign a partition whose replicas are all in sync."""
    controller = Controller(cluster_of(brokers, t=[replicas]))
    controller.perform(decide_start(controller.context, P, ids(*target)))
    return controller


def progress(controller: Controller) -> None:
    controller.read_states(P)
    controller.perform(decide_progress(controller.context, P))


def finish(cluster: Cluster) -> Controller:
    """Elect a new controller and let it finish all operations."""
    controller = Controller(cluster)
    for _ in range(3):
        controller.perform(decide_resume(controller.context, *controller.context.reassigning()))
        for partition in controller.context.reassigning():
            cluster.catch_up(partition)
            controller.read_states(partition)
    return controller


def holders(cluster: Cluster) -> set[BrokerId]:
    return {replica.broker_id for replica in cluster.logs if replica.topic_partition == P}


def nothing_is_left_over(cluster: Cluster) -> bool:
    """True if exactly the assigned brokers have a log, and no other is in sync."""
    replicas = set(cluster.assignment(P).replicas)
    state = cluster.states[P].state
    return holders(cluster) == replicas >= set(state.isr) and state.leader in replicas


# -- the steps of a reassignment -----------------------------------------------


def test_during_a_reassignment_the_target_replicas_come_first_in_their_order() -> None:
    moved = reassigned(Assignment(ids(1, 2, 3)), ids(4, 5, 6))
    assert moved == Assignment(ids(4, 5, 6, 1, 2, 3), ids(4, 5, 6), ids(1, 2, 3))
    assert reassigned(Assignment(ids(1, 2, 3)), ids(3, 4, 2)) == Assignment(
        ids(3, 4, 2, 1), adding=ids(4), removing=ids(1)
    )


def test_a_reassignment_that_replaces_another_has_the_same_origin() -> None:
    first = reassigned(Assignment(ids(1, 2)), ids(3, 4))
    assert reassigned(first, ids(4, 5)) == Assignment(ids(4, 5, 1, 2), ids(4, 5), ids(1, 2))


def test_a_reassignment_is_written_then_sent_then_started() -> None:
    controller = moving((1, 2), (3, 2))
    wanted = Assignment(ids(3, 2, 1), adding=ids(3), removing=ids(1))
    assert controller.performed == [
        SetAssignments("t", {0: wanted}),
        RaiseLeaderEpochs((P,), ids(3)),
        MoveReplicas((PartitionReplica(P, BrokerId(3)),), ReplicaState.NEW),
    ]
    assert controller.cluster.isr(P) == ids(1, 2)
    assert holders(controller.cluster) == {1, 2, 3}


def test_a_reassignment_does_not_complete_before_all_new_replicas_are_in_sync() -> None:
    controller = moving((1, 2), (3, 4))
    controller.cluster.write_isr(P, ids(1, 2, 3))
    controller.read_states(P)
    assert decide_progress(controller.context, P) == ()


def test_a_reassignment_completes_with_the_znode_written_last() -> None:
    controller = moving((1, 2), (3, 2))
    controller.cluster.write_isr(P, ids(1, 2, 3))
    del controller.performed[:]
    progress(controller)
    leaving = (PartitionReplica(P, BrokerId(1)),)
    done = Assignment(ids(3, 2))
    assert [each for each in controller.performed if not isinstance(each, Then)] == [
        MoveReplicas((PartitionReplica(P, BrokerId(3)),), ReplicaState.ONLINE),
        AssumeAssignments({P: done}),
        MovePartitions((P,), controller.context.state_of(P), Selector.REASSIGNED),
        MoveReplicas(leaving, ReplicaState.OFFLINE),
        MoveReplicas(leaving, ReplicaState.DELETION_STARTED),
        MoveReplicas(leaving, ReplicaState.DELETION_SUCCESSFUL),
        MoveReplicas(leaving, ReplicaState.NON_EXISTENT),
        SetAssignments("t", {0: done}),
        DropReassignments((P,)),
        SendMetadata(None, (P,)),
    ]
    assert controller.cluster.isr(P) == ids(2, 3)
    assert controller.cluster.states[P].state.leader == 3
    assert holders(controller.cluster) == {2, 3}
    assert controller.refused == []


def test_a_leader_among_the_targets_keeps_leading_under_a_new_epoch() -> None:
    controller = moving((1, 2), (1, 3))
    epoch = controller.cluster.states[P].state.leader_epoch
    controller.cluster.write_isr(P, ids(1, 2, 3))
    progress(controller)
    assert RaiseLeaderEpochs((P,)) in controller.performed
    assert controller.cluster.states[P].state.leader == 1
    assert controller.cluster.states[P].state.leader_epoch > epoch + 1


def test_another_order_of_the_same_brokers_completes_at_once() -> None:
    controller = moving((1, 2, 3), (3, 1, 2))
    assert controller.cluster.assignment(P) == Assignment(ids(3, 1, 2))
    assert len([s for s in controller.performed if isinstance(s, SetAssignments)]) == 1
    assert holders(controller.cluster) == {1, 2, 3}


def test_a_removal_of_replicas_completes_at_once() -> None:
    controller = moving((1, 2, 3), (2, 3))
    assert controller.cluster.assignment(P) == Assignment(ids(2, 3))
    assert controller.cluster.isr(P) == ids(2, 3)
    assert holders(controller.cluster) == {2, 3}


def test_a_partition_that_never_had_a_leader_gets_one_among_its_targets() -> None:
    cluster = cluster_of(4, t=[(8, 9)])
    del cluster.states[P]
    cluster.logs.clear()
    controller = Controller(cluster)
    controller.perform(decide_start(controller.context, P, ids(2, 3)))
    assert cluster.states[P].state.leader == 2
    progress(controller)
    assert cluster.assignment(P) == Assignment(ids(2, 3))


# -- replaced and cancelled ----------------------------------------------------


def test_a_new_target_replaces_a_reassignment_in_progress() -> None:
    controller = moving((1, 2), (3, 4))
    controller.cluster.write_isr(P, ids(1, 2, 3))
    controller.read_states(P)
    controller.perform(decide_start(controller.context, P, ids(4, 5)))
    assert controller.cluster.assignment(P) == Assignment(ids(4, 5, 1, 2), ids(4, 5), ids(1, 2))
    assert controller.cluster.isr(P) == ids(1, 2)
    assert holders(controller.cluster) == {1, 2, 4, 5}
    controller.cluster.catch_up(P)
    progress(controller)
    assert controller.cluster.assignment(P) == Assignment(ids(4, 5))
    assert holders(controller.cluster) == {4, 5}


def test_a_reassignment_to_the_origin_is_a_cancellation() -> None:
    controller = moving((1, 2), (3, 4))
    controller.perform(decide_start(controller.context, P, ids(1, 2)))
    assert controller.cluster.assignment(P) == Assignment(ids(1, 2))
    assert holders(controller.cluster) == {1, 2}


def test_cancelling_while_a_new_replica_leads_first_elects_an_original_one() -> None:
    controller = moving((1, 2), (3, 4))
    cluster = controller.cluster
    cluster.write_isr(P, ids(1, 2, 3))
    controller.perform((MovePartitions((P,), controller.context.state_of(P), Selector.PREFERRED),))
    assert cluster.states[P].state.leader == 3
    controller.perform(decide_cancel(controller.context, P))
    assert cluster.states[P].state.leader == 1
    assert cluster.isr(P) == ids(1, 2)
    assert holders(cluster) == {1, 2}


def test_a_cancellation_that_would_lose_records_is_refused_and_changes_nothing() -> None:
    controller = moving((1,), (3,))
    controller.cluster.write_isr(P, ids(3))
    controller.read_states(P)
    refusal = check_cancel(controller.context, P)
    assert refusal is not None
    assert refusal.code is ErrorCode.invalid_replica_assignment
    assert decide_cancel(controller.context, P) == ()
    replaced = check_target(controller.context, P, ids(2))
    assert replaced is not None
    assert "lost" in str(replaced.message)
    assert decide_start(controller.context, P, ids(2)) == ()


def test_without_a_reassignment_there_is_nothing_to_cancel() -> None:
    context = Controller(cluster_of(3, t=[(0, 1)])).context
    refusal = check_cancel(context, P)
    assert refusal is not None
    assert refusal.code is ErrorCode.no_reassignment_in_progress
    unknown = check_cancel(context, TopicPartition("t", 9))
    assert unknown is not None
    assert unknown.code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize(
    ("target", "told"),
    [((), "empty"), ((1, 1), "twice"), ((1, -1), "negative"), ((1, 9), "not alive")],
)
def test_an_invalid_target_is_refused(target: tuple[int, ...], told: str) -> None:
    context = Controller(cluster_of(3, t=[(0, 1)])).context
    refusal = check_target(context, P, ids(*target))
    assert refusal is not None
    assert refusal.code is ErrorCode.invalid_replica_assignment
    assert told in str(refusal.message)
    planned = check_planned(context, P, ids(*target))
    assert planned == (None if told == "not alive" else refusal)


def test_a_target_may_keep_a_dead_broker_but_not_add_one_that_shuts_down() -> None:
    context = Controller(cluster_of(3, t=[(0, 9)])).context
    assert check_target(context, P, ids(1, 9)) is None
    context.apply_shutting_down(BrokerId(1))
    assert check_target(context, P, ids(1, 9)) is not None


def test_unknown_and_deleted_partitions_are_not_reassigned() -> None:
    context = Controller(cluster_of(3, t=[(0, 1)])).context
    for partition in (TopicPartition("t", 1), TopicPartition("u", 0), P):
        context.apply_deleting([P.topic])
        refusal = check_target(context, partition, ids(2))
        assert refusal is not None
        assert refusal.code is ErrorCode.unknown_topic_or_partition


# -- races ---------------------------------------------------------------------


@pytest.mark.parametrize("isr", [(1,), (1, 2), (1, 3), (1, 2, 4)])
def test_old_replicas_stay_if_new_ones_leave_the_isr_at_the_last_moment(
    isr: tuple[int, ...],
) -> None:
    controller = moving((1, 2), (3, 4))
    cluster = controller.cluster
    cluster.write_isr(P, ids(1, 2, 3, 4))
    controller.read_states(P)
    steps = decide_progress(controller.context, P)
    cluster.write_isr(P, ids(*isr))
    controller.perform(steps)
    assert cluster.assignment(P).is_reassigning
    assert controller.context.assignment(P) == cluster.assignment(P)
    assert cluster.isr(P) == ids(*isr)
    assert holders(cluster) == {1, 2, 3, 4}
    cluster.catch_up(P)
    progress(controller)
    assert cluster.assignment(P) == Assignment(ids(3, 4))


def test_a_reassignment_waits_for_a_target_that_shuts_down() -> None:
    controller = moving((1, 2), (3, 4))
    controller.cluster.catch_up(P)
    controller.context.apply_shutting_down(BrokerId(4))
    controller.read_states(P)
    assert decide_progress(controller.context, P) == ()


# -- deletion waits ------------------------------------------------------------


def test_a_deletion_waits_for_all_reassignments_of_its_topic() -> None:
    cluster = cluster_of(6, t=[(1, 2), (1, 2)])
    other = TopicPartition("t", 1)
    Controller(cluster).perform(
        decide_starts(Controller(cluster).context, {P: ids(3), other: ids(4)})
    )
    controller = Controller(cluster)
    controller.context.apply_deleting(["t"])
    controller.perform(decide_resume(controller.context, P, other))
    assert MarkIneligible(("t",), "a partition is being reassigned") in controller.performed
    for partition in (P, other):
        assert "t" in controller.context.ineligible
        cluster.catch_up(partition)
        controller.read_states(partition)
        controller.perform(decide_progress(controller.context, partition))
    assert controller.performed[-1] == MarkEligible(("t",))
    assert not controller.context.ineligible


def test_reassignments_are_found_by_their_target_brokers() -> None:
    context = moving((1, 2), (3, 2)).context
    assert [moving_to(context, ids(b)) for b in (1, 2, 3, 4)] == [[], [P], [P], []]


# -- controllers that crash ----------------------------------------------------

replica_lists = st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True).map(tuple)


@given(replica_lists, replica_lists)
def test_a_reassignment_that_crashed_at_any_step_is_completed_by_the_next_controller(
    replicas: tuple[int, ...], target: tuple[int, ...]
) -> None:
    for crash_after in count():
        cluster = cluster_of(6, t=[replicas])
        controller = Controller(cluster, crash_after)
        try:
            controller.perform(decide_start(controller.context, P, ids(*target)))
            cluster.catch_up(P)
            progress(controller)
        except Crash:
            begun = cluster.assignment(P).is_reassigning
            if begun:
                cluster.catch_up(P)
            assert set(cluster.isr(P)) & holders(cluster)
            controller = finish(cluster)
            # Before the first write it has not started: the client got no response.
            expected = {ids(*target)} if begun else {ids(*target), ids(*replicas)}
            assert cluster.assignment(P).replicas in expected
            ended = cluster.assignment(P)
            assert not ended.is_reassigning
            assert nothing_is_left_over(cluster)
        else:
            assert cluster.assignment(P) == Assignment(ids(*target))
            assert holders(cluster) == set(target) == set(cluster.isr(P))
            assert controller.refused == []
            return


@given(replica_lists, replica_lists, st.sets(st.integers(0, 5)))
def test_a_cancellation_that_crashed_at_any_step_is_done_or_still_possible(
    replicas: tuple[int, ...], target: tuple[int, ...], joined: set[int]
) -> None:
    for crash_after in count():
        cluster = cluster_of(6, t=[replicas])
        first = Controller(cluster)
        first.perform(decide_start(first.context, P, ids(*target)))
        move = cluster.assignment(P)
        isr = dict.fromkeys((*cluster.isr(P), *(b for b in move.adding if b in joined)))
        cluster.write_isr(P, isr)
        controller = Controller(cluster, crash_after)
        if not move.is_reassigning:
            return
        try:
            controller.perform(decide_cancel(controller.context, P))
        except Crash:
            assert cluster.assignment(P) in (move, Assignment(move.origin))
            under_way = cluster.assignment(P).is_reassigning
            finish(cluster)
            expected = ids(*target) if under_way else move.origin
            assert cluster.assignment(P) == Assignment(expected)
            assert nothing_is_left_over(cluster)
        else:
            assert cluster.assignment(P) == Assignment(move.origin)
            assert set(move.origin) == set(replicas) == holders(cluster)
            assert set(cluster.isr(P)) == set(replicas)
            assert controller.refused == []
            return


@given(replica_lists, replica_lists, replica_lists, st.sets(st.integers(0, 5)))
def test_a_replacement_that_crashed_at_any_step_completes_at_either_target(
    replicas: tuple[int, ...], first: tuple[int, ...], second: tuple[int, ...], joined: set[int]
) -> None:
    for crash_after in count():
        cluster = cluster_of(6, t=[replicas])
        before = Controller(cluster)
        before.perform(decide_start(before.context, P, ids(*first)))
        move = cluster.assignment(P)
        isr = dict.fromkeys((*cluster.isr(P), *(b for b in move.adding if b in joined)))
        cluster.write_isr(P, isr)
        controller = Controller(cluster, crash_after)
        crashed = False
        try:
            controller.perform(decide_start(controller.context, P, ids(*second)))
        except Crash:
            crashed = True
        finish(cluster)
        expected = (ids(*first), ids(*second)) if crashed else (ids(*second),)
        assert cluster.assignment(P).replicas in expected
        assert nothing_is_left_over(cluster)
        if not crashed:
            return


@given(replica_lists, st.lists(st.tuples(replica_lists, st.booleans()), max_size=4), st.data())
def test_no_history_of_reassignments_removes_an_in_sync_replica_before_the_new_ones_are_in_sync(
    replicas: tuple[int, ...],
    history: list[tuple[tuple[int, ...], bool]],
    data: st.DataObject,
) -> None:
    controller = Controller(cluster_of(6, t=[replicas]))
    cluster = controller.cluster
    for target, is_cancelled in history:
        origin = set(cluster.assignment(P).origin)
        if is_cancelled:
            controller.perform(decide_cancel(controller.context, P))
        else:
            controller.perform(decide_start(controller.context, P, ids(*target)))
        now = cluster.assignment(P)
        if now.is_reassigning:
            assert origin <= set(cluster.isr(P)), "those that were in sync still are"
        isr = data.draw(st.sets(st.sampled_from(now.replicas)))
        cluster.write_isr(P, dict.fromkeys((*cluster.isr(P), *isr)))
        progress(controller)
        after = cluster.assignment(P)
        assert after == now or set(after.replicas) == set(cluster.isr(P))
        assert set(after.replicas) == holders(cluster)
        assert controller.refused == []


def test_ten_thousand_partitions_are_reassigned_with_one_write_of_their_topic() -> None:
    cluster = cluster_of(6, t=[(1, 2)] * 10_000)
    controller = Controller(cluster)
    partitions = list(controller.context.partitions())
    controller.perform(decide_starts(controller.context, dict.fromkeys(partitions, ids(3, 4))))
    for each in partitions:
        cluster.catch_up(each)
    controller.read_states(*partitions)
    controller.perform(decide_progress(controller.context, *partitions))
    assert sum(isinstance(step, SetAssignments) for step in controller.performed) == 2
    assert set(cluster.topics["t"].values()) == {Assignment(ids(3, 4))}
