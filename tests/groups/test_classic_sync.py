"""Assignments are stored, then handed out; silence and goodbyes are noticed."""

from barnabas.base.errors import ErrorCode
from barnabas.groups.classic.classic_messages import LeavingMember, LeftMember, OfferedProtocol
from barnabas.groups.classic.classic_state import GroupState
from tests.groups.driver import Driver, joined, subscription, synced

NOT_AVAILABLE = ErrorCode.coordinator_not_available


def completing(driver: Driver, count: int = 2, **fields: int) -> list[str]:
    """A group whose members have joined and wait for their leader, the first."""
    members = [driver.first_join(**fields) for _ in range(count)]
    driver.run_timers(6_000)
    return [joined(pending).member_id for _, pending in members]


def test_followers_wait_for_the_leader_and_each_gets_its_own_assignment() -> None:
    driver = Driver()
    leader, follower = completing(driver)
    waiting = driver.sync(follower, 1)
    assert waiting.reply is None
    own = driver.sync(leader, 1, {leader: b"one", follower: b"two"})
    assert (synced(own).assignment, synced(waiting).assignment) == (b"one", b"two")
    assert (synced(own).protocol_type, synced(own).protocol_name) == ("consumer", "range")
    assert driver.state is GroupState.STABLE


def test_a_late_sync_returns_the_same_assignment() -> None:
    driver = Driver()
    leader, follower = completing(driver)
    driver.sync(leader, 1, {leader: b"one", follower: b"two"})
    assert [synced(driver.sync(follower, 1)).assignment for _ in range(2)] == [b"two", b"two"]


def test_whom_the_leader_forgot_gets_nothing() -> None:
    driver = Driver()
    leader, follower = completing(driver)
    driver.sync(leader, 1, {leader: b"all", "stranger": b"x"})
    assert synced(driver.sync(follower, 1)).assignment == b""


def test_the_assignment_is_written_before_any_member_gets_it() -> None:
    driver = Driver()
    leader, follower = completing(driver)
    waiting = driver.sync(follower, 1)
    driver.hold_commits = True
    own = driver.sync(leader, 1, {leader: b"one", follower: b"two"})
    assert (own.reply, waiting.reply) == (None, None)
    assert driver.reloaded().group.members[follower].assignment == b"two"
    driver.commit()
    assert synced(waiting).assignment == b"two"


def test_when_the_assignment_cannot_be_written_all_members_get_the_error_and_rejoin() -> None:
    driver = Driver()
    leader, follower = completing(driver)
    waiting = driver.sync(follower, 1)
    driver.fail_appends = NOT_AVAILABLE
    own = driver.sync(leader, 1, {leader: b"one", follower: b"two"})
    synced(own, NOT_AVAILABLE)
    synced(waiting, NOT_AVAILABLE)
    assert driver.state is GroupState.PREPARING_REBALANCE
    assert driver.log == []
    driver.fail_appends = None
    rejoining = [driver.join(leader), driver.join(follower)]
    assert [joined(each).generation_id for each in rejoining] == [2, 2]


def test_an_assignment_larger_than_a_record_is_refused_before_the_record_is_made() -> None:
    driver = Driver()
    leader, follower = completing(driver)
    waiting = driver.sync(follower, 1)
    assigned = {leader: b"1" * 600, follower: b"2" * 600, "unknown": b"3" * 600}
    own = driver.sync(leader, 1, assigned, largest_record=1_199)
    synced(own, ErrorCode.unknown_server_error)
    synced(waiting, ErrorCode.unknown_server_error)
    assert driver.state is GroupState.PREPARING_REBALANCE
    assert driver.log == []
    rejoining = [driver.join(leader), driver.join(follower)]
    assert [joined(each).generation_id for each in rejoining] == [2, 2]
    driver.sync(follower, 2)
    again = driver.sync(leader, 2, assigned, largest_record=1_200)
    assert len(synced(again).assignment) == 600


def test_sync_is_checked_for_member_generation_protocol_and_state_in_this_order() -> None:
    driver = Driver()
    [leader] = completing(driver, 1)
    synced(driver.sync("stranger", 9), ErrorCode.unknown_member_id)
    unknown = driver.sync(leader, 1, group_instance_id="i")
    synced(unknown, ErrorCode.unknown_member_id)
    synced(driver.sync(leader, 2, protocol_name="x"), ErrorCode.illegal_generation)
    inconsistent = ErrorCode.inconsistent_group_protocol
    synced(driver.sync(leader, 1, protocol_type="connect"), inconsistent)
    synced(driver.sync(leader, 1, protocol_name="sticky"), inconsistent)
    driver.first_join()
    synced(driver.sync(leader, 1), ErrorCode.rebalance_in_progress)


def test_requests_to_a_group_that_does_not_exist_name_unknown_members() -> None:
    driver = Driver()
    synced(driver.sync("m", 1), ErrorCode.unknown_member_id)
    assert driver.heartbeat("m", 1) is ErrorCode.unknown_member_id
    left = driver.leave(LeavingMember("m", "i"))
    assert left.members == (LeftMember("m", "i", ErrorCode.unknown_member_id),)


def test_heartbeats_are_answered_by_what_the_group_is_at() -> None:
    driver = Driver()
    [leader] = completing(driver, 1)
    assert driver.heartbeat(leader, 1) is ErrorCode.none
    assert driver.heartbeat(leader, 0) is ErrorCode.illegal_generation
    assert driver.heartbeat("stranger", 1) is ErrorCode.unknown_member_id
    driver.sync(leader, 1)
    assert driver.heartbeat(leader, 1) is ErrorCode.none
    driver.first_join()
    assert driver.heartbeat(leader, 1) is ErrorCode.rebalance_in_progress


def test_a_silent_member_is_dropped_after_its_session_and_the_others_rebalance() -> None:
    driver = Driver()
    alive, silent = driver.stable(2)
    driver.run_timers(6_000)
    assert driver.heartbeat(alive, 1) is ErrorCode.none
    driver.run_timers(6_000)
    assert driver.heartbeat(silent, 1) is ErrorCode.unknown_member_id
    assert driver.heartbeat(alive, 1) is ErrorCode.rebalance_in_progress
    assert [each.member_id for each in joined(driver.join(alive)).members] == [alive]


def test_when_the_last_member_is_lost_the_group_is_written_down_as_empty() -> None:
    driver = Driver()
    driver.stable(2)
    driver.run_timers(10_000)
    assert driver.state is GroupState.EMPTY
    assert driver.group.generation_id == 2
    again = driver.reloaded().group
    assert (again.state, again.generation_id, again.protocol_type) == (
        GroupState.EMPTY,
        2,
        "consumer",
    )


def test_a_group_without_members_is_empty_also_if_that_cannot_be_written() -> None:
    driver = Driver()
    [only] = driver.stable(1)
    driver.fail_appends = NOT_AVAILABLE
    assert driver.leave(LeavingMember(only)).error is NOT_AVAILABLE
    assert driver.state is GroupState.EMPTY
    driver.fail_appends = None
    _, pending = driver.first_join()
    driver.run_timers(3_000)
    assert joined(pending).generation_id == 3


def test_those_who_never_ask_for_their_assignment_are_dropped() -> None:
    driver = Driver()
    leader, silent = completing(driver, rebalance_timeout_ms=15_000)
    driver.sync(leader, 1, {leader: b"one", silent: b"two"})
    for _ in range(3):
        driver.run_timers(5_000)
        driver.heartbeat(leader, 1)
        driver.heartbeat(silent, 1)
    assert list(driver.group.members) == [leader]
    assert driver.state is GroupState.PREPARING_REBALANCE


def test_when_the_leader_never_assigns_its_followers_are_sent_back_to_join() -> None:
    driver = Driver()
    leader, follower = completing(driver, rebalance_timeout_ms=15_000)
    waiting = driver.sync(follower, 1)
    for _ in range(3):
        driver.run_timers(5_000)
        driver.heartbeat(leader, 1)
    synced(waiting, ErrorCode.rebalance_in_progress)
    assert driver.group.leader_id == follower
    assert joined(driver.join(follower)).generation_id == 2


def test_one_who_leaves_makes_the_others_join_again() -> None:
    driver = Driver()
    stays, goes = driver.stable(2)
    assert driver.leave(LeavingMember(goes)).members == (LeftMember(goes, None, ErrorCode.none),)
    assert driver.heartbeat(stays, 1) is ErrorCode.rebalance_in_progress
    assert ("session", "billing", goes) not in driver.timers
    assert joined(driver.join(stays)).generation_id == 2


def test_each_member_of_a_leave_request_gets_its_own_error_code() -> None:
    driver = Driver()
    ids = driver.stable(3)
    reply = driver.leave(LeavingMember(ids[0]), LeavingMember("who"), LeavingMember(ids[1]))
    assert [each.error for each in reply.members] == [
        ErrorCode.none,
        ErrorCode.unknown_member_id,
        ErrorCode.none,
    ]
    assert list(driver.group.members) == [ids[2]]


def test_one_who_was_only_given_an_id_leaves_without_a_rebalance() -> None:
    driver = Driver()
    driver.stable(1)
    required = joined(driver.join(), ErrorCode.member_id_required)
    driver.leave(LeavingMember(required.member_id))
    assert driver.state is GroupState.STABLE
    assert not driver.group.pending_members


def test_the_last_one_missing_leaves_and_the_others_go_on() -> None:
    driver = Driver()
    stays, goes = driver.stable(2)
    pending = driver.join(stays)
    assert pending.reply is None
    driver.leave(LeavingMember(goes))
    assert joined(pending).generation_id == 2


def test_a_member_that_leaves_while_its_sync_waits_gets_unknown_member() -> None:
    driver = Driver()
    leader, follower = completing(driver)
    waiting = driver.sync(follower, 1)
    driver.leave(LeavingMember(follower))
    synced(waiting, ErrorCode.unknown_member_id)
    driver.join()
    rejoining = driver.join(leader)
    driver.leave(LeavingMember(leader))
    joined(rejoining, ErrorCode.unknown_member_id)


def test_members_of_a_loaded_group_go_on_and_silent_ones_are_lost_after_a_session() -> None:
    before = Driver()
    alive, silent = before.stable(2)
    driver = before.reloaded()
    assert driver.state is GroupState.STABLE
    assert synced(driver.sync(alive, 1)).assignment == alive.encode()
    driver.run_timers(9_000)
    assert driver.heartbeat(alive, 1) is ErrorCode.none
    driver.run_timers(2_000)
    assert list(driver.group.members) == [alive]
    assert silent not in driver.group.members


def test_members_that_revoke_first_take_over_in_a_second_rebalance() -> None:
    """As cooperative consumers do: what they own is part of what they join with."""

    def owning(*partitions: int) -> tuple[OfferedProtocol, ...]:
        owned = bytes(partitions)
        return (OfferedProtocol("cooperative-sticky", subscription("orders") + owned),)

    driver = Driver()
    [first] = driver.stable(1, protocols=owning())
    second, pending = driver.first_join(protocols=owning())
    driver.join(first, protocols=owning(0, 1))
    assert joined(pending).generation_id == 2
    driver.sync(second, 2)
    driver.sync(first, 2, {first: b"\0", second: b""})
    again = driver.join(first, protocols=owning(0))
    driver.join(second, protocols=owning())
    assert joined(again).members[0].metadata == owning(0)[0].metadata
    waiting = driver.sync(second, 3)
    driver.sync(first, 3, {first: b"\0", second: b"\1"})
    assert synced(waiting).assignment == b"\1"
