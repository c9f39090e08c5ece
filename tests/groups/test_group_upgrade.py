"""Groups change between the protocols while members of both are at work."""

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.groups.classic.classic_group import ClassicGroup
from barnabas.groups.classic.classic_messages import CommitClaim, LeavingMember
from barnabas.groups.classic.classic_state import GroupState
from barnabas.groups.classic.classic_turn import ClassicSettings
from barnabas.groups.consumer.consumer_group import ConsumerGroup
from barnabas.groups.consumer.consumer_messages import MigrationPolicy, Topic
from tests.groups.consumer_driver import (
    BILLS,
    ORDERS,
    ClassicConsumer,
    Consumer,
    ConsumerDriver,
    first_request,
    owned_twice,
    request,
)
from tests.groups.driver import GROUP

SIX = frozenset(range(6))
Client = Consumer | ClassicConsumer


def settle(*clients: Client) -> None:
    """All go on for a while."""
    for _ in range(12):
        for client in clients:
            client.work()
            assert not owned_twice(*clients)
        clients[0].driver.run_timers(100)


def shares(*clients: Client) -> list[int]:
    return sorted(sum(map(len, client.owned.values())) for client in clients)


def kind(driver: ConsumerDriver) -> type:
    return type(driver.shard.groups[GROUP])


@pytest.fixture(params=[True, False], ids=["cooperative", "eager"])
def is_cooperative(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def classic_group(
    driver: ConsumerDriver, count: int, is_cooperative: bool
) -> list[ClassicConsumer]:
    members = [ClassicConsumer(driver, is_cooperative=is_cooperative) for _ in range(count)]
    settle(*members)
    assert driver.state is GroupState.STABLE
    assert sum(shares(*members)) == 6
    return members


def test_the_first_consumer_upgrades_the_group_and_the_last_one_downgrades_it(
    is_cooperative: bool,
) -> None:
    driver = ConsumerDriver()
    classic = classic_group(driver, 2, is_cooperative)
    generation = driver.group.generation_id
    new = Consumer(driver, "new")
    new.join()
    assert kind(driver) is ConsumerGroup
    assert driver.consumers.group_epoch == generation + 1
    settle(*classic, new)
    assert shares(*classic, new) == [2, 2, 2]
    assert {each.generation for each in classic} == {driver.consumers.group_epoch}
    new.leave()
    assert kind(driver) is ClassicGroup
    settle(*classic)
    assert driver.state is GroupState.STABLE
    assert sum(shares(*classic)) == 6


def test_a_group_goes_on_where_the_shard_moved_to_in_the_middle_of_an_upgrade() -> None:
    driver = ConsumerDriver()
    classic = classic_group(driver, 2, is_cooperative=True)
    new = Consumer(driver, "new")
    new.join()
    moved = driver.moved()
    new.driver = moved
    for client in classic:
        client.driver = moved
    settle(*classic, new)
    assert shares(*classic, new) == [2, 2, 2]
    new.leave()
    again = moved.moved()
    for client in classic:
        client.driver = again
    assert kind(again) is ClassicGroup
    settle(*classic)
    assert all(each.beat() is ErrorCode.none for each in classic)


def test_a_member_that_waits_in_join_group_joins_again_after_the_upgrade() -> None:
    driver = ConsumerDriver(classic=ClassicSettings(initial_rebalance_delay_ms=3_000))
    waiting = ClassicConsumer(driver)
    waiting.join()
    assert waiting.joining is not None
    assert waiting.joining.reply is None
    new = Consumer(driver, "new")
    new.join()
    settle(waiting, new)
    assert kind(driver) is ConsumerGroup
    assert shares(waiting, new) == [3, 3]


def test_a_member_that_waits_in_sync_group_joins_again_after_the_upgrade() -> None:
    driver = ConsumerDriver()
    members = classic_group(driver, 2, is_cooperative=False)
    leader = next(each for each in members if each.member_id == driver.group.leader_id)
    other = next(each for each in members if each is not leader)
    leader.owned = {}
    leader.joining = driver.join(leader.member_id, protocols=leader.offered())
    other.join()
    assert other.syncing is not None
    assert other.syncing.reply is None
    new = Consumer(driver, "new")
    new.join()
    settle(leader, other, new)
    assert shares(leader, other, new) == [2, 2, 2]


def test_classic_members_join_a_consumer_group_and_take_part(is_cooperative: bool) -> None:
    driver = ConsumerDriver()
    a = Consumer(driver, "a")
    a.join()
    classic = ClassicConsumer(driver, is_cooperative=is_cooperative)
    settle(a, classic)
    assert shares(a, classic) == [3, 3]
    member = driver.consumers.members[classic.member_id]
    assert member.uses_classic_protocol
    claim = CommitClaim(GROUP, classic.member_id, classic.generation, None)
    assert driver.consumers.check_commit(claim) is ErrorCode.none
    stale = claim._replace(generation_id=classic.generation + 1)
    assert driver.consumers.check_commit(stale) is ErrorCode.illegal_generation
    classic.leave()
    settle(a)
    assert a.owned == {ORDERS: SIX}
    assert kind(driver) is ConsumerGroup


def test_a_static_classic_member_comes_back_to_what_it_had() -> None:
    driver = ConsumerDriver()
    a = Consumer(driver, "a")
    a.join()
    static = ClassicConsumer(driver, instance_id="one")
    settle(a, static)
    had, epoch = static.owned, driver.consumers.group_epoch
    again = ClassicConsumer(driver, instance_id="one")
    again.join()
    assert again.owned == had
    assert driver.consumers.group_epoch == epoch
    assert static.beat() is ErrorCode.fenced_instance_id


def test_requests_of_others_than_classic_members_are_refused() -> None:
    driver = ConsumerDriver()
    driver.beat(first_request("a", instance_id="one"))
    assert driver.heartbeat("a", 1) is ErrorCode.unknown_member_id
    assert driver.heartbeat("b", 1) is ErrorCode.unknown_member_id
    assert driver.heartbeat("b", 1, "one") is ErrorCode.fenced_instance_id
    assert driver.heartbeat("b", 1, "two") is ErrorCode.unknown_member_id
    (left,) = driver.leave(LeavingMember("a")).members
    assert left.error is ErrorCode.unknown_member_id
    classic = ClassicConsumer(driver)
    classic.join()
    assert driver.heartbeat(classic.member_id, 99) is ErrorCode.illegal_generation
    wrong = driver.join(protocols=classic.offered(), protocol_type="connect").reply
    assert wrong is not None
    assert wrong.error is ErrorCode.inconsistent_group_protocol  # type: ignore[attr-defined] # a JoinReply


def test_a_classic_member_that_is_asked_to_join_and_does_not_is_removed() -> None:
    driver = ConsumerDriver(session_timeout_ms=1_000_000)
    a = Consumer(driver, "a")
    a.join()
    classic = ClassicConsumer(driver)
    settle(a, classic)
    Consumer(driver, "b").join()
    for _ in range(61):
        classic.beat()
        driver.run_timers(1_000)
    assert sorted(driver.consumers.members) == ["a", "b"]


def test_a_classic_member_that_never_asks_for_its_assignment_is_removed() -> None:
    driver = ConsumerDriver(session_timeout_ms=1_000_000)
    Consumer(driver, "a").join()
    classic = ClassicConsumer(driver)
    driver.join("me", protocols=classic.offered(), session_timeout_ms=1_000_000)
    assert "me" in driver.consumers.members
    driver.run_timers(60_000)
    assert "me" not in driver.consumers.members


@pytest.mark.parametrize(
    ("policy", "upgrades", "downgrades"),
    [
        (MigrationPolicy.BIDIRECTIONAL, True, True),
        (MigrationPolicy.UPGRADE, True, False),
        (MigrationPolicy.DOWNGRADE, False, True),
        (MigrationPolicy.DISABLED, False, False),
    ],
)
def test_the_policy_says_which_way_groups_with_members_go(
    policy: MigrationPolicy, upgrades: bool, downgrades: bool
) -> None:
    driver = ConsumerDriver(migration_policy=policy)
    classic_group(driver, 1, is_cooperative=True)
    error = ErrorCode.none if upgrades else ErrorCode.group_id_not_found
    driver.beat(first_request("new"), error)
    other = ConsumerDriver(migration_policy=policy)
    a, classic = Consumer(other, "a"), ClassicConsumer(other)
    a.join()
    settle(a, classic)
    a.leave()
    assert kind(other) is (ClassicGroup if downgrades else ConsumerGroup)


def test_a_group_without_members_changes_whatever_the_policy() -> None:
    driver = ConsumerDriver(migration_policy=MigrationPolicy.DISABLED)
    (member,) = classic_group(driver, 1, is_cooperative=True)
    member.leave()
    driver.run_timers(10)
    driver.beat(first_request("a"))
    assert kind(driver) is ConsumerGroup
    driver.beat(request("a", -1))
    classic_group(driver, 1, is_cooperative=True)
    assert kind(driver.moved()) is ClassicGroup


def test_groups_of_others_than_consumers_stay_as_they_are() -> None:
    driver = ConsumerDriver()
    driver.first_join(protocol_type="connect")
    driver.beat(first_request("a"), ErrorCode.group_id_not_found)
    assert kind(driver) is ClassicGroup


def test_a_group_too_large_for_the_other_kind_stays_what_it_is() -> None:
    driver = ConsumerDriver(max_size=1)
    classic_group(driver, 2, is_cooperative=True)
    driver.beat(first_request("a"), ErrorCode.group_id_not_found)
    other = ConsumerDriver(classic_max_size=1)
    a, *classic = Consumer(other, "a"), ClassicConsumer(other), ClassicConsumer(other)
    a.join()
    settle(a, *classic)
    a.leave()
    assert kind(other) is ConsumerGroup


def test_an_upgrade_that_cannot_be_written_leaves_a_classic_group() -> None:
    driver = ConsumerDriver()
    classic = classic_group(driver, 2, is_cooperative=True)
    driver.fail_appends = ErrorCode.coordinator_not_available
    driver.beat(first_request("a"), ErrorCode.coordinator_not_available)
    driver.fail_appends = None
    assert kind(driver) is ClassicGroup
    settle(*classic)
    assert sum(shares(*classic)) == 6


def test_what_a_careless_leader_gave_to_two_members_one_of_them_has() -> None:
    driver = ConsumerDriver({"orders": Topic(ORDERS, 2), "bills": Topic(BILLS, 1)})
    members = [ClassicConsumer(driver, is_greedy=True) for _ in range(2)]
    for _ in range(6):
        for member in members:
            member.work()
        driver.run_timers(100)
    assert owned_twice(*members)
    driver.beat(first_request("new"))
    classic = [driver.consumers.members[member.member_id] for member in members]
    assert sorted(len(member.assigned) for member in classic) == [0, 1]
