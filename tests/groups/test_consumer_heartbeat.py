"""Members of consumer groups join, hear what they have, leave and are fenced, as Kafka has it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.groups.classic.classic_messages import CommitClaim
from barnabas.groups.consumer import consumer_turn
from barnabas.groups.consumer.consumer_group import ConsumerGroupState
from barnabas.groups.consumer.consumer_member import MemberState
from barnabas.groups.consumer.consumer_messages import ConsumerHeartbeatRequest, Topic
from barnabas.groups.consumer.target_assignment import decide_targets
from tests.groups.consumer_driver import (
    BILLS,
    CLICKS,
    ORDERS,
    Consumer,
    ConsumerDriver,
    first_request,
    owned_twice,
    request,
)
from tests.groups.driver import GROUP

SIX = frozenset(range(6))


def settle(*consumers: Consumer) -> None:
    for _ in range(6):
        for consumer in consumers:
            consumer.beat()
            consumer.obey()
            assert not owned_twice(*consumers)


def shares(*consumers: Consumer) -> list[int]:
    return sorted(sum(map(len, consumer.owned.values())) for consumer in consumers)


def test_the_first_member_is_given_an_id_an_epoch_and_everything_at_once() -> None:
    driver = ConsumerDriver(heartbeat_interval_ms=3_000)
    reply = driver.beat(first_request("", knows_its_id=False))
    assert reply.member_id
    assert reply.member_epoch == 1
    assert reply.heartbeat_interval_ms == 3_000
    assert reply.assignment == {ORDERS: SIX}
    assert driver.consumers.state is ConsumerGroupState.STABLE


def test_a_client_may_make_its_own_id() -> None:
    assert ConsumerDriver().beat(first_request("mine")).member_id == "mine"


def test_a_heartbeat_that_changes_nothing_writes_nothing_and_says_nothing_new() -> None:
    driver = ConsumerDriver()
    driver.beat(first_request("a"))
    written = len(driver.log)
    reply = driver.beat(request("a", 1))
    assert reply.assignment is None
    assert len(driver.log) == written


def test_a_full_heartbeat_gets_the_whole_assignment_again() -> None:
    driver = ConsumerDriver()
    driver.beat(first_request("a"))
    full = first_request("a", member_epoch=1, owned={ORDERS: SIX})
    assert driver.beat(full).assignment == {ORDERS: SIX}


def test_a_partition_is_given_up_before_another_member_has_it() -> None:
    driver = ConsumerDriver()
    a, b = Consumer(driver, "a"), Consumer(driver, "b")
    a.join()
    a.obey()
    b.join()
    b.obey()
    assert b.owned == {}
    assert driver.consumers.members["b"].state is MemberState.UNRELEASED_PARTITIONS
    assert driver.consumers.listed().state == "Reconciling"
    a.beat()
    assert a.epoch == 1  # it stays there until it has given up
    b.beat()
    b.obey()
    assert b.owned == {}
    a.obey()
    a.beat()
    assert a.epoch == 2
    b.beat()
    b.obey()
    assert shares(a, b) == [3, 3]
    assert driver.consumers.state is ConsumerGroupState.STABLE


def test_members_that_come_and_go_share_evenly_and_little_moves() -> None:
    driver = ConsumerDriver({"orders": Topic(ORDERS, 10), "bills": Topic(BILLS, 5)})
    members = [Consumer(driver, name, ("bills", "orders")) for name in "abcd"]
    for count in range(1, 5):
        members[count - 1].join()
        settle(*members[:count])
        assert sum(shares(*members[:count])) == 15
    assert shares(*members) == [3, 4, 4, 4]
    before = {m.member_id: m.owned for m in members}
    members[1].leave()
    settle(members[0], *members[2:])
    assert shares(members[0], *members[2:]) == [5, 5, 5]
    for member in (members[0], *members[2:]):
        for topic, partitions in before[member.member_id].items():
            assert partitions <= member.owned[topic]


def test_a_changed_subscription_begins_an_epoch() -> None:
    driver = ConsumerDriver({"orders": Topic(ORDERS, 2), "bills": Topic(BILLS, 1)})
    a = Consumer(driver, "a")
    a.join()
    a.obey()
    a.subscribe("bills", "nowhere")
    assert driver.consumers.group_epoch == 2
    assert driver.consumers.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    a.obey()
    a.beat()
    assert a.told == {BILLS: frozenset({0})}
    assert a.epoch == 2


def test_created_grown_and_deleted_topics_are_reassigned() -> None:
    driver = ConsumerDriver({"orders": Topic(ORDERS, 1)})
    a = Consumer(driver, "a", ("bills", "orders"))
    a.join()
    a.obey()
    for change, expected in (
        (("orders", Topic(ORDERS, 3)), {ORDERS: frozenset({0, 1, 2})}),
        (("bills", Topic(BILLS, 1)), {ORDERS: frozenset({0, 1, 2}), BILLS: frozenset({0})}),
        (("orders", None), {BILLS: frozenset({0})}),
    ):
        driver.change_topic(*change)
        settle(a)
        assert a.owned == expected
    driver.change_topic("clicks", Topic(CLICKS, 1))
    epoch = driver.consumers.group_epoch
    settle(a)
    assert driver.consumers.group_epoch == epoch


def test_the_assignor_that_most_ask_for_is_chosen() -> None:
    driver = ConsumerDriver({"orders": Topic(ORDERS, 4), "bills": Topic(BILLS, 4)})
    for name in "abc":
        chosen = None if name == "c" else "range"
        driver.beat(first_request(name, "orders", "bills", server_assignor=chosen))
    assert driver.consumers.target("a") == {ORDERS: frozenset({0, 1}), BILLS: frozenset({0, 1})}
    assert driver.consumer.describe(driver.consumers, GROUP).assignor == "range"


def test_a_regular_expression_subscribes_to_what_it_matches_and_will_match() -> None:
    driver = ConsumerDriver({"orders": Topic(ORDERS, 1), "clicks": Topic(CLICKS, 1)})
    joining = first_request("a", subscribed_topic_names=None, subscribed_topic_regex="^(or|b).*s")
    assert driver.beat(joining).assignment == {ORDERS: frozenset({0})}
    driver.change_topic("bills", Topic(BILLS, 1))
    assert driver.beat(request("a", 1)).assignment == {
        ORDERS: frozenset({0}),
        BILLS: frozenset({0}),
    }
    assert driver.consumers.is_subscribed_to("bugs")
    assert not driver.consumers.is_subscribed_to("clicks")


def test_an_expression_finds_no_topic_that_the_client_may_not_describe() -> None:
    driver = ConsumerDriver({"orders": Topic(ORDERS, 1), "bills": Topic(BILLS, 1)})
    hidden = {"bills"}

    def may_describe(topic: str) -> bool:
        return topic not in hidden

    def owned() -> Mapping[UUID, frozenset[int]]:
        epoch = driver.consumers.members["a"].epoch
        driver.beat(request("a", epoch, may_describe=may_describe))
        return driver.consumers.members["a"].assigned

    joining = first_request("a", subscribed_topic_names=(), subscribed_topic_regex=".*")
    driver.beat(replace(joining, may_describe=may_describe))
    assert owned() == {ORDERS: frozenset({0})}
    # Nor one that changes while others come and go, whose rights are not known.
    driver.beat(first_request("b", "orders", may_describe=may_describe))
    driver.change_topic("bills", Topic(BILLS, 2))
    driver.beat(request("b", -1))
    assert owned() == {ORDERS: frozenset({0})}
    hidden.clear()
    driver.change_topic("bills", Topic(BILLS, 2))
    assert owned() == {ORDERS: frozenset({0}), BILLS: frozenset({0, 1})}
    # The next heartbeat finds new topics after another member leaves.
    driver.beat(first_request("b", "orders"))
    driver.change_topic("clicks", Topic(CLICKS, 1))
    driver.beat(request("b", -1))
    assert CLICKS in owned()


def test_an_empty_expression_is_none_at_all_and_takes_back_one_there_was() -> None:
    driver = ConsumerDriver({"orders": Topic(ORDERS, 1), "bills": Topic(BILLS, 1)})
    driver.beat(first_request("a", subscribed_topic_regex=""))
    assert driver.consumers.members["a"].metadata.subscribed_topic_regex is None
    driver.beat(request("a", 1, subscribed_topic_regex="b.*"))
    assert driver.consumers.target("a").keys() == {ORDERS, BILLS}
    driver.beat(request("a", 2, subscribed_topic_regex=""))
    assert driver.consumers.target("a").keys() == {ORDERS}


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (first_request("a", group_id=" "), "GroupId can't be empty."),
        (first_request("a", instance_id=""), "InstanceId can't be empty."),
        (first_request("a", rack_id=""), "RackId can't be empty."),
        (first_request(""), "MemberId can't be empty."),
        (request("", 3), "MemberId can't be empty."),
        (request("", -1, knows_its_id=False), "MemberId can't be empty."),
        (request("a", -2), "InstanceId can't be null."),
        (request("a", -3), "MemberEpoch is invalid."),
        (
            first_request("a", rebalance_timeout_ms=-1),
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (first_request("a", owned=None), "TopicPartitions must be empty when (re-)joining."),
        (
            first_request("a", owned={ORDERS: SIX}),
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            first_request("", subscribed_topic_names=(), knows_its_id=False),
            "SubscribedTopicNames must be set in first request.",
        ),
    ],
)
def test_requests_that_cannot_be_right_are_refused(
    asked: ConsumerHeartbeatRequest, message: str
) -> None:
    assert ConsumerDriver().beat(asked, ErrorCode.invalid_request).error_message == message


def test_an_unknown_assignor_or_a_wrong_expression_is_refused() -> None:
    driver = ConsumerDriver()
    reply = driver.beat(first_request("a", server_assignor="mine"), ErrorCode.unsupported_assignor)
    assert reply.error_message is not None
    assert "Supported assignors: uniform, range." in reply.error_message
    driver.beat(
        first_request("a", subscribed_topic_regex="(a"), ErrorCode.invalid_regular_expression
    )


def test_an_unknown_member_gets_unknown_member_id() -> None:
    driver = ConsumerDriver()
    driver.beat(request("a", 1), ErrorCode.group_id_not_found)
    driver.beat(request("a", -1), ErrorCode.group_id_not_found)
    driver.beat(first_request("a"))
    driver.beat(request("b", 1), ErrorCode.unknown_member_id)
    driver.beat(request("b", -1), ErrorCode.unknown_member_id)
    driver.beat(request("b", 1, instance_id="i"), ErrorCode.unknown_member_id)


def test_a_full_group_takes_nobody_else() -> None:
    driver = ConsumerDriver(max_size=1)
    driver.beat(first_request("a"))
    driver.beat(first_request("b"), ErrorCode.group_max_size_reached)
    driver.beat(request("a", 1))


def test_members_together_subscribe_to_no_more_than_a_group_holds() -> None:
    driver = ConsumerDriver(max_bytes=20_000, max_member_bytes=10_000)
    names = [f"topic-{number:04}-{'x' * 89}" for number in range(100)]  # of 100 bytes
    long = {"subscribed_topic_names": tuple(names[:80])}
    driver.beat(
        first_request("a", subscribed_topic_names=tuple(names)), ErrorCode.group_max_size_reached
    )
    driver.beat(first_request("a", **long))
    driver.beat(first_request("b", **long))
    driver.beat(first_request("c", **long), ErrorCode.group_max_size_reached)
    driver.beat(request("a", 1))
    driver.beat(request("b", -1))
    driver.beat(first_request("c", **long))


def test_other_epochs_are_fenced_but_for_the_last_one_whose_answer_may_be_lost() -> None:
    driver = ConsumerDriver()
    driver.beat(first_request("a"))
    driver.beat(request("a", 2), ErrorCode.fenced_member_epoch)
    driver.beat(request("a", 1, subscribed_topic_names=("orders", "bills")))
    driver.beat(request("a", 1, owned={ORDERS: SIX}))
    driver.beat(request("a", 1), ErrorCode.fenced_member_epoch)
    driver.beat(request("a", 1, owned={BILLS: SIX}), ErrorCode.fenced_member_epoch)


def test_a_member_that_was_fenced_joins_again_and_has_what_it_had() -> None:
    driver = ConsumerDriver()
    a = Consumer(driver, "a")
    a.join()
    a.obey()
    a.epoch = 7
    assert a.beat().error is ErrorCode.fenced_member_epoch
    a.beat()
    assert a.told == {ORDERS: SIX}
    assert driver.consumers.group_epoch == 1


# -- silence --------------------------------------------------------------------------------------


def test_a_member_without_heartbeats_is_removed_and_its_partitions_are_reassigned() -> None:
    driver = ConsumerDriver(session_timeout_ms=10_000)
    a, b = Consumer(driver, "a"), Consumer(driver, "b")
    a.join()
    b.join()
    settle(a, b)
    driver.run_timers(6_000)
    a.beat()
    driver.run_timers(6_000)
    assert list(driver.consumers.members) == ["a"]
    settle(a)
    assert a.owned == {ORDERS: SIX}


def test_a_member_that_does_not_give_up_in_time_is_removed() -> None:
    driver = ConsumerDriver(session_timeout_ms=1_000_000)
    a, b = Consumer(driver, "a"), Consumer(driver, "b")
    a.join()
    a.obey()
    b.join()
    a.beat()
    driver.run_timers(29_000)
    assert "a" in driver.consumers.members
    driver.run_timers(1_000)
    assert "a" not in driver.consumers.members
    b.beat()
    assert b.told == {ORDERS: SIX}


def test_timers_go_on_where_the_shard_moved_to() -> None:
    driver = ConsumerDriver(session_timeout_ms=50_000)
    a, b = Consumer(driver, "a"), Consumer(driver, "b")
    a.join()
    a.obey()
    b.join()
    a.beat()
    moved = driver.moved()
    moved.run_timers(31_000)
    assert list(moved.consumers.members) == ["b"]
    moved.run_timers(20_000)
    assert moved.consumers.state is ConsumerGroupState.EMPTY


# -- static members -------------------------------------------------------------------------------


def test_a_static_member_comes_back_under_another_id_to_what_it_had() -> None:
    driver = ConsumerDriver()
    a, b = Consumer(driver, "a", instance_id="one"), Consumer(driver, "b", instance_id="two")
    a.join()
    b.join()
    settle(a, b)
    had, epoch = a.owned, driver.consumers.group_epoch
    a.leave(-2)
    again = Consumer(driver, "c", instance_id="one")
    again.join()
    assert again.told == had
    assert driver.consumers.group_epoch == epoch
    assert list(driver.consumers.members) == ["b", "c"]
    driver.beat(request("a", epoch, instance_id="one"), ErrorCode.fenced_instance_id)


def test_an_instance_id_in_use_is_not_given_to_another() -> None:
    driver = ConsumerDriver()
    driver.beat(first_request("a", instance_id="one"))
    driver.beat(first_request("b", instance_id="one"), ErrorCode.unreleased_instance_id)
    driver.beat(first_request("a", instance_id="one"))


def test_a_static_member_that_does_not_come_back_is_removed() -> None:
    driver = ConsumerDriver(session_timeout_ms=10_000)
    a = Consumer(driver, "a", instance_id="one")
    a.join()
    a.leave(-2)
    assert driver.consumers.members["a"].is_away
    driver.run_timers(10_000)
    assert driver.consumers.is_empty


# -- offsets, and asking --------------------------------------------------------------------------


def test_only_members_of_the_epoch_commit_and_fetch() -> None:
    driver = ConsumerDriver()
    driver.beat(first_request("a"))
    group = driver.consumers
    assert group.check_commit(CommitClaim(GROUP, "a", 1)) is ErrorCode.none
    assert group.check_commit(CommitClaim(GROUP, "a", 2)) is ErrorCode.stale_member_epoch
    assert group.check_commit(CommitClaim(GROUP, "b", 1)) is ErrorCode.unknown_member_id
    assert group.check_commit(CommitClaim(GROUP)) is ErrorCode.unknown_member_id
    transactional = CommitClaim(GROUP, is_transactional=True)
    assert group.check_commit(transactional) is ErrorCode.none
    stale = transactional._replace(member_id="a", generation_id=2)
    assert group.check_commit(stale) is ErrorCode.stale_member_epoch
    unknown = transactional._replace(member_id="b")
    assert group.check_commit(unknown) is ErrorCode.unknown_member_id
    old = CommitClaim(GROUP, "a", 1, knows_group_id_not_found=False)
    assert group.check_commit(old) is ErrorCode.unsupported_version
    assert group.check_fetch("a", 1) is ErrorCode.none
    assert group.check_fetch(None, -1) is ErrorCode.none
    assert group.check_fetch("a", 3) is ErrorCode.stale_member_epoch
    assert group.check_fetch("b", 1) is ErrorCode.unknown_member_id
    assert group.check_delete() is ErrorCode.non_empty_group
    assert group.check_offset_delete() is ErrorCode.none
    assert group.is_subscribed_to("orders")
    driver.beat(request("a", -1))
    assert group.check_commit(CommitClaim(GROUP)) is ErrorCode.none
    assert group.check_delete() is ErrorCode.none
    assert not group.is_subscribed_to("orders")


def test_a_described_group_has_current_and_target_assignments() -> None:
    driver = ConsumerDriver({"orders": Topic(ORDERS, 2)})
    driver.beat(first_request("a", rack_id="r1"))
    driver.beat(first_request("b"))
    told = driver.consumer.describe(driver.consumers, GROUP)
    assert (told.state, told.group_epoch, told.assignment_epoch) == ("Reconciling", 2, 2)
    assert told.assignor == "uniform"
    first, second = told.members
    assert (first.member_id, first.member_epoch, first.rack_id) == ("a", 1, "r1")
    assert first.assignment == ((ORDERS, "orders", (0, 1)),)
    assert first.target_assignment == ((ORDERS, "orders", (0,)),)
    assert (second.member_epoch, second.assignment) == (2, ())
    assert driver.consumers.listed() == (GROUP, "consumer", "Reconciling", "consumer")
    missing = driver.consumer.describe(None, "none")
    assert missing.error is ErrorCode.group_id_not_found


def test_an_empty_group_can_be_deleted_and_nothing_is_left() -> None:
    driver = ConsumerDriver()
    driver.beat(first_request("a"))
    driver.beat(request("a", -1))
    driver.ask(driver.shard.delete([GROUP]))
    assert GROUP not in driver.shard.groups
    assert driver.moved().shard.groups == {}


def test_nothing_happens_when_the_log_refuses() -> None:
    driver = ConsumerDriver()
    driver.fail_appends = ErrorCode.coordinator_not_available
    reply = driver.beat(first_request("a"), ErrorCode.coordinator_not_available)
    assert reply.member_epoch == 0
    assert driver.shard.groups == {}
    driver.fail_appends = None
    assert driver.beat(first_request("a")).assignment == {ORDERS: SIX}


def test_a_member_is_alive_though_nothing_can_be_written_of_it() -> None:
    driver = ConsumerDriver()
    driver.beat(first_request("a"))
    driver.change_topic("orders", Topic(ORDERS, 7))
    driver.fail_appends = ErrorCode.coordinator_not_available
    for _ in range(20):
        driver.run_timers(5_000)
        driver.beat(request("a", 1, owned={ORDERS: SIX}), ErrorCode.coordinator_not_available)
    driver.fail_appends = None
    driver.run_timers(1_000)
    assert "a" in driver.consumers.members


def test_a_member_that_is_lost_is_fenced_as_soon_as_that_can_be_written() -> None:
    driver = ConsumerDriver()
    driver.beat(first_request("a"))
    driver.fail_appends = ErrorCode.coordinator_not_available
    driver.run_timers(60_000)
    assert "a" in driver.consumers.members
    driver.fail_appends = None
    driver.run_timers(1_000)
    assert driver.consumers.is_empty


def test_a_hundred_members_share_five_hundred_partitions() -> None:
    topics = {f"t{number}": Topic(UUID(int=number + 1), 100) for number in range(5)}
    driver = ConsumerDriver(topics)
    members = [Consumer(driver, f"m{number:03}", tuple(topics)) for number in range(100)]
    for member in members:
        member.join()
    for _ in range(3):
        for member in members:
            member.beat()
            member.obey()
    assert shares(*members) == [5] * 100
    assert not owned_twice(*members)


def test_of_thousands_of_members_that_join_at_once_few_have_a_target_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A target for each would take time in proportion to the square of their number."""
    computed_for: list[int] = []

    def counted(assignor: str, members: Any, *of: Any) -> Any:
        computed_for.append(len(members))
        return decide_targets(assignor, members, *of)

    monkeypatch.setattr(consumer_turn, "decide_targets", counted)
    driver = ConsumerDriver({"orders": Topic(ORDERS, 3_000)})
    consumers = [Consumer(driver, f"member-{number:04}") for number in range(1_000)]
    for consumer in consumers:
        consumer.join()
        assert consumer.epoch > 0
        driver.loop_ms += 1
    few, alone = 30, consumer_turn.MANY_MEMBERS
    assert len(computed_for) < alone + few
    assert sum(computed_for[alone:]) < few * len(consumers)
    # Each has its share some heartbeats later, and no partition has two owners or none.
    for _ in range(4):
        driver.loop_ms += 5_000
        for consumer in consumers:
            consumer.work()
    assert driver.consumers.state is ConsumerGroupState.STABLE
    assert {len(consumer.owned[ORDERS]) for consumer in consumers} == {3}
    assert frozenset().union(*(consumer.owned[ORDERS] for consumer in consumers)) == frozenset(
        range(3_000)
    )
