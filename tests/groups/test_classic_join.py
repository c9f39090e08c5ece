"""Members join classic groups: ids, delays, votes, limits, and who leads."""

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.groups.classic.classic_messages import LeavingMember, OfferedProtocol
from barnabas.groups.classic.classic_state import GroupState
from tests.groups.driver import Driver, joined, subscription, synced

RANGE = OfferedProtocol("range", subscription("orders"))
STICKY = OfferedProtocol("sticky", subscription("orders"))


def test_a_new_dynamic_member_gets_an_id_first_and_joins_with_it() -> None:
    driver = Driver()
    required = joined(driver.join(), ErrorCode.member_id_required)
    assert required.member_id.startswith("client-")
    assert driver.group.is_empty
    pending = driver.join(required.member_id)
    assert pending.reply is None
    driver.run_timers(3_000)
    reply = joined(pending)
    assert (reply.generation_id, reply.leader, reply.protocol_name) == (1, reply.member_id, "range")
    assert [each.member_id for each in reply.members] == [required.member_id]


def test_an_old_client_joins_without_knowing_its_id() -> None:
    driver = Driver()
    pending = driver.join(must_know_its_id=False)
    driver.run_timers(3_000)
    assert joined(pending).member_id in driver.group.members


def test_an_id_that_is_not_used_is_forgotten_after_the_session_timeout() -> None:
    driver = Driver()
    required = joined(driver.join(), ErrorCode.member_id_required)
    driver.run_timers(10_001)
    assert not driver.group.pending_members
    joined(driver.join(required.member_id), ErrorCode.unknown_member_id)


def test_a_rebalance_waits_for_members_that_were_given_an_id() -> None:
    driver = Driver()
    [leader] = driver.stable(1)
    joined(driver.join(), ErrorCode.member_id_required)
    rejoining = driver.join(leader)
    assert rejoining.reply is None
    driver.run_timers(10_000)
    assert joined(rejoining).generation_id == 2


def test_the_first_rebalance_is_put_off_while_members_come_but_not_beyond_their_timeout() -> None:
    driver = Driver(initial_rebalance_delay_ms=3_000)
    pendings = []
    for _ in range(5):
        pendings.append(driver.first_join(rebalance_timeout_ms=8_000)[1])
        driver.run_timers(2_000)
        if pendings[0].reply is not None:
            break
    assert driver.loop_ms == 8_000
    assert len(joined(pendings[0]).members) == 4
    assert {joined(each).generation_id for each in pendings} == {1}


def test_the_first_rebalance_ends_after_the_delay_when_nobody_else_comes() -> None:
    driver = Driver(initial_rebalance_delay_ms=3_000)
    _, pending = driver.first_join()
    driver.run_timers(2_999)
    assert pending.reply is None
    driver.run_timers(1)
    joined(pending)


def test_only_the_leader_gets_the_list_of_members() -> None:
    driver = Driver()
    _, first = driver.first_join()
    _, second = driver.first_join()
    driver.run_timers(6_000)
    assert len(joined(first).members) == 2
    assert joined(second).members == ()
    assert joined(second).leader == joined(first).member_id


def test_a_new_member_makes_all_others_join_again() -> None:
    driver = Driver()
    ids = driver.stable(2)
    new_id, pending = driver.first_join()
    assert [driver.heartbeat(each, 1) for each in ids] == [ErrorCode.rebalance_in_progress] * 2
    rejoining = [driver.join(each) for each in ids]
    assert {joined(each).generation_id for each in [*rejoining, pending]} == {2}
    assert joined(pending).member_id == new_id


def test_members_that_do_not_join_again_in_time_are_dropped() -> None:
    driver = Driver()
    ids = driver.stable(3, rebalance_timeout_ms=5_000)
    pending = driver.join(ids[0], rebalance_timeout_ms=5_000)
    driver.run_timers(5_000)
    assert [each.member_id for each in joined(pending).members] == [ids[0]]
    assert driver.heartbeat(ids[1], 1) is ErrorCode.unknown_member_id


def test_when_the_leader_does_not_join_again_another_leads() -> None:
    driver = Driver()
    ids = driver.stable(2, rebalance_timeout_ms=5_000)
    driver.first_join(rebalance_timeout_ms=5_000)
    pending = driver.join(ids[1], rebalance_timeout_ms=5_000)
    driver.run_timers(5_000)
    assert joined(pending).leader == ids[1]


def test_a_leader_that_joins_again_causes_a_rebalance_but_a_follower_unchanged_does_not() -> None:
    driver = Driver()
    ids = driver.stable(2)
    assert joined(driver.join(ids[1])).generation_id == 1
    assert driver.heartbeat(ids[0], 1) is ErrorCode.none
    assert driver.join(ids[0]).reply is None
    assert driver.state is GroupState.PREPARING_REBALANCE


def test_a_follower_with_another_subscription_causes_a_rebalance() -> None:
    driver = Driver()
    ids = driver.stable(2)
    changed = (OfferedProtocol("range", subscription("orders", "bills")),)
    assert driver.join(ids[1], protocols=changed).reply is None
    joined(driver.join(ids[0]))
    assert driver.group.is_subscribed_to("bills")


def test_a_member_that_missed_its_join_response_gets_it_again() -> None:
    driver = Driver()
    leader, pending = driver.first_join()
    driver.run_timers(3_000)
    assert driver.join(leader).reply == joined(pending)
    assert driver.state is GroupState.COMPLETING_REBALANCE


def test_a_changed_subscription_while_the_leader_assigns_sends_all_back_to_join() -> None:
    driver = Driver()
    leader, _ = driver.first_join()
    follower, _ = driver.first_join()
    driver.run_timers(6_000)
    waiting = driver.sync(follower, 1)
    changed = (OfferedProtocol("range", subscription("bills")),)
    driver.join(leader, protocols=changed)
    synced(waiting, ErrorCode.rebalance_in_progress)
    assert driver.state is GroupState.PREPARING_REBALANCE


def test_a_request_that_is_repeated_ends_the_earlier_one() -> None:
    driver = Driver()
    member_id, first = driver.first_join()
    second = driver.join(member_id)
    joined(first, ErrorCode.rebalance_in_progress)
    driver.run_timers(3_000)
    joined(second)


def test_members_without_a_protocol_in_common_are_not_in_one_group() -> None:
    driver = Driver()
    driver.first_join(protocols=(STICKY, RANGE))
    joined(driver.join(protocol_type="connect"), ErrorCode.inconsistent_group_protocol)
    other = (OfferedProtocol("roundrobin", b""),)
    joined(driver.join(protocols=other), ErrorCode.inconsistent_group_protocol)
    _, pending = driver.first_join(protocols=(RANGE,))
    driver.run_timers(6_000)
    assert joined(pending).protocol_name == "range"


def test_a_group_that_nobody_could_join_is_not_kept() -> None:
    driver = Driver()
    joined(driver.join(protocols=()), ErrorCode.inconsistent_group_protocol)
    joined(driver.join(protocol_type=""), ErrorCode.inconsistent_group_protocol)
    assert not driver.shard.groups


def test_session_timeouts_out_of_bounds_are_refused() -> None:
    driver = Driver(min_session_timeout_ms=6_000, max_session_timeout_ms=30_000)
    for timeout_ms in (5_999, 30_001):
        joined(driver.join(session_timeout_ms=timeout_ms), ErrorCode.invalid_session_timeout)


def test_a_member_of_a_group_that_does_not_exist_is_unknown() -> None:
    joined(Driver().join("somebody"), ErrorCode.unknown_member_id)
    joined(Driver().join(group_id=""), ErrorCode.invalid_group_id)


def test_a_full_group_takes_nobody_else_but_lets_its_members_join_again() -> None:
    driver = Driver(max_size=2)
    ids = driver.stable(2)
    joined(driver.join(), ErrorCode.group_max_size_reached)
    rejoining = [driver.join(each) for each in ids]
    assert {joined(each).generation_id for each in rejoining} == {2}


def large(size: int) -> tuple[OfferedProtocol, ...]:
    return (OfferedProtocol("range", bytes(size)),)


def test_a_member_that_brings_too_much_is_refused_and_leaves_nothing() -> None:
    driver = Driver(max_member_bytes=10_000)
    joined(driver.join(protocols=large(10_000)), ErrorCode.group_max_size_reached)
    assert not driver.shard.groups
    joined(driver.join(protocols=large(5_000)), ErrorCode.member_id_required)


def test_members_together_bring_no_more_than_a_group_holds_and_make_room_when_they_leave() -> None:
    driver = Driver(max_bytes=20_000)
    first, _ = driver.first_join(protocols=large(8_000))
    second, _ = driver.first_join(protocols=large(8_000))
    joined(driver.join(protocols=large(8_000)), ErrorCode.group_max_size_reached)
    # A member may join again with as much as it brought.
    assert driver.join(second, protocols=large(8_000)).reply is None
    driver.leave(LeavingMember(first))
    joined(driver.join(protocols=large(8_000)), ErrorCode.member_id_required)
    driver.leave(LeavingMember(second))
    assert driver.group.size == 0


def test_a_long_client_id_gives_a_member_id_that_a_record_can_hold() -> None:
    driver = Driver()
    required = joined(driver.join(client_id="c" * 32_767), ErrorCode.member_id_required)
    assert len(required.member_id) < 2_000


def test_of_a_group_that_became_too_large_those_that_join_last_are_dropped() -> None:
    small = Driver(max_size=3)
    ids = small.stable(3)
    driver = Driver(small.log, max_size=2)
    assert driver.state is GroupState.PREPARING_REBALANCE
    rejoining = [driver.join(each) for each in ids]
    joined(rejoining[2], ErrorCode.group_max_size_reached)
    assert [joined(each).generation_id for each in rejoining[:2]] == [2, 2]


def test_a_new_member_without_heartbeats_is_removed_while_its_join_waits() -> None:
    driver = Driver(new_member_join_timeout_ms=20_000)
    [leader] = driver.stable(1, rebalance_timeout_ms=100_000)
    _, pending = driver.first_join(rebalance_timeout_ms=100_000)
    for _ in range(4):
        driver.run_timers(5_000)
        driver.heartbeat(leader, 1)
    joined(pending, ErrorCode.unknown_member_id)
    assert list(driver.group.members) == [leader]


def test_a_waiting_member_needs_no_heartbeats_but_its_session_begins_with_the_answer() -> None:
    driver = Driver()
    ids = driver.stable(2, rebalance_timeout_ms=30_000)
    waiting = driver.join(ids[0], rebalance_timeout_ms=30_000)
    for _ in range(5):
        driver.run_timers(5_000)
        driver.heartbeat(ids[1], 1)
    assert waiting.reply is None
    driver.run_timers(5_000)
    joined(waiting)
    driver.run_timers(10_000)
    assert driver.group.is_empty


def test_when_all_go_while_the_first_are_gathered_the_group_is_empty_again() -> None:
    driver = Driver()
    member_id, pending = driver.first_join()
    driver.leave(LeavingMember(member_id))
    joined(pending, ErrorCode.unknown_member_id)
    driver.run_timers(3_000)
    assert driver.group.is_empty
    assert driver.reloaded().group.is_empty


def test_a_client_id_as_long_as_the_protocol_allows_joins_and_syncs() -> None:
    for client_id in ("x" * 32_767, "ü" * 16_383):
        driver = Driver()
        reply = joined(driver.join(client_id=client_id), ErrorCode.member_id_required)
        pending = driver.join(reply.member_id, client_id=client_id)
        driver.run_timers(3_000)
        generation = joined(pending).generation_id
        synced(driver.sync(reply.member_id, generation, {reply.member_id: b"all"}))
        again = Driver(log=driver.log)
        assert again.group.members[reply.member_id].client_id == client_id


@pytest.mark.parametrize("field", ["group_instance_id", "protocol_type", "protocols"])
def test_a_name_that_no_record_holds_is_refused_before_it_fails_the_sync_of_others(
    field: str,
) -> None:
    driver = Driver()
    name = "ü" * 16_384
    value: Any = (OfferedProtocol(name, b""),) if field == "protocols" else name
    joined(driver.join(**{field: value}), ErrorCode.invalid_request)
    assert not driver.shard.groups
