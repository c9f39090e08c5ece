"""A shard's groups and offsets together: simple groups, commits, listing, deletion, expiry."""

from typing import ClassVar, cast

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.coordinator.result import CoordinatorResult
from barnabas.groups.classic.classic_messages import (
    CommitClaim,
    DeleteReply,
    JoinRequest,
    LeavingMember,
    ListedGroup,
    OfferedProtocol,
)
from barnabas.groups.classic.classic_state import GroupState
from barnabas.groups.offsets.offset_messages import (
    AskedTopic,
    OffsetsReply,
    PartitionCommit,
    TopicCommits,
)
from barnabas.groups.records.consumer_group_records import (
    ConsumerGroupMetadata,
    ConsumerGroupMetadataValue,
)
from barnabas.groups.records.group_records import encode
from barnabas.groups.shard_group import ShardGroup
from tests.groups.driver import GROUP, NO_CONSUMER_SIDE, Driver, join_request, joined

DAY_MS = 24 * 3600 * 1000
NOBODY = CommitClaim(GROUP)
NOT_AVAILABLE = ErrorCode.coordinator_not_available


def commit(driver: Driver, claim: CommitClaim = NOBODY, topic: str = "orders") -> ErrorCode:
    """Commit offset 7 of partition 0; the error for all, or that of the partition."""
    topics = [TopicCommits(topic, [PartitionCommit(0, 7)])]
    reply = driver.ask(driver.shard.offsets.commit(claim, topics, driver.now)).reply
    assert isinstance(reply, OffsetsReply)
    return reply.error or reply.topics[0].partitions[0].error


def committed(driver: Driver, topic: str = "orders") -> int:
    reply = driver.shard.offsets.fetch(GROUP, [AskedTopic(topic, [0])])
    assert reply.error is ErrorCode.none
    return reply.topics[0].partitions[0].offset


def delete_offset(driver: Driver, topic: str = "orders") -> ErrorCode:
    result = driver.shard.offsets.delete(GROUP, [AskedTopic(topic, [0])])
    reply = driver.ask(result).reply
    assert isinstance(reply, OffsetsReply)
    return reply.error or reply.topics[0].partitions[0].error


def delete(driver: Driver, *group_ids: str) -> list[ErrorCode]:
    reply = driver.ask(driver.shard.delete(group_ids)).reply
    assert isinstance(reply, DeleteReply)
    return list(reply.errors.values())


def expire(driver: Driver) -> None:
    driver.ask(driver.shard.offsets.expire(driver.now))


# -- commits ---------------------------------------------------------------------------------


def test_a_commit_by_nobody_in_particular_makes_a_simple_group() -> None:
    driver = Driver()
    assert commit(driver) is ErrorCode.none
    assert committed(driver) == 7
    assert driver.shard.list_groups() == [ListedGroup(GROUP, "", "Empty", "classic")]
    assert committed(driver.reloaded()) == 7
    assert driver.reloaded().group.protocol_type is None


def test_a_group_that_does_not_exist_has_committed_nothing() -> None:
    assert committed(Driver()) == -1


def test_a_member_commits_in_its_generation_and_nobody_else_does() -> None:
    driver = Driver()
    [member] = driver.stable(1)
    assert commit(driver, CommitClaim(GROUP, member, 1)) is ErrorCode.none
    assert commit(driver, CommitClaim(GROUP, member, 0)) is ErrorCode.illegal_generation
    assert commit(driver, CommitClaim(GROUP, "who", 1)) is ErrorCode.unknown_member_id
    assert commit(driver, CommitClaim(GROUP, "", 1)) is ErrorCode.unknown_member_id
    assert commit(driver, NOBODY) is ErrorCode.unknown_member_id
    assert commit(driver, CommitClaim(GROUP, member, 1, "i")) is ErrorCode.unknown_member_id


def test_members_may_commit_while_others_join_but_not_before_they_know_their_assignment() -> None:
    driver = Driver()
    [member] = driver.stable(1)
    _, pending = driver.first_join()
    assert commit(driver, CommitClaim(GROUP, member, 1)) is ErrorCode.none
    driver.join(member)
    joined(pending)
    claim = CommitClaim(GROUP, member, 2)
    assert commit(driver, claim) is ErrorCode.rebalance_in_progress
    assert commit(driver, claim._replace(is_transactional=True)) is ErrorCode.none


def test_a_commit_to_a_group_that_does_not_exist_is_refused_as_its_version_understands() -> None:
    driver = Driver()
    claim = CommitClaim(GROUP, "m", 3)
    assert commit(driver, claim) is ErrorCode.group_id_not_found
    old = claim._replace(knows_group_id_not_found=False)
    assert commit(driver, old) is ErrorCode.illegal_generation
    transactional = claim._replace(is_transactional=True)
    assert commit(driver, transactional) is ErrorCode.illegal_generation


def test_a_transaction_without_member_commits_to_a_group_with_members() -> None:
    driver = Driver()
    driver.stable(1)
    assert commit(driver, CommitClaim(GROUP, is_transactional=True)) is ErrorCode.none


def test_one_who_commits_is_alive() -> None:
    driver = Driver()
    [member] = driver.stable(1)
    for _ in range(3):
        driver.run_timers(8_000)
        assert commit(driver, CommitClaim(GROUP, member, 1)) is ErrorCode.none
    assert driver.state is GroupState.STABLE


def test_a_commit_that_cannot_be_written_changes_nothing_and_disturbs_no_group() -> None:
    driver = Driver()
    [member] = driver.stable(1)
    driver.fail_appends = NOT_AVAILABLE
    assert commit(driver, CommitClaim(GROUP, member, 1)) is NOT_AVAILABLE
    assert committed(driver) == -1
    assert driver.state is GroupState.STABLE


def test_offsets_of_a_transaction_count_when_it_commits() -> None:
    driver = Driver()
    topics = [TopicCommits("orders", [PartitionCommit(0, 9)])]
    claim = CommitClaim(GROUP, is_transactional=True)
    for record in driver.shard.offsets.commit(claim, topics, driver.now).records:
        driver.shard.replay(record, producer_id=5)
    assert committed(driver) == -1
    driver.shard.replay_end_of_transaction(5, is_committed=True)
    assert committed(driver) == 9


# -- deletion and expiry -----------------------------------------------------------------------


def test_offsets_of_topics_that_members_want_are_not_deleted() -> None:
    driver = Driver()
    [member] = driver.stable(1)
    claim = CommitClaim(GROUP, member, 1)
    commit(driver, claim)
    commit(driver, claim, "bills")
    assert delete_offset(driver, "orders") is ErrorCode.group_subscribed_to_topic
    assert delete_offset(driver, "bills") is ErrorCode.none
    assert (committed(driver, "orders"), committed(driver, "bills")) == (7, -1)


def test_offsets_of_members_that_are_no_consumers_are_deleted_only_after_they_left() -> None:
    driver = Driver()
    assert delete_offset(driver) is ErrorCode.group_id_not_found
    protocols = (OfferedProtocol("compatible", b"?"),)
    [member] = driver.stable(1, protocol_type="connect", protocols=protocols)
    commit(driver, CommitClaim(GROUP, member, 1))
    assert delete_offset(driver) is ErrorCode.non_empty_group
    driver.leave(LeavingMember(member))
    assert delete_offset(driver) is ErrorCode.none


def test_consumers_whose_subscription_is_unreadable_may_want_any_topic() -> None:
    driver = Driver()
    [member] = driver.stable(1, protocols=(OfferedProtocol("range", b"?"),))
    commit(driver, CommitClaim(GROUP, member, 1))
    assert delete_offset(driver) is ErrorCode.group_subscribed_to_topic


def test_only_groups_without_members_are_deleted_with_all_they_committed() -> None:
    driver = Driver()
    [member] = driver.stable(1)
    commit(driver, CommitClaim(GROUP, member, 1))
    missing = ErrorCode.group_id_not_found
    assert delete(driver, GROUP, "nope") == [ErrorCode.non_empty_group, missing]
    driver.leave(LeavingMember(member))
    assert delete(driver, GROUP) == [ErrorCode.none]
    assert not driver.shard.groups
    assert committed(driver) == -1
    assert not driver.reloaded().shard.groups


def test_a_deletion_that_cannot_be_written_deletes_nothing() -> None:
    driver = Driver()
    commit(driver)
    driver.fail_appends = NOT_AVAILABLE
    assert delete(driver, GROUP, "nope") == [NOT_AVAILABLE, ErrorCode.group_id_not_found]
    assert committed(driver) == 7


def test_offsets_of_a_simple_group_expire_after_their_commit_and_the_group_with_them() -> None:
    driver = Driver()
    commit(driver)
    driver.run_timers(7 * DAY_MS - 1)
    expire(driver)
    assert committed(driver) == 7
    driver.run_timers(1)
    expire(driver)
    assert not driver.shard.groups
    assert not driver.reloaded().shard.groups


def test_offsets_of_a_group_expire_when_it_has_been_empty_for_long() -> None:
    driver = Driver()
    [member] = driver.stable(1)
    commit(driver, CommitClaim(GROUP, member, 1))
    for _ in range(2 * 7 * 24):
        driver.timers[("session", GROUP, member)] = driver.loop_ms + DAY_MS
        driver.run_timers(DAY_MS / 24)
    expire(driver)
    assert committed(driver) == 7
    driver.leave(LeavingMember(member))
    driver.run_timers(7 * DAY_MS - 1)
    expire(driver)
    assert committed(driver) == 7
    driver.run_timers(1)
    expire(driver)
    assert not driver.shard.groups


def test_offsets_of_partitions_that_are_no_more_are_removed() -> None:
    driver = Driver()
    commit(driver)
    driver.ask(driver.shard.offsets.on_partitions_deleted([TopicPartition("orders", 0)]))
    assert committed(driver.reloaded()) == -1


# -- what operators see ------------------------------------------------------------------------


def test_groups_are_listed_by_state_and_type_whatever_the_case() -> None:
    driver = Driver()
    driver.stable(1)
    assert [each.state for each in driver.shard.list_groups()] == ["Stable"]
    assert driver.shard.list_groups(["stable", "empty"], ["classic"]) != []
    assert driver.shard.list_groups(["empty"]) == []
    assert driver.shard.list_groups((), ["consumer"]) == []


def test_a_group_is_described_with_what_its_members_have() -> None:
    driver = Driver()
    ids = driver.stable(2)
    told = driver.shard.describe(GROUP)
    assert (told.state, told.protocol_type, told.protocol_name) == ("Stable", "consumer", "range")
    assert [each.assignment for each in told.members] == [each.encode() for each in ids]
    assert told.members[0].metadata.startswith(b"\0\0\0\0\0\1")
    driver.first_join()
    told = driver.shard.describe(GROUP)
    assert (told.state, told.protocol_name, len(told.members)) == ("PreparingRebalance", "", 3)
    assert {each.metadata for each in told.members} == {b""}


def test_a_group_that_does_not_exist_is_described_as_dead() -> None:
    assert Driver().shard.describe("nope").state == "Dead"


# -- groups of the other kind -------------------------------------------------------------------


class Other:
    """Stands for a consumer group."""

    group_id = GROUP
    is_empty = True
    members: ClassVar[dict[str, object]] = {}

    def tombstones(self) -> tuple[object, ...]:
        return (encode(ConsumerGroupMetadata(GROUP)),)


@pytest.fixture
def other() -> Other:
    return Other()


def test_an_empty_consumer_group_gives_way_to_a_classic_member(other: Other) -> None:
    driver = Driver()
    driver.shard.groups[GROUP] = cast(ShardGroup, other)
    joined(driver.join(), ErrorCode.member_id_required)
    assert driver.log == list(other.tombstones())
    assert driver.group.pending_members


@pytest.mark.parametrize("must_know_its_id", [True, False])
def test_a_consumer_group_that_cannot_give_way_stays(other: Other, must_know_its_id: bool) -> None:
    driver = Driver()
    driver.shard.groups[GROUP] = cast(ShardGroup, other)
    driver.fail_appends = NOT_AVAILABLE
    joined(driver.join(must_know_its_id=must_know_its_id), NOT_AVAILABLE)
    assert driver.shard.groups[GROUP] is cast(object, other)
    assert not driver.timers
    assert not driver.waiting


def test_a_classic_member_of_a_consumer_group_is_the_other_sides_affair(
    other: Other, monkeypatch: pytest.MonkeyPatch
) -> None:
    other.is_empty = False
    driver = Driver()
    driver.shard.groups[GROUP] = cast(ShardGroup, other)
    asked: list[JoinRequest] = []

    def join(group: object, request: JoinRequest, *_: object) -> CoordinatorResult[str]:
        asked.append(request)
        return CoordinatorResult("theirs")

    monkeypatch.setattr(NO_CONSUMER_SIDE, "join", join)
    assert driver.join("m").reply == "theirs"
    assert asked == [join_request("m")]


def test_records_of_consumer_groups_are_handed_to_the_other_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handed: list[object] = []
    monkeypatch.setattr(NO_CONSUMER_SIDE, "replay", lambda _, record: handed.append(record))
    told = ConsumerGroupMetadata(GROUP, ConsumerGroupMetadataValue(epoch=1))
    driver = Driver()
    driver.shard.replay(encode(told))
    assert handed == [told]


def test_a_group_that_became_a_classic_one_rebalances() -> None:
    driver = Driver()
    [member] = driver.stable(1)
    driver.timers[("rebalance", GROUP)] = driver.loop_ms
    driver.timers[("revocation", GROUP, member)] = driver.loop_ms
    driver.run_timers(0)
    assert driver.heartbeat(member, 1) is ErrorCode.rebalance_in_progress
