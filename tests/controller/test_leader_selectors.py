"""The leader selectors: examples of each, and properties for any candidates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import ErrorCode
from barnabas.controller.context import Assignment
from barnabas.controller.decide.leader_selectors import (
    SELECTORS,
    Candidates,
    ElectedLeader,
    decide_leader,
)
from barnabas.controller.decide.steps import (
    ApiError,
)
from barnabas.controller.states import Selector
from barnabas.znodes.layout import LeaderAndIsr
from tests.controller.contexts import EPOCH, assignments, brokers, leading, leadings, some_brokers

S = Selector


def candidates(
    now: LeaderAndIsr,
    replicas: tuple[int, ...] = (1, 2, 3),
    online: tuple[int, ...] = (1, 2, 3),
    stopping: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
) -> Candidates:
    assignment = Assignment(brokers(*replicas), (), brokers(*removing))
    return Candidates(now, assignment, brokers(*online), brokers(*stopping))


def elected(by: Selector, of: Candidates) -> ElectedLeader:
    answer = decide_leader(by, of, EPOCH)
    assert isinstance(answer, ElectedLeader)
    return answer


def refused(by: Selector, of: Candidates) -> ApiError:
    answer = decide_leader(by, of, EPOCH)
    assert isinstance(answer, ApiError)
    return answer


def test_every_selector_has_its_function() -> None:
    assert set(SELECTORS) == set(Selector)


def test_an_offline_leader_is_replaced_by_the_first_live_in_sync_replica() -> None:
    answer = elected(S.OFFLINE, candidates(leading(1, [3, 1, 2]), online=(2, 3)))
    assert answer == ElectedLeader(leading(2, [3, 2], epoch=6), notify=brokers(2, 3))


def test_a_replica_outside_the_isr_is_skipped() -> None:
    answer = elected(S.OFFLINE, candidates(leading(1, [1, 3]), online=(2, 3)))
    assert answer == ElectedLeader(leading(3, [3], epoch=6), notify=brokers(2, 3))


def test_a_broker_that_shuts_down_is_not_elected_and_leaves_the_isr() -> None:
    answer = elected(S.OFFLINE, candidates(leading(1, [1, 2, 3]), online=(2, 3), stopping=(2,)))
    assert answer == ElectedLeader(leading(3, [3], epoch=6), notify=brokers(3))


def test_no_leader_is_elected_when_the_whole_isr_is_dead() -> None:
    answer = refused(S.OFFLINE, candidates(leading(1, [1]), online=(2, 3)))
    assert answer == ApiError(
        ErrorCode.eligible_leaders_not_available,
        "no replica in the ISR is alive (replicas=[1, 2, 3] isr=[1] alive=[2, 3])",
    )


def test_an_unclean_leader_is_alone_in_the_isr_and_recovering() -> None:
    answer = elected(S.OFFLINE_UNCLEAN, candidates(leading(-1, [1]), online=(3, 2)))
    state = leading(2, [2], epoch=6, recovering=True)
    assert answer == ElectedLeader(state, notify=brokers(2, 3), is_unclean=True)


def test_an_unclean_election_prefers_an_in_sync_replica() -> None:
    of = candidates(leading(1, [1, 3]), online=(2, 3))
    assert elected(S.OFFLINE_UNCLEAN, of) == elected(S.OFFLINE, of)


def test_a_recovering_partition_is_still_recovering_under_the_next_leader() -> None:
    answer = elected(S.OFFLINE, candidates(leading(1, [1, 2], recovering=True), online=(2,)))
    assert answer.state == leading(2, [2], epoch=6, recovering=True)
    assert not answer.is_unclean


def test_a_reassigned_partition_is_led_by_the_first_target_replica() -> None:
    of = candidates(leading(1, [1, 2, 3, 4]), (3, 4, 1, 2), (1, 2, 3, 4), removing=(1, 2))
    answer = elected(S.REASSIGNED, of)
    assert answer == ElectedLeader(leading(3, [1, 2, 3, 4], epoch=6), notify=brokers(3, 4))


def test_a_partition_cannot_be_reassigned_to_replicas_outside_the_isr() -> None:
    of = candidates(leading(1, [1, 2]), (3, 4, 1, 2), (1, 2, 3, 4), removing=(1, 2))
    assert refused(S.REASSIGNED, of).code is ErrorCode.eligible_leaders_not_available


def test_the_preferred_leader_is_elected_and_the_isr_is_unchanged() -> None:
    answer = elected(S.PREFERRED, candidates(leading(2, [2, 1]), online=(1, 2)))
    assert answer == ElectedLeader(leading(1, [2, 1], epoch=6), notify=brokers(1, 2, 3))


@pytest.mark.parametrize(("isr", "online"), [((2, 3), (1, 2, 3)), ((1, 2), (2, 3))])
def test_the_preferred_leader_must_be_alive_and_in_sync(
    isr: tuple[int, ...], online: tuple[int, ...]
) -> None:
    answer = refused(S.PREFERRED, candidates(leading(2, isr), online=online))
    assert answer.code is ErrorCode.preferred_leader_not_available


def test_a_controlled_shutdown_removes_the_broker_from_the_isr_and_notifies_it() -> None:
    answer = elected(S.CONTROLLED_SHUTDOWN, candidates(leading(1, [1, 2, 3]), stopping=(1,)))
    assert answer == ElectedLeader(leading(2, [2, 3], epoch=6), notify=brokers(1, 2, 3))


def test_the_only_in_sync_replica_keeps_leading_during_a_controlled_shutdown() -> None:
    answer = refused(S.CONTROLLED_SHUTDOWN, candidates(leading(1, [1]), stopping=(1,)))
    assert answer.code is ErrorCode.eligible_leaders_not_available


def test_without_a_need_for_an_election_the_state_is_unchanged() -> None:
    now = leading(2, [2, 3])
    answer = elected(S.NONE_NEEDED, candidates(now))
    assert answer.state is now
    assert answer.notify == brokers(1, 2, 3)


def test_keeping_the_leader_is_refused_if_it_is_offline() -> None:
    answer = refused(S.NONE_NEEDED, candidates(leading(2, [2, 3]), online=(1, 3)))
    assert answer.code is ErrorCode.eligible_leaders_not_available


@st.composite
def any_candidates(draw: st.DrawFn) -> Candidates:
    assignment = draw(assignments())
    now = draw(leadings(assignment.replicas))
    return Candidates(now, assignment, draw(some_brokers), draw(some_brokers))


@given(st.sampled_from(Selector), any_candidates())
def test_an_elected_leader_is_alive_and_in_sync_unless_unclean(
    by: Selector, of: Candidates
) -> None:
    answer = decide_leader(by, of, EPOCH)
    if isinstance(answer, ApiError):
        assert by is not S.OFFLINE_UNCLEAN or not of.available(of.assignment.replicas)
        return
    state = answer.state
    assert state.leader in of.online
    assert state.leader in state.isr
    assert set(state.isr) <= set(of.assignment.replicas)
    assert set(answer.notify) <= set(of.assignment.replicas)
    if answer.is_unclean:
        assert by is S.OFFLINE_UNCLEAN
        assert state.recovering
        assert not of.available(of.now.isr)
    else:
        assert state.leader in of.now.isr
        assert set(state.isr) <= set(of.now.isr)
        assert state.recovering == of.now.recovering
    if by is not S.NONE_NEEDED:
        assert state.leader not in of.shutting_down
        assert state.leader in answer.notify
        assert state.leader_epoch == of.now.leader_epoch + 1
        assert state.controller_epoch == EPOCH


@given(any_candidates())
def test_an_available_in_sync_replica_always_suffices_for_an_election(
    of: Candidates,
) -> None:
    answer = decide_leader(S.OFFLINE, of, EPOCH)
    assert isinstance(answer, ElectedLeader) == bool(of.available(of.now.isr))
