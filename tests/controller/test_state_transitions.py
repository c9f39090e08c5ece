"""State transitions of partitions and replicas: complete tables, messages, and no side effects."""

import copy
import sys
from itertools import product
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.controller.context import (
    NO_LEADER,
    Assignment,
    Context,
    PartitionLeadership,
    PartitionReplica,
)
from barnabas.controller.decide.state_transitions import (
    PartitionMoves,
    ReplicaMoves,
    decide_leader_epochs,
    decide_partitions,
    decide_replicas,
)
from barnabas.controller.decide.steps import (
    ApiError,
    LeaderAndIsrTo,
    MetadataOf,
    StopReplicaTo,
)
from barnabas.controller.states import (
    PARTITION_FROM,
    REPLICA_FROM,
    PartitionState,
    ReplicaState,
    Selector,
)
from barnabas.znodes.layout import LeaderAndIsr
from tests.controller.contexts import (
    EPOCH,
    T0,
    T1,
    brokers,
    context_of,
    contexts,
    leading,
    one,
    replicas_in,
)

P, R, S = PartitionState, ReplicaState, Selector


def never(_: str) -> bool:
    return False


def always(_: str) -> bool:
    return True


def online(context: Context, by: Selector = S.OFFLINE, *, unclean: bool = False) -> PartitionMoves:
    return decide_partitions(context, [T0], P.ONLINE, by, always if unclean else never)


def replicas(*ids: int) -> list[PartitionReplica]:
    return [PartitionReplica(T0, each) for each in brokers(*ids)]


def in_state(context: Context, state: ReplicaState) -> Context:
    of = dict.fromkeys(context.replica_states, state)
    context.apply_initial_states(context.partition_states, of)
    return context


# -- partitions ---------------------------------------------------------------


@pytest.mark.parametrize(("now", "to"), list(product(P, P)))
def test_a_partition_moves_where_its_table_allows_and_is_refused_elsewhere(
    now: PartitionState, to: PartitionState
) -> None:
    context = one((1, 2), None if now is P.NEW else leading(1, [1, 2]))
    context.apply_initial_states({T0: now}, {})
    moves = decide_partitions(context, [T0], to, S.OFFLINE, never)
    if now not in PARTITION_FROM[to]:
        why = f"{now.value} cannot become {to.value}"
        assert moves == PartitionMoves(refused={T0: ApiError(ErrorCode.unknown_server_error, why)})
    elif to is not P.ONLINE:
        assert moves == PartitionMoves(moved=[T0])
    elif now is P.NEW:
        assert moves.creates == {T0: leading(1, [1, 2], epoch=0)}
    else:
        assert moves.updates == {T0: (leading(1, [1, 2], epoch=6), 40)}


def test_a_new_partition_starts_with_all_live_replicas_in_sync_and_notifies_only_them() -> None:
    moves = online(one((4, 3, 1, 2), None, live=(1, 2, 3), shutting_down=(2,)))
    assert moves == PartitionMoves(
        creates={T0: leading(3, [3, 1], epoch=0)},
        messages={T0: [LeaderAndIsrTo(brokers(3, 1), T0, is_new=True)]},
    )


def test_a_new_partition_without_a_live_replica_waits() -> None:
    moves = online(one((4, 5), None))
    why = "no replica is alive (replicas=[4, 5])"
    assert moves.refused == {T0: ApiError(ErrorCode.eligible_leaders_not_available, why)}
    assert not moves.messages


def test_an_election_expects_the_version_that_was_read_and_notifies_the_live_replicas() -> None:
    moves = online(one((1, 2, 3), leading(1, [1, 2, 3]), live=(2, 3)))
    assert moves == PartitionMoves(
        updates={T0: (leading(2, [2, 3], epoch=6), 40)},
        messages={T0: [LeaderAndIsrTo(brokers(2, 3), T0)]},
    )


def test_a_replica_in_a_failed_log_directory_is_not_elected() -> None:
    context = one((1, 2), leading(1, [1, 2]))
    context.apply_offline_replicas(BrokerId(1), [T0])
    assert online(context).updates == {T0: (leading(2, [2], epoch=6), 40)}


def test_an_unclean_election_must_be_allowed_by_the_topic() -> None:
    context = one((1, 2), leading(1, [1]), live=(2,))
    assert online(context).refused[T0].code is ErrorCode.eligible_leaders_not_available
    moves = online(context, unclean=True)
    assert moves.updates == {T0: (leading(2, [2], epoch=6, recovering=True), 40)}
    assert moves.unclean == [T0]


def test_a_requested_unclean_election_ignores_the_topics_config() -> None:
    moves = online(one((1, 2), leading(1, [1]), live=(2,)), S.OFFLINE_UNCLEAN)
    assert moves.unclean == [T0]


def test_allowing_unclean_elections_does_not_make_other_selectors_unclean() -> None:
    context = one((2, 1), leading(1, [1]))
    assert list(online(context, S.PREFERRED, unclean=True).refused) == [T0]


def test_keeping_the_leader_needs_no_write() -> None:
    moves = online(one((1, 2), leading(2, [2])), S.NONE_NEEDED)
    assert moves == PartitionMoves(moved=[T0], messages={T0: [LeaderAndIsrTo(brokers(1, 2), T0)]})


def test_a_state_that_a_newer_controller_wrote_is_left_alone() -> None:
    context = one((1, 2), leading(1, [1, 2], by=EPOCH + 1), live=(2,))
    why = "controller epoch 8 wrote it, ours is 7"
    refusal = ApiError(ErrorCode.stale_controller_epoch, why)
    assert online(context) == PartitionMoves(refused={T0: refusal})
    assert decide_leader_epochs(context, [T0]) == PartitionMoves(refused={T0: refusal})
    offline = decide_replicas(context, replicas(1), R.OFFLINE)
    assert offline == ReplicaMoves(refused={replicas(1)[0]: refusal})


def test_an_offline_partition_that_was_never_led_or_never_existed_is_refused() -> None:
    context = one((1, 2), None)
    context.apply_initial_states({T0: P.OFFLINE, T1: P.OFFLINE}, {})
    moves = decide_partitions(context, [T0, T1], P.ONLINE, S.OFFLINE, never)
    assert moves.refused[T0].code is ErrorCode.eligible_leaders_not_available
    assert moves.refused[T1].code is ErrorCode.unknown_topic_or_partition


def test_a_new_partition_whose_state_exists_is_decided_again_by_election() -> None:
    context = one((1, 2), None, live=(2,))
    assert list(online(context).creates) == [T0]
    context.apply_leadership(T0, PartitionLeadership(leading(1, [1, 2], epoch=0), 0))
    assert online(context).updates == {T0: (leading(2, [2], epoch=1), 0)}


def test_a_partition_whose_leader_wrote_meanwhile_is_decided_again() -> None:
    context = one((1, 2, 3), leading(1, [1, 2, 3]), live=(2, 3))
    assert online(context).updates == {T0: (leading(2, [2, 3], epoch=6), 40)}
    context.apply_leadership(T0, PartitionLeadership(leading(1, [1, 3]), 41))
    assert online(context).updates == {T0: (leading(3, [3], epoch=6), 41)}


def test_a_raised_epoch_keeps_leader_and_isr_and_marks_new_replicas() -> None:
    state = Assignment(brokers(3, 1, 2), adding=brokers(3))
    context = context_of({T0: (state, leading(1, [1, 2], recovering=True))})
    assert decide_leader_epochs(context, [T0], is_new_on=brokers(3)) == PartitionMoves(
        updates={T0: (leading(1, [1, 2], epoch=6, recovering=True), 40)},
        messages={
            T0: [
                LeaderAndIsrTo(brokers(1, 2), T0),
                LeaderAndIsrTo(brokers(3), T0, is_new=True),
            ]
        },
    )


def test_no_epoch_is_raised_without_a_leader_or_for_an_unknown_partition() -> None:
    moves = decide_leader_epochs(one((1,), None), [T0, T1])
    assert list(moves.refused) == [T0, T1]
    assert not moves.updates


# -- replicas -----------------------------------------------------------------


@pytest.mark.parametrize(("now", "to"), list(product(R, R)))
def test_a_replica_moves_where_its_table_allows_and_is_refused_elsewhere(
    now: ReplicaState, to: ReplicaState
) -> None:
    context = in_state(one((1, 2, 3), leading(1, [1, 2])), now)
    moves = decide_replicas(context, replicas(2), to)
    if now in REPLICA_FROM[to]:
        assert moves.moved == replicas(2)
        assert not moves.refused
    else:
        why = f"{now.value} cannot become {to.value}"
        refusal = ApiError(ErrorCode.unknown_server_error, why)
        assert moves == ReplicaMoves(refused={replicas(2)[0]: refusal})


@pytest.mark.parametrize(
    ("now", "to", "told"),
    [
        (R.NON_EXISTENT, R.NEW, [LeaderAndIsrTo(brokers(2), T0, is_new=True)]),
        (R.NEW, R.ONLINE, []),
        (R.ONLINE, R.ONLINE, [LeaderAndIsrTo(brokers(2), T0)]),
        (R.OFFLINE, R.ONLINE, [LeaderAndIsrTo(brokers(2), T0)]),
        (R.DELETION_INELIGIBLE, R.ONLINE, [LeaderAndIsrTo(brokers(2), T0)]),
        (R.ONLINE, R.OFFLINE, [StopReplicaTo(brokers(2), T0), LeaderAndIsrTo(brokers(1, 3), T0)]),
        (R.OFFLINE, R.DELETION_STARTED, [StopReplicaTo(brokers(2), T0, delete=True)]),
        (R.OFFLINE, R.DELETION_INELIGIBLE, []),
        (R.DELETION_STARTED, R.DELETION_INELIGIBLE, []),
        (R.DELETION_STARTED, R.DELETION_SUCCESSFUL, []),
        (R.DELETION_SUCCESSFUL, R.NON_EXISTENT, []),
    ],
)
def test_each_transition_of_a_replica_sends_its_messages(
    now: ReplicaState, to: ReplicaState, told: list[object]
) -> None:
    context = in_state(one((1, 2, 3), leading(1, [1, 2])), now)
    assert decide_replicas(context, replicas(2), to).messages == {T0: told}


@pytest.mark.parametrize("to", [R.NEW, R.ONLINE])
def test_a_replica_of_a_partition_without_a_leader_gets_no_message(
    to: ReplicaState,
) -> None:
    context = in_state(one((1, 2), None), R.NON_EXISTENT if to is R.NEW else R.OFFLINE)
    assert decide_replicas(context, replicas(1, 2), to).messages == {T0: []}


def test_the_replica_that_leads_cannot_be_new() -> None:
    context = in_state(one((1, 2), leading(1, [1])), R.NON_EXISTENT)
    moves = decide_replicas(context, replicas(1, 2), R.NEW)
    assert list(moves.refused) == replicas(1)
    assert moves.moved == replicas(2)


def test_an_offline_replica_leaves_the_isr_and_the_leader_stays() -> None:
    moves = decide_replicas(one((1, 2, 3), leading(1, [1, 2, 3])), replicas(3), R.OFFLINE)
    assert moves.updates == {T0: (leading(1, [1, 2], epoch=6), 40)}


def test_an_offline_leader_leaves_the_partition_without_a_leader() -> None:
    moves = decide_replicas(one((1, 2), leading(1, [1, 2])), replicas(1), R.OFFLINE)
    assert moves.updates == {T0: (leading(-1, [2], epoch=6), 40)}


def test_the_last_of_the_isr_stays_in_it_though_it_is_offline() -> None:
    moves = decide_replicas(one((1, 2), leading(1, [1])), replicas(1), R.OFFLINE)
    assert moves.updates == {T0: (leading(-1, [1], epoch=6), 40)}


def test_of_replicas_that_go_offline_together_the_last_stays_in_the_isr_in_one_write() -> None:
    moves = decide_replicas(one((1, 2, 3), leading(2, [1, 2, 3])), replicas(1, 2, 3), R.OFFLINE)
    assert moves.updates == {T0: (leading(-1, [3], epoch=6), 40)}
    assert moves.moved == replicas(1, 2, 3)


@pytest.mark.parametrize("state", [leading(1, [1]), leading(-1, [2])])
def test_going_offline_without_a_change_writes_nothing_but_notifies_the_others(
    state: LeaderAndIsr,
) -> None:
    moves = decide_replicas(one((1, 2), state), replicas(2), R.OFFLINE)
    assert not moves.updates
    assert moves.messages[T0] == [StopReplicaTo(brokers(2), T0), LeaderAndIsrTo(brokers(1), T0)]


def test_offline_replicas_of_a_topic_under_deletion_are_stopped_without_leader_and_isr() -> None:
    context = one((1, 2), leading(1, [1, 2]))
    context.apply_deleting(["t"])
    context.apply_deletion_begun("t")
    moves = decide_replicas(context, replicas(2), R.OFFLINE)
    assert moves.updates == {T0: (leading(1, [1], epoch=6), 40)}
    assert moves.messages == {T0: [StopReplicaTo(brokers(2), T0)]}


def test_offline_replicas_of_a_topic_whose_deletion_waits_notify_the_others() -> None:
    context = one((1, 2), leading(1, [1, 2]))
    context.apply_deleting(["t"])
    moves = decide_replicas(context, replicas(2), R.OFFLINE)
    assert moves.messages == {T0: [StopReplicaTo(brokers(2), T0), LeaderAndIsrTo(brokers(1), T0)]}


def test_an_offline_replica_of_a_partition_without_a_leader_is_stopped_and_metadata_sent() -> None:
    moves = decide_replicas(one((1, 2), None), replicas(2), R.OFFLINE)
    assert moves == ReplicaMoves(
        moved=replicas(2), messages={T0: [StopReplicaTo(brokers(2), T0), MetadataOf(T0)]}
    )


# -- any context ----------------------------------------------------------------


@given(contexts(), st.sampled_from(PartitionState), st.sampled_from(Selector), st.booleans())
def test_each_partition_has_one_outcome_and_the_context_is_unchanged(
    context: Context, to: PartitionState, by: Selector, unclean: bool
) -> None:
    before, asked = copy.deepcopy(context), [*context.partitions(), TopicPartition("gone", 0)]
    moves = decide_partitions(context, asked, to, by, always if unclean else never)
    assert context == before
    ways = [*moves.creates, *moves.updates, *moves.moved, *moves.refused]
    assert sorted(ways) == sorted(asked)
    assert list(moves.messages) == [each for each in asked if each in moves.messages]
    for partition, (state, version) in moves.updates.items():
        leadership = context.leadership[partition]
        assert version == leadership.version
        assert state.leader_epoch > leadership.state.leader_epoch
        assert context.is_available(state.leader, partition)
        assert (state.leader in leadership.state.isr) == (partition not in moves.unclean)
    assert unclean or by is S.OFFLINE_UNCLEAN or not moves.unclean
    perform_partitions(context, moves, to)


def perform_partitions(context: Context, moves: PartitionMoves, to: PartitionState) -> None:
    """Apply what was decided, as the performer does; check the laws and the ISR."""
    for partition, created in moves.creates.items():
        context.apply_leadership(partition, PartitionLeadership(created, 0))
    for partition, (state, version) in moves.updates.items():
        context.apply_leadership(partition, PartitionLeadership(state, version + 1))
    for partition in (*moves.creates, *moves.updates, *moves.moved):
        context.apply_partition_state(partition, to)
    for partition in (*moves.creates, *moves.updates):
        state = context.leadership[partition].state
        assert state.leader in state.isr
        assert set(state.isr) <= set(context.assignment(partition).replicas)


@given(contexts(), st.sampled_from(ReplicaState), st.data())
def test_each_replica_has_one_outcome_and_the_context_is_unchanged(
    context: Context, to: ReplicaState, data: st.DataObject
) -> None:
    before, known = copy.deepcopy(context), replicas_in(context)
    asked = data.draw(st.lists(st.sampled_from(known), unique=True)) if known else []
    moves = decide_replicas(context, asked, to)
    assert context == before
    assert sorted([*moves.moved, *moves.refused]) == sorted(asked)
    assert to is R.OFFLINE or not moves.updates
    for partition, (state, version) in moves.updates.items():
        leadership = context.leadership[partition]
        gone = [b for at, b in moves.moved if at == partition]
        assert version == leadership.version
        assert state.leader_epoch > leadership.state.leader_epoch
        assert state.leader in (NO_LEADER, leadership.state.leader)
        assert state.leader not in gone
        assert state.isr
        assert set(state.isr) <= set(leadership.state.isr)
        assert len(state.isr) == 1 or not set(state.isr) & set(gone)
        context.apply_leadership(partition, PartitionLeadership(state, version + 1))
    for replica in moves.moved:
        context.apply_replica_state(replica, to)


@given(contexts())
def test_going_offline_twice_changes_nothing(context: Context) -> None:
    asked = replicas_in(context)
    first = decide_replicas(context, asked, R.OFFLINE)
    for partition, (state, version) in first.updates.items():
        context.apply_leadership(partition, PartitionLeadership(state, version + 1))
    for replica in first.moved:
        context.apply_replica_state(replica, R.OFFLINE)
    assert not decide_replicas(context, first.moved, R.OFFLINE).updates


class ComparedInPython(TopicPartition):
    """A partition whose comparisons are lines of Python, so that a search of a list counts."""

    __hash__ = TopicPartition.__hash__

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)


def lines_to_decide(count: int) -> int:
    """Count the lines of Python that run to decide for a dead broker with this many leaders."""
    partitions = [ComparedInPython(f"t{each // 100}", each % 100) for each in range(count)]
    assignment = Assignment(brokers(1, 2, 3))
    context = context_of({each: (assignment, leading(1, [1, 2, 3])) for each in partitions})
    context.apply_brokers({b: live for b, live in context.live.items() if b != 1})
    lines = 0

    def trace(_: FrameType, event: str, __: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        elected = decide_partitions(context, partitions, P.ONLINE, S.OFFLINE, never)
        offline = decide_replicas(context, context.replicas_on(brokers(1)), R.OFFLINE)
    finally:
        sys.settrace(before)
    assert len(elected.updates) == len(offline.updates) == count
    return lines


def test_the_work_of_a_decision_is_linear_in_the_number_of_partitions() -> None:
    # Ten times the partitions are ten times the work; of a quadratic decision a hundred times.
    assert lines_to_decide(2_000) < 12 * lines_to_decide(200)
