"""Broker liveness: the elections and messages when brokers start, fail, bounce and shut down."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import Assignment, PartitionReplica
from barnabas.controller.decide.broker_liveness import (
    decide_broker_changes,
    decide_brokers_down,
    decide_brokers_up,
    decide_controlled_shutdown,
    decide_replicas_offline,
    leaderless,
    remaining_leaders,
)
from barnabas.controller.decide.reassignments import MOVING
from barnabas.controller.decide.steps import (
    MovePartitions,
    MoveReplicas,
    RaiseLeaderEpochs,
    SendMetadata,
    StopReplicas,
    in_parts,
)
from barnabas.controller.states import PartitionState, ReplicaState, Selector
from tests.controller.interpreter import Controller, cluster_of, live, partition_led_by

P = TopicPartition("t", 0)
Q = TopicPartition("t", 1)
ZERO, ONE, TWO = map(BrokerId, range(3))


def down(controller: Controller, *brokers: BrokerId) -> None:
    for broker in brokers:
        controller.cluster.live.pop(broker)
    controller.context.apply_brokers(live(controller.cluster.live))
    controller.perform(decide_brokers_down(controller.context, brokers))


def up(controller: Controller, *brokers: BrokerId) -> None:
    controller.cluster.live.update(dict.fromkeys(brokers, 9))
    controller.context.apply_brokers(live(controller.cluster.live))
    controller.perform(decide_brokers_up(controller.context, brokers))


def leader(controller: Controller, partition: TopicPartition = P) -> int:
    return controller.cluster.states[partition].state.leader


def test_new_dead_and_bounced_brokers_are_distinguished() -> None:
    context = Controller(cluster_of(3)).context
    now = live({BrokerId(5): 7, BrokerId(4): 7, ONE: 1, TWO: 8})
    changes = decide_broker_changes(context, now)
    assert changes == ((4, 5), (ZERO,), (TWO,))
    assert decide_broker_changes(context, context.live) == ((), (), ())


def test_a_dead_leader_is_replaced_before_it_leaves_the_isr() -> None:
    controller = Controller(cluster_of(3, t=[(0, 1), (1, 0)]))
    down(controller, ZERO)
    assert controller.performed == [
        MovePartitions((P,), PartitionState.OFFLINE),
        MovePartitions((P,), PartitionState.ONLINE, Selector.OFFLINE),
        MoveReplicas((PartitionReplica(P, ZERO), PartitionReplica(Q, ZERO)), ReplicaState.OFFLINE),
        SendMetadata(None, ()),
    ]
    assert leader(controller) == leader(controller, Q) == 1
    assert controller.cluster.isr(P) == controller.cluster.isr(Q) == (1,)
    assert controller.refused == []


def test_brokers_that_fail_together_leave_each_isr_in_one_write() -> None:
    """Also for many partitions: a large step is split into parts."""
    controller = Controller(cluster_of(3, t=[(0, 1), *[(0, 1, 2)] * 700]))
    before = {each: leadership.version for each, leadership in controller.cluster.states.items()}
    for broker in (ONE, TWO):
        controller.cluster.live.pop(broker)
    controller.context.apply_brokers(live(controller.cluster.live))
    steps = decide_brokers_down(controller.context, (TWO, ONE))
    parts = tuple(part for step in steps for part in in_parts(step))
    assert len(parts) > len(steps)
    controller.perform(parts)
    for partition, leadership in controller.cluster.states.items():
        assert (leadership.state.isr, leadership.version) == ((0,), before[partition] + 1)


def test_of_brokers_that_fail_together_the_last_one_stays_in_an_isr_of_only_them() -> None:
    for order in ((ONE, TWO), (TWO, ONE)):
        controller = Controller(cluster_of(3, t=[(1, 2), (2, 1)]))
        down(controller, *order)
        assert controller.cluster.isr(P) == controller.cluster.isr(Q) == order[1:]
        replicas = tuple(PartitionReplica(each, broker) for each in (P, Q) for broker in order)
        assert MoveReplicas(replicas, ReplicaState.OFFLINE) in controller.performed


def test_a_partition_waits_for_its_last_in_sync_replica_which_leads_when_it_is_back() -> None:
    controller = Controller(cluster_of(2, t=[(0, 1)]))
    down(controller, ONE)
    down(controller, ZERO)
    assert controller.context.state_of(P) is PartitionState.OFFLINE
    assert leader(controller) == -1
    assert controller.cluster.isr(P) == (0,)
    up(controller, ONE)
    assert leader(controller) == -1
    up(controller, ZERO)
    assert leader(controller) == 0
    assert controller.context.state_of(P) is PartitionState.ONLINE


def test_a_new_broker_gets_all_metadata_and_all_brokers_get_its_endpoints() -> None:
    controller = Controller(cluster_of(2, t=[(0, 2)]))
    up(controller, TWO)
    assert controller.performed == [
        SendMetadata((ZERO, ONE), ()),
        SendMetadata((TWO,), None),
        MoveReplicas((PartitionReplica(P, TWO),), ReplicaState.ONLINE),
    ]


def test_the_first_broker_of_a_cluster_is_announced_to_no_other() -> None:
    controller = Controller(cluster_of(0))
    up(controller, ZERO)
    assert controller.performed == [SendMetadata((ZERO,), None)]


def test_a_reassignment_to_a_new_broker_continues() -> None:
    cluster = cluster_of(2, t=[(0, 1)])
    cluster.topics["t"][0] = Assignment((TWO, ZERO, ONE), adding=(TWO,), removing=(ZERO,))
    controller = Controller(cluster)
    up(controller, TWO)
    assert RaiseLeaderEpochs((P,), (TWO,)) in controller.performed
    cluster.write_isr(P, (ZERO, ONE, TWO))
    down(controller, TWO)
    assert cluster.assignment(P).is_reassigning
    up(controller, TWO)
    assert cluster.assignment(P).is_reassigning
    assert set(cluster.isr(P)) == {0, 1}


def test_a_failed_log_directory_takes_only_its_replicas_offline() -> None:
    controller = Controller(cluster_of(2, t=[(0, 1), (0, 1)]))
    controller.context.apply_offline_replicas(ZERO, [P])
    controller.perform(decide_replicas_offline(controller.context, [PartitionReplica(P, ZERO)]))
    assert (leader(controller), leader(controller, Q)) == (1, 0)
    assert controller.cluster.isr(Q) == (0, 1)


def test_topics_that_are_being_deleted_get_no_leader_and_wait_for_the_broker() -> None:
    controller = Controller(cluster_of(2, t=[(0, 1)]))
    controller.context.apply_deleting(["t"])
    controller.context.apply_deletion_begun("t")
    down(controller, ZERO)
    assert leader(controller) == -1
    assert controller.context.replica_state_of(PartitionReplica(P, ZERO)) is (
        ReplicaState.DELETION_INELIGIBLE
    )
    assert controller.context.ineligible == {"t": "a replica is offline"}
    assert controller.refused == []


def test_a_topic_that_a_former_controller_began_to_delete_gets_no_leader() -> None:
    controller = Controller(cluster_of(2, t=[(0, 1)]))
    down(controller, ZERO, ONE)
    context = controller.context
    assert list(leaderless(context)) == [P]
    context.apply_deleting(["t"])
    assert list(leaderless(context)) == []
    context.apply_ineligible(["t"], MOVING)
    assert list(leaderless(context)) == [P], "it could not be moved without"


def test_a_replica_whose_deletion_has_begun_is_not_restarted_with_its_broker() -> None:
    controller = Controller(cluster_of(1, t=[(0, 1)]))
    controller.context.apply_deleting(["t"])
    controller.context.apply_deletion_begun("t")
    assert decide_brokers_up(controller.context, [ONE]) == (
        SendMetadata((ZERO,), ()),
        SendMetadata((ONE,), None),
    )


# -- controlled shutdown -------------------------------------------------------


def test_a_controlled_shutdown_elects_other_leaders_and_stops_followers() -> None:
    controller = Controller(cluster_of(3, t=[(0, 1), (1, 0)], single=[(0,)], gone=[(0, 1)]))
    controller.context.apply_deleting(["gone"])
    controller.context.apply_shutting_down(ZERO)
    controller.perform(decide_controlled_shutdown(controller.context, ZERO))
    follows = (PartitionReplica(Q, ZERO),)
    assert controller.performed == [
        MovePartitions((P,), PartitionState.ONLINE, Selector.CONTROLLED_SHUTDOWN),
        StopReplicas(follows),
        MoveReplicas(follows, ReplicaState.OFFLINE),
    ]
    assert leader(controller) == 1
    assert controller.cluster.isr(P) == controller.cluster.isr(Q) == (1,)
    assert leader(controller, TopicPartition("single", 0)) == 0
    assert remaining_leaders(controller.context, ZERO) == []


def test_partitions_that_no_other_replica_can_lead_remain_and_are_retried() -> None:
    cluster = cluster_of(2, t=[(0, 1)])
    cluster.states[P] = partition_led_by(0, (0,))
    controller = Controller(cluster)
    controller.context.apply_shutting_down(ZERO)
    controller.perform(decide_controlled_shutdown(controller.context, ZERO))
    assert remaining_leaders(controller.context, ZERO) == [P]
    cluster.write_isr(P, (ZERO, ONE))
    controller.perform(decide_controlled_shutdown(controller.context, ZERO))
    assert remaining_leaders(controller.context, ZERO) == []
    assert leader(controller) == 1


def test_a_leader_that_shuts_down_serves_until_it_is_gone() -> None:
    controller = Controller(cluster_of(3, t=[(0,)]))
    controller.context.apply_shutting_down(ZERO)
    controller.perform(decide_controlled_shutdown(controller.context, ZERO))
    down(controller, TWO)
    assert controller.context.state_of(P) is PartitionState.ONLINE
    down(controller, ZERO)
    assert controller.context.state_of(P) is PartitionState.OFFLINE
    up(controller, ZERO)
    assert leader(controller) == 0


# -- any history ---------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from(["down", "up", "stop", "sync"]), st.integers(0, 3))))
def test_every_leader_is_alive_and_was_in_sync_in_any_history_of_brokers(
    history: list[tuple[str, int]],
) -> None:
    controller = Controller(cluster_of(4, t=[(0, 1, 2), (1, 2, 3), (2, 3), (3,)]))
    cluster, context = controller.cluster, controller.context
    for what, number in history:
        broker = BrokerId(number)
        before = {each: set(cluster.isr(each)) for each in context.partitions()}
        if what == "down" and broker in cluster.live:
            down(controller, broker)
        elif what == "up" and broker not in cluster.live:
            up(controller, broker)
        elif what == "stop" and broker in cluster.live:
            context.apply_shutting_down(broker)
            controller.perform(decide_controlled_shutdown(context, broker))
        elif what == "sync":
            for each in context.partitions():
                cluster.catch_up(each)
                controller.read_states(each)
            continue
        for each in context.partitions():
            now = leader(controller, each)
            assert set(cluster.isr(each)) <= before[each]
            assert cluster.isr(each)
            assert now == -1 or (now in cluster.live and now in cluster.isr(each))
            online = context.state_of(each) is PartitionState.ONLINE
            assert online == (now != -1)
    for broker in map(BrokerId, range(4)):
        if broker in cluster.live:
            down(controller, broker)
    up(controller, *map(BrokerId, range(4)))
    assert all(leader(controller, each) != -1 for each in context.partitions())


def test_ten_thousand_partitions_change_leaders_in_a_few_steps() -> None:
    controller = Controller(cluster_of(3, t=[(0, 1)] * 10_000))
    down(controller, ZERO)
    up(controller, ZERO)
    assert len(controller.performed) == 7
    assert all(leadership.state.leader == 1 for leadership in controller.cluster.states.values())
