"""Static members come back under a new id, and disturb nobody if they can help it."""

from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.groups.classic.classic_messages import LeavingMember, OfferedProtocol
from barnabas.groups.classic.classic_state import GroupState
from tests.groups.driver import Driver, joined, subscription, synced

NOT_AVAILABLE = ErrorCode.coordinator_not_available


def stable(driver: Driver, *instances: str, **fields: Any) -> list[str]:
    """A stable group of these static members, the first of which leads."""
    pending = [driver.join(group_instance_id=each, **fields) for each in instances]
    driver.run_timers(6_000)
    ids = [joined(each).member_id for each in pending]
    shares = {member_id: member_id.encode() for member_id in ids}
    for member_id in reversed(ids):
        driver.sync(member_id, 1, shares if member_id == ids[0] else None)
    return ids


def test_a_static_member_joins_without_having_to_know_an_id() -> None:
    driver = Driver()
    [member_id] = stable(driver, "i1")
    assert member_id.startswith("i1-")


def test_a_follower_that_comes_back_keeps_its_assignment_without_a_rebalance() -> None:
    driver = Driver()
    leader, follower = stable(driver, "i1", "i2")
    back = joined(driver.join(group_instance_id="i2"))
    assert back.member_id not in (leader, follower)
    assert (back.generation_id, back.leader, back.skip_assignment) == (1, leader, False)
    assert synced(driver.sync(back.member_id, 1)).assignment == follower.encode()
    assert driver.state is GroupState.STABLE
    assert driver.heartbeat(leader, 1, "i1") is ErrorCode.none


def test_the_old_id_of_one_who_came_back_is_fenced() -> None:
    driver = Driver()
    _, follower = stable(driver, "i1", "i2")
    driver.join(group_instance_id="i2")
    assert driver.heartbeat(follower, 1, "i2") is ErrorCode.fenced_instance_id
    fenced = ErrorCode.fenced_instance_id
    joined(driver.join(follower, group_instance_id="i2"), fenced)
    synced(driver.sync(follower, 1, group_instance_id="i2"), fenced)
    assert driver.leave(LeavingMember(follower, "i2")).members[0].error is fenced
    assert driver.heartbeat(follower, 1) is ErrorCode.unknown_member_id


def test_a_static_leader_that_rejoins_stays_leader_and_skips_the_assignment() -> None:
    driver = Driver()
    _, follower = stable(driver, "i1", "i2")
    back = joined(driver.join(group_instance_id="i1"))
    assert (back.leader, back.skip_assignment) == (back.member_id, True)
    assert {each.member_id for each in back.members} == {back.member_id, follower}
    assert driver.group.leader_id == back.member_id


def test_a_leader_that_cannot_skip_the_assignment_rejoins_as_a_follower() -> None:
    driver = Driver()
    leader, _ = stable(driver, "i1", "i2")
    back = joined(driver.join(group_instance_id="i1", may_skip_assignment=False))
    assert (back.leader, back.skip_assignment, back.members) == (leader, False, ())


def test_the_new_id_is_in_the_log_and_the_old_one_is_not() -> None:
    driver = Driver()
    _, follower = stable(driver, "i1", "i2")
    back = joined(driver.join(group_instance_id="i2"))
    again = driver.reloaded()
    assert again.group.static_members["i2"] == back.member_id
    assert follower not in again.group.members
    assert again.group.state_timestamp_ms == driver.group.state_timestamp_ms


def test_when_the_new_id_cannot_be_written_the_old_one_stays() -> None:
    driver = Driver()
    _, follower = stable(driver, "i1", "i2")
    driver.fail_appends = NOT_AVAILABLE
    joined(driver.join(group_instance_id="i2"), NOT_AVAILABLE)
    assert driver.heartbeat(follower, 1, "i2") is ErrorCode.none
    assert driver.group.replacement is None


def test_a_comeback_that_would_change_the_protocol_causes_a_rebalance() -> None:
    sticky, ranged = OfferedProtocol("sticky", b"s"), OfferedProtocol("range", subscription("t"))
    driver = Driver()
    leader, _ = stable(driver, "i1", "i2", protocols=(ranged, sticky))
    pending = driver.join(group_instance_id="i2", protocols=(sticky,))
    assert pending.reply is None
    driver.join(leader, group_instance_id="i1", protocols=(ranged, sticky))
    assert joined(pending).protocol_name == "sticky"


def test_what_a_member_offers_beside_the_chosen_protocol_is_known_after_it_came_back() -> None:
    sticky, ranged = OfferedProtocol("sticky", b"s"), OfferedProtocol("range", subscription("t"))
    driver = Driver()
    stable(driver, "i1", protocols=(ranged, sticky))
    joined(driver.join(group_instance_id="i1", protocols=(ranged, sticky)))
    assert driver.join(group_instance_id="i2", protocols=(sticky,)).reply is None


def test_a_comeback_while_the_group_assigns_sends_all_back_to_join() -> None:
    driver = Driver()
    pending = [driver.join(group_instance_id=each) for each in ("i1", "i2")]
    driver.run_timers(6_000)
    old = joined(pending[1]).member_id
    waiting = driver.sync(old, 1, group_instance_id="i2")
    back = driver.join(group_instance_id="i2")
    synced(waiting, ErrorCode.fenced_instance_id)
    assert driver.state is GroupState.PREPARING_REBALANCE
    driver.join(joined(pending[0]).member_id, group_instance_id="i1")
    assert joined(back).generation_id == 2


def test_a_comeback_while_members_join_fences_who_waits_as_the_old_self() -> None:
    driver = Driver()
    first = driver.join(group_instance_id="i1")
    second = driver.join(group_instance_id="i1")
    joined(first, ErrorCode.fenced_instance_id)
    driver.run_timers(6_000)
    assert joined(second).leader == joined(second).member_id


def test_a_static_member_that_does_not_join_again_is_kept_until_its_session_ends() -> None:
    driver = Driver()
    timeouts = {"rebalance_timeout_ms": 5_000, "session_timeout_ms": 30_000}
    leader, absent = stable(driver, "i1", "i2", **timeouts)
    pending = driver.join(leader, group_instance_id="i1", **timeouts)
    driver.run_timers(5_000)
    assert {each.member_id for each in joined(pending).members} == {leader, absent}


def test_a_rebalance_to_which_no_static_member_comes_is_tried_again() -> None:
    driver = Driver()
    timeouts = {"rebalance_timeout_ms": 5_000, "session_timeout_ms": 30_000}
    leader, absent = stable(driver, "i1", "i2", **timeouts)
    driver.first_join(**timeouts)
    driver.leave(*[LeavingMember(each) for each in driver.group.members if each[0] == "c"])
    driver.run_timers(6_000)
    assert driver.state is GroupState.PREPARING_REBALANCE
    pending = [
        driver.join(member, group_instance_id=instance, **timeouts)
        for member, instance in ((leader, "i1"), (absent, "i2"))
    ]
    assert [joined(each).generation_id for each in pending] == [2, 2]


def test_an_administrator_removes_static_members_by_their_instance_id() -> None:
    driver = Driver()
    leader, _ = stable(driver, "i1", "i2")
    reply = driver.leave(LeavingMember("", "i2"), LeavingMember("", "i9"), LeavingMember(""))
    assert [each.error for each in reply.members] == [
        ErrorCode.none,
        ErrorCode.unknown_member_id,
        ErrorCode.unknown_member_id,
    ]
    assert list(driver.group.members) == [leader]
