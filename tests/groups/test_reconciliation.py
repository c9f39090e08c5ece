"""A member's way to its target, step by step, and the laws that it keeps."""

from dataclasses import replace

import pytest

from barnabas.base.errors import BrokerError, ErrorCode, LawBroken
from barnabas.groups.assignors.assignors import Assigned, Assignment, Counts, Members
from barnabas.groups.consumer.consumer_group import ConsumerGroup
from barnabas.groups.consumer.consumer_member import ConsumerMember, MemberState
from barnabas.groups.consumer.consumer_messages import Topic
from barnabas.groups.consumer.consumer_replay import apply_record, replay
from barnabas.groups.consumer.reconciliation import Target, law_of_one_owner, reconcile
from barnabas.groups.consumer.target_assignment import ASSIGNORS, decide_targets, subscribed_topics
from barnabas.groups.records.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadata,
)
from barnabas.groups.records.group_records import decode
from tests.groups.consumer_driver import (
    BILLS,
    ORDERS,
    Consumer,
    ConsumerDriver,
    first_request,
)
from tests.groups.driver import GROUP

SAID = ConsumerGroupMemberMetadataValue(
    client_id="client", client_host="/::1", subscribed_topic_names=("orders",)
)


def of_orders(*partitions: int) -> Assignment:
    return {ORDERS: frozenset(partitions)} if partitions else {}


def member(epoch: int, *assigned: int, **fields: object) -> ConsumerMember:
    made = ConsumerMember("a", SAID, epoch, epoch, assigned=of_orders(*assigned))
    return replace(made, **fields)  # type: ignore[arg-type] # fields of any member, by name


def test_what_is_free_is_given_at_once() -> None:
    nearer = reconcile(member(0), Target(3, of_orders(0, 1)), {}, {})
    assert nearer == member(3, 0, 1, previous_epoch=0)


def test_what_is_surplus_is_given_up_first_and_the_epoch_waits() -> None:
    target = Target(3, of_orders(1, 2))
    nearer = reconcile(member(2, 0, 1), target, {}, None)
    assert nearer == member(2, 1, state=MemberState.UNREVOKED_PARTITIONS, revoking=of_orders(0))
    assert reconcile(nearer, target, {}, None) is nearer
    assert reconcile(nearer, target, {}, of_orders(0, 1)) is nearer
    assert reconcile(nearer, target, {}, of_orders(1)) == member(3, 1, 2, previous_epoch=2)


def test_what_another_one_owns_is_waited_for() -> None:
    owners = {ORDERS: {1: "b", 2: "b"}}
    target = Target(3, of_orders(0, 1, 2))
    nearer = reconcile(member(2), target, owners, None)
    assert nearer == member(3, 0, state=MemberState.UNRELEASED_PARTITIONS, previous_epoch=2)
    assert reconcile(nearer, target, owners, None) == replace(nearer, previous_epoch=3)
    free = reconcile(nearer, target, {ORDERS: {0: "a", 2: "b"}}, None)
    assert free.assigned == of_orders(0, 1)


def test_who_already_gave_up_what_it_is_to_give_up_goes_on_at_once() -> None:
    nearer = reconcile(member(2, 0, 1), Target(3, of_orders(1)), {}, of_orders(1))
    assert nearer == member(3, 1, previous_epoch=2)


def test_a_target_that_changed_meanwhile_is_gone_to_step_by_step() -> None:
    unrevoked = member(2, 1, state=MemberState.UNREVOKED_PARTITIONS, revoking=of_orders(0))
    nearer = reconcile(unrevoked, Target(5, of_orders(4)), {}, of_orders(1))
    assert (nearer.epoch, nearer.previous_epoch) == (3, 2)
    assert nearer.revoking == of_orders(1)
    assert reconcile(nearer, Target(5, of_orders(4)), {}, {}).epoch == 5


def test_a_member_in_a_state_of_a_newer_broker_must_rejoin() -> None:
    strange = member(2, 0, state=MemberState.UNKNOWN)
    with pytest.raises(BrokerError) as refused:
        reconcile(strange, Target(3, of_orders(0)), {}, of_orders(0))
    assert refused.value.code is ErrorCode.fenced_member_epoch
    assert reconcile(strange, Target(3, of_orders(0)), {}, {}).is_reconciled_to(3)


# -- laws -----------------------------------------------------------------------------------------


def test_a_partition_of_another_member_is_never_written_down() -> None:
    law_of_one_owner(GROUP, member(2, 0), {ORDERS: {0: "b"}}, "b")
    with pytest.raises(LawBroken, match="GRP-10"):
        law_of_one_owner(GROUP, member(2, 0), {ORDERS: {0: "b"}}, None)


def test_a_member_ahead_of_its_target_is_noticed() -> None:
    with pytest.raises(LawBroken, match="GRP-11"):
        reconcile(member(4), Target(3, {}), {}, None)


def test_an_assignor_that_forgets_partitions_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(members: Members, _: Counts) -> Assigned:
        return {each: {} for each in members}

    monkeypatch.setitem(ASSIGNORS, "uniform", forgetful)
    topics = subscribed_topics([member(0)], {"orders": Topic(ORDERS, 2)})
    with pytest.raises(LawBroken, match="GRP-12"):
        decide_targets("uniform", {"a": member(0)}, topics, {})


# -- replaying ------------------------------------------------------------------------------------


def test_compaction_may_leave_what_a_member_has_before_what_it_said() -> None:
    driver = ConsumerDriver()
    driver.beat(first_request("a"))
    records = [decode(*record) for record in driver.log]
    said = [each for each in records if isinstance(each, ConsumerGroupMemberMetadata)]
    others = [each for each in records if each not in said]
    groups: dict[str, object] = {}
    for record in (*others, *said):
        assert record is not None
        replay(groups, record)
    loaded = groups[GROUP]
    assert isinstance(loaded, ConsumerGroup)
    assert loaded.members == driver.consumers.members
    assert loaded.owners == driver.consumers.owners


def test_tombstones_of_what_is_gone_are_passed_over() -> None:
    groups: dict[str, object] = {}
    for record in (
        ConsumerGroupCurrentMemberAssignment(GROUP, "a"),
        ConsumerGroupMemberMetadata(GROUP, "a"),
        ConsumerGroupMetadata(GROUP),
    ):
        replay(groups, record)
        apply_record(ConsumerGroup(GROUP), record)
    assert groups == {}


def test_racks_of_partitions_are_written_down_and_their_change_begins_an_epoch() -> None:
    driver = ConsumerDriver({"orders": Topic(ORDERS, 2, (("b", "a"), ()))})
    a = Consumer(driver, "a")
    a.join()
    (metadata,) = driver.consumers.topics["orders"].partition_metadata
    assert (metadata.partition, metadata.racks) == (0, ("a", "b"))
    driver.change_topic("orders", Topic(ORDERS, 2, (("b", "a"), ("c",))))
    a.beat()
    assert driver.consumers.group_epoch == 2
    assert BILLS not in driver.consumers.owners
