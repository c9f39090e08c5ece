"""Topic deletion: begun, halted, retried and completed, by any controller."""

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import Assignment, PartitionReplica
from barnabas.controller.decide.broker_liveness import decide_brokers_down, decide_brokers_up
from barnabas.controller.decide.steps import (
    BeginDeletion,
    CancelDeletions,
    MarkIneligible,
    MovePartitions,
    MoveReplicas,
    QueueDeletions,
    RemoveTopic,
    SendMetadata,
)
from barnabas.controller.decide.topic_deletions import (
    decide_deletions,
    decide_eligible_after_up,
    decide_replicas_deleted,
    decide_resume,
)
from barnabas.controller.states import PartitionState, ReplicaState
from tests.controller.interpreter import Cluster, Controller, Crash, cluster_of, live

P = TopicPartition("t", 0)


def marked(cluster: Cluster, *topics: str) -> Cluster:
    cluster.marks.update(dict.fromkeys(topics))
    return cluster


def begin(controller: Controller) -> None:
    controller.perform(decide_deletions(controller.context, controller.cluster.marks, True))
    controller.perform(decide_resume(controller.context))


def answer(controller: Controller, broker: int, code: ErrorCode = ErrorCode.none) -> None:
    """A broker responds for all replicas that it was asked to delete."""
    asked = [
        replica.topic_partition
        for replica, state in controller.context.replica_states.items()
        if replica.broker_id == broker and state is ReplicaState.DELETION_STARTED
    ]
    codes = dict.fromkeys(asked, code)
    controller.perform(decide_replicas_deleted(controller.context, BrokerId(broker), codes))
    controller.perform(decide_resume(controller.context))


def down(controller: Controller, broker: int) -> None:
    controller.cluster.live.pop(BrokerId(broker))
    controller.context.apply_brokers(live(controller.cluster.live))
    controller.perform(decide_brokers_down(controller.context, [BrokerId(broker)]))
    controller.perform(decide_resume(controller.context))


def up(controller: Controller, broker: int) -> None:
    controller.cluster.live[BrokerId(broker)] = 2
    controller.context.apply_brokers(live(controller.cluster.live))
    controller.perform(decide_brokers_up(controller.context, [BrokerId(broker)]))
    controller.perform(decide_eligible_after_up(controller.context, [BrokerId(broker)]))
    controller.perform(decide_resume(controller.context))


def states(controller: Controller) -> list[ReplicaState]:
    context = controller.context
    return [context.replica_state_of(each) for each in context.replicas_of([P])]


def is_gone(controller: Controller, topic: str = "t") -> bool:
    """True if nothing is left of a topic in the tree, the context and on the brokers."""
    cluster, context = controller.cluster, controller.context
    left = (*cluster.states, *(each.topic_partition for each in cluster.logs), *context.leadership)
    known = (*context.partition_states, *(r.topic_partition for r in context.replica_states))
    return (
        all(each.topic != topic for each in (*left, *known))
        and topic not in {**cluster.topics, **cluster.marks}
        and topic not in {**context.topics, **context.deleting, **context.ineligible}
    )


def test_a_deletion_stops_leaders_then_replicas_then_deletes_them() -> None:
    controller = Controller(marked(cluster_of(3, t=[(0, 1)]), "t"))
    begin(controller)
    replicas = (PartitionReplica(P, BrokerId(0)), PartitionReplica(P, BrokerId(1)))
    assert controller.performed == [
        QueueDeletions(("t",)),
        MovePartitions((P,), PartitionState.OFFLINE),
        MovePartitions((P,), PartitionState.NON_EXISTENT),
        BeginDeletion(("t",)),
        SendMetadata(None, (P,)),
        MoveReplicas(replicas, ReplicaState.OFFLINE),
        MoveReplicas(replicas, ReplicaState.DELETION_STARTED),
    ]
    answer(controller, 0)
    assert "t" in controller.cluster.topics
    answer(controller, 1)
    assert controller.performed[-2:] == [
        MoveReplicas(replicas, ReplicaState.NON_EXISTENT),
        RemoveTopic("t"),
    ]
    assert is_gone(controller)
    assert controller.refused == []


def test_a_deletion_is_not_requested_twice_while_a_response_is_pending() -> None:
    controller = Controller(marked(cluster_of(3, t=[(0, 1)]), "t"))
    begin(controller)
    answer(controller, 0)
    assert decide_resume(controller.context) == ()
    assert decide_deletions(controller.context, ["t"], True) == ()


def test_marks_of_unknown_topics_and_all_marks_while_deletion_is_disabled_are_removed() -> None:
    context = Controller(cluster_of(3, t=[(0, 1)])).context
    assert decide_deletions(context, ["u", "t"], True) == (
        CancelDeletions(("u",)),
        QueueDeletions(("t",)),
    )
    assert decide_deletions(context, ["u", "t"], False) == (CancelDeletions(("u", "t")),)


def test_a_deletion_waits_for_a_reassignment() -> None:
    cluster = marked(cluster_of(3, t=[(0, 1)]), "t")
    cluster.topics["t"][0] = Assignment((BrokerId(2), BrokerId(0)), adding=(BrokerId(2),))
    controller = Controller(cluster)
    begin(controller)
    assert controller.performed == [
        QueueDeletions(("t",)),
        MarkIneligible(("t",), "a partition is being reassigned"),
    ]
    assert decide_eligible_after_up(controller.context, [BrokerId(0)]) == ()


def test_an_offline_replica_delays_the_deletion_until_its_broker_is_back() -> None:
    controller = Controller(marked(cluster_of(3, t=[(0, 1)]), "t"))
    down(controller, 1)
    begin(controller)
    assert states(controller) == [ReplicaState.DELETION_STARTED, ReplicaState.DELETION_INELIGIBLE]
    answer(controller, 0)
    assert controller.context.ineligible == {"t": "a replica is offline"}
    assert decide_resume(controller.context) == ()
    up(controller, 1)
    assert states(controller)[1] is ReplicaState.DELETION_STARTED
    answer(controller, 1)
    assert is_gone(controller)


def test_a_broker_that_dies_before_its_response_is_asked_again_when_it_is_back() -> None:
    controller = Controller(marked(cluster_of(3, t=[(0, 1)]), "t"))
    begin(controller)
    down(controller, 1)
    assert states(controller)[1] is ReplicaState.DELETION_INELIGIBLE
    answer(controller, 0)
    up(controller, 1)
    answer(controller, 1)
    assert is_gone(controller)
    assert controller.refused == []


def test_a_failed_deletion_is_not_retried_until_a_broker_starts() -> None:
    controller = Controller(marked(cluster_of(3, t=[(0, 1)]), "t"))
    begin(controller)
    answer(controller, 0, ErrorCode.kafka_storage_error)
    answer(controller, 1)
    assert controller.context.ineligible == {"t": "broker 0 could not delete it"}
    assert states(controller) == [
        ReplicaState.DELETION_INELIGIBLE,
        ReplicaState.DELETION_SUCCESSFUL,
    ]
    assert decide_resume(controller.context) == ()
    down(controller, 0)
    up(controller, 0)
    assert states(controller) == [ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL]
    answer(controller, 0)
    assert is_gone(controller)


def test_old_responses_and_those_of_removed_replicas_change_nothing() -> None:
    context = Controller(cluster_of(3, t=[(0, 1)])).context
    codes = {P: ErrorCode.none, TopicPartition("u", 3): ErrorCode.kafka_storage_error}
    assert decide_replicas_deleted(context, BrokerId(0), codes) == ()


def test_a_topic_without_partitions_is_deleted_at_once() -> None:
    cluster = marked(cluster_of(3, t=[(0, 1)]), "t")
    cluster.topics["t"] = {}
    cluster.states.clear()
    cluster.logs.clear()
    controller = Controller(cluster)
    begin(controller)
    assert is_gone(controller)


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True), max_size=3),
    st.sets(st.integers(0, 3), max_size=3),
)
def test_a_deletion_that_crashed_at_any_step_is_completed_by_the_next_controller(
    partitions: list[list[int]], late: set[int]
) -> None:
    for crash_after in count():
        kept = cluster_of(4, t=[tuple(each) for each in partitions], u=[(0, 1)])
        cluster = marked(kept, "t")
        for broker in sorted(late):
            del cluster.live[BrokerId(broker)]
        controller = Controller(cluster, crash_after)
        crashed = False
        try:
            run_to_the_end(controller)
        except Crash:
            crashed = True
            controller = Controller(cluster)
            run_to_the_end(controller)
        assert is_gone(controller)
        assert controller.refused == []
        assert "u" in cluster.topics
        if not crashed:
            return


def run_to_the_end(controller: Controller) -> None:
    begin(controller)
    for broker in range(4):
        answer(controller, broker)
    for broker in range(4):
        if broker not in controller.cluster.live:
            up(controller, broker)
        answer(controller, broker)


@given(st.lists(st.tuples(st.sampled_from(["down", "up", "done", "fail"]), st.integers(0, 3))))
def test_a_deletion_completes_when_all_brokers_are_back_in_any_history(
    history: list[tuple[str, int]],
) -> None:
    cluster = marked(cluster_of(4, t=[(0, 1, 2), (3, 0), (1,)], u=[(0, 1)]), "t")
    controller = Controller(cluster)
    begin(controller)
    for what, broker in history:
        is_live = broker in cluster.live
        if what == "down" and is_live:
            down(controller, broker)
        elif what == "up" and not is_live:
            up(controller, broker)
        elif what == "done" and is_live:
            answer(controller, broker)
        elif what == "fail" and is_live:
            answer(controller, broker, ErrorCode.kafka_storage_error)
    for broker in range(4):
        if broker in cluster.live:
            down(controller, broker)
    for broker in range(4):
        up(controller, broker)
        answer(controller, broker)
    assert is_gone(controller)
    assert TopicPartition("u", 0) in controller.context.leadership


def test_ten_thousand_partitions_are_deleted_in_as_many_steps_as_one() -> None:
    cluster = marked(cluster_of(3, t=[(0, 1)] * 10_000), "t")
    controller = Controller(cluster)
    begin(controller)
    answer(controller, 0)
    answer(controller, 1)
    assert is_gone(controller)
    assert len(controller.performed) == 11
