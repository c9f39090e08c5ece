"""Committed offsets: what is decided about them, and that the log tells all of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.coordinator.result import CoordinatorRecord
from barnabas.groups.offsets.committed_offsets import Offsets
from barnabas.groups.offsets.offset_messages import (
    AskedTopic,
    FetchedOffset,
    FetchedTopic,
    OffsetSettings,
    OffsetsReply,
    PartitionCommit,
    PartitionResult,
    TopicCommits,
    TopicResults,
)
from barnabas.groups.records.group_records import CommittedOffset, OffsetCommit, decode

RETENTION_MS = 1_000
OK = ErrorCode.none


@dataclass
class Owner:
    """A group as expiry sees it."""

    unused_since_ms: Callable[[int], int | None] = lambda commit_ms: commit_ms
    topics: frozenset[str] = field(default_factory=frozenset)

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.topics


def new_offsets() -> Offsets:
    return Offsets(OffsetSettings(metadata_max_bytes=10, retention_ms=RETENTION_MS))


def replay(offsets: Offsets, records: Iterable[CoordinatorRecord]) -> None:
    for record in records:
        commit = decode(*record)
        assert isinstance(commit, OffsetCommit)
        offsets.replay(commit)


def commit(
    offsets: Offsets, group: str, topic: str, *commits: PartitionCommit, at: int = 0
) -> None:
    replay(offsets, offsets.decide_commit(group, [TopicCommits(topic, commits)], at).records)


def fetched(offsets: Offsets, group: str, topic: str, *partitions: int) -> list[int]:
    (found,) = offsets.fetch(group, [AskedTopic(topic, partitions)]).topics
    return [each.offset for each in found.partitions]


# -- commit and fetch ----------------------------------------------------------------------------


def test_a_commit_counts_once_its_records_are_replayed() -> None:
    offsets = new_offsets()
    commits = [PartitionCommit(0, 5, 2, "m"), PartitionCommit(3, 7, metadata=None)]
    result = offsets.decide_commit("g", [TopicCommits("t", commits)], 100)
    assert result.reply == OffsetsReply(
        [TopicResults("t", [PartitionResult(0, OK), PartitionResult(3, OK)])]
    )
    assert "g" not in offsets
    replay(offsets, result.records)
    assert list(offsets) == [
        OffsetCommit("g", "t", 0, CommittedOffset(5, 2, "m", 100)),
        OffsetCommit("g", "t", 3, CommittedOffset(7, -1, "", 100)),
    ]
    assert offsets.fetch("g", [AskedTopic("t", [3, 1, 0]), AskedTopic("u", [0])]).topics == [
        FetchedTopic("t", [FetchedOffset(3, 7), FetchedOffset(1), FetchedOffset(0, 5, 2, "m")]),
        FetchedTopic("u", [FetchedOffset(0)]),
    ]


def test_all_offsets_of_a_group_are_fetched_if_none_is_named() -> None:
    offsets = new_offsets()
    commit(offsets, "g", "t", PartitionCommit(1, 10))
    commit(offsets, "g", "u", PartitionCommit(0, 20), PartitionCommit(2, 30))
    commit(offsets, "h", "t", PartitionCommit(1, 40))
    assert offsets.fetch("g", None).topics == [
        FetchedTopic("t", [FetchedOffset(1, 10)]),
        FetchedTopic("u", [FetchedOffset(0, 20), FetchedOffset(2, 30)]),
    ]
    assert offsets.fetch("nobody", None).topics == []


def test_a_later_commit_takes_the_place_of_an_earlier_one() -> None:
    offsets = new_offsets()
    commit(offsets, "g", "t", PartitionCommit(0, 10))
    commit(offsets, "g", "t", PartitionCommit(0, 4), PartitionCommit(0, 3))
    assert fetched(offsets, "g", "t", 0) == [3]


def test_metadata_that_is_too_large_is_refused_and_the_rest_is_committed() -> None:
    offsets = new_offsets()
    texts = ["x" * 10, "x" * 11, "ü" * 10, "😀" * 5, "😀" * 6]
    commits = [PartitionCommit(i, 1, metadata=text) for i, text in enumerate(texts)]
    result = offsets.decide_commit("g", [TopicCommits("t", commits)], 0)
    replay(offsets, result.records)
    assert isinstance(result.reply, OffsetsReply)
    errors = [each.error for each in result.reply.topics[0].partitions]
    refused = ErrorCode.offset_metadata_too_large
    assert errors == [OK, refused, OK, OK, refused]  # as many units of UTF-16
    assert fetched(offsets, "g", "t", 0, 1, 2, 3, 4) == [1, -1, 1, 1, -1]


def test_metadata_that_no_record_can_hold_is_too_large_whatever_is_allowed() -> None:
    offsets = Offsets(OffsetSettings(metadata_max_bytes=1_000_000))
    commits = [PartitionCommit(0, 1, metadata="ü" * 16_384), PartitionCommit(1, 1, metadata="ü")]
    result = offsets.decide_commit("g", [TopicCommits("t", commits)], 0)
    assert len(result.records) == 1


def test_a_group_whose_name_no_record_can_hold_is_refused() -> None:
    with pytest.raises(BrokerError):
        new_offsets().decide_commit("g" * 40_000, [TopicCommits("t", [PartitionCommit(0, 1)])], 0)


def test_old_clients_say_when_they_committed_and_how_long_that_is_kept() -> None:
    offsets = new_offsets()
    commits = [PartitionCommit(0, 1, 9, "", 55), PartitionCommit(1, 2)]
    replay(offsets, offsets.decide_commit("g", [TopicCommits("t", commits)], 100, 30).records)
    assert offsets.get("g", "t", 0) == CommittedOffset(1, -1, "", 55, 130)
    assert offsets.get("g", "t", 1) == CommittedOffset(2, -1, "", 100, 130)


def test_an_offset_with_unlimited_retention_is_kept() -> None:
    offsets = new_offsets()
    topics = [TopicCommits("t", [PartitionCommit(0, 1)])]
    replay(offsets, offsets.decide_commit("g", topics, 100, 2**63 - 1).records)
    assert offsets.decide_expire("g", Owner(), 10**15).records == ()


def test_a_commit_that_could_not_be_written_failed_as_a_whole() -> None:
    reply = OffsetsReply([TopicResults("t", [PartitionResult(0, OK)])])
    assert reply.failed(ErrorCode.not_coordinator) == OffsetsReply((), ErrorCode.not_coordinator)


# -- deletion ------------------------------------------------------------------------------------


def test_deletion_spares_subscribed_topics_and_minds_no_missing_offsets() -> None:
    offsets = new_offsets()
    commit(offsets, "g", "t", PartitionCommit(0, 1), PartitionCommit(1, 2))
    commit(offsets, "g", "used", PartitionCommit(0, 3))
    asked = [AskedTopic("t", [0, 9]), AskedTopic("used", [0, 1]), AskedTopic("none", [0])]
    result = offsets.decide_delete("g", asked, lambda topic: topic == "used")
    subscribed = ErrorCode.group_subscribed_to_topic
    assert result.reply == OffsetsReply(
        [
            TopicResults("t", [PartitionResult(0, OK), PartitionResult(9, OK)]),
            TopicResults("used", [PartitionResult(0, subscribed), PartitionResult(1, subscribed)]),
            TopicResults("none", [PartitionResult(0, OK)]),
        ]
    )
    assert len(result.records) == 1
    replay(offsets, result.records)
    assert fetched(offsets, "g", "t", 0, 1) == [-1, 2]
    assert fetched(offsets, "g", "used", 0) == [3]


def test_nothing_is_kept_of_a_group_whose_offsets_were_all_deleted() -> None:
    offsets = new_offsets()
    commit(offsets, "g", "t", PartitionCommit(0, 1), PartitionCommit(1, 2))
    commit(offsets, "h", "t", PartitionCommit(0, 3))
    records = offsets.decide_delete_all("g")
    assert len(records) == 2
    replay(offsets, records)
    assert "g" not in offsets
    assert fetched(offsets, "h", "t", 0) == [3]
    assert offsets.decide_delete_all("g") == ()


def test_offsets_of_partitions_that_are_no_more_go_in_every_group() -> None:
    offsets = new_offsets()
    for group in ("g", "h"):
        commit(offsets, group, "t", PartitionCommit(0, 1), PartitionCommit(1, 2))
    commit(offsets, "g", "u", PartitionCommit(0, 3))
    gone = [TopicPartition("t", 0), TopicPartition("t", 0), TopicPartition("other", 0)]
    records = offsets.decide_partitions_deleted(gone)
    assert len(records) == 2
    replay(offsets, records)
    assert fetched(offsets, "g", "t", 0, 1) == [-1, 2]
    assert fetched(offsets, "h", "t", 0, 1) == [-1, 2]
    assert fetched(offsets, "g", "u", 0) == [3]


# -- expiry --------------------------------------------------------------------------------------


def test_offsets_expire_when_they_served_nobody_for_the_retention_time() -> None:
    offsets = new_offsets()
    commit(offsets, "g", "t", PartitionCommit(0, 1), at=100)
    commit(offsets, "g", "t", PartitionCommit(1, 2), at=200)
    assert offsets.decide_expire("g", Owner(), 100 + RETENTION_MS - 1).records == ()
    expired = offsets.decide_expire("g", Owner(), 100 + RETENTION_MS)
    assert not expired.leaves_none
    replay(offsets, expired.records)
    assert fetched(offsets, "g", "t", 0, 1) == [-1, 2]
    assert offsets.decide_expire("g", Owner(), 200 + RETENTION_MS).leaves_none


def test_the_time_counts_from_when_the_group_became_empty() -> None:
    offsets = new_offsets()
    commit(offsets, "g", "t", PartitionCommit(0, 1), at=0)
    owner = Owner(unused_since_ms=lambda _: 5_000)
    assert offsets.decide_expire("g", owner, 5_000 + RETENTION_MS - 1).records == ()
    assert len(offsets.decide_expire("g", owner, 5_000 + RETENTION_MS).records) == 1


def test_no_offset_expires_while_its_group_needs_it() -> None:
    offsets = new_offsets()
    commit(offsets, "g", "t", PartitionCommit(0, 1))
    commit(offsets, "g", "u", PartitionCommit(0, 2))
    replay(
        offsets,
        offsets.decide_commit("g", [TopicCommits("v", [PartitionCommit(0, 3)])], 0, 1).records,
    )
    busy = offsets.decide_expire("g", Owner(unused_since_ms=lambda _: None), 10**9)
    assert (busy.records, busy.leaves_none) == ((), False)
    subscribed = offsets.decide_expire("g", Owner(topics=frozenset({"t"})), 10**9)
    assert (len(subscribed.records), subscribed.leaves_none) == (2, False)


def test_an_expire_time_of_its_own_takes_precedence() -> None:
    offsets = new_offsets()
    for retention_ms, partition in ((5, 0), (50_000, 1)):
        topics = [TopicCommits("t", [PartitionCommit(partition, 1)])]
        replay(offsets, offsets.decide_commit("g", topics, 100, retention_ms).records)
    assert offsets.decide_expire("g", Owner(), 104).records == ()
    replay(offsets, offsets.decide_expire("g", Owner(), 105).records)
    assert fetched(offsets, "g", "t", 0, 1) == [-1, 1]
    assert offsets.decide_expire("g", Owner(), 50_099).records == ()
    assert offsets.decide_expire("g", Owner(), 50_100).leaves_none


def test_a_group_without_offsets_has_none_left() -> None:
    assert new_offsets().decide_expire("g", Owner(), 0) == ((), True)


# -- transactions --------------------------------------------------------------------------------


def write(offsets: Offsets, producer_id: int, offset: int) -> None:
    offsets.replay_transactional(
        producer_id, OffsetCommit("g", "t", 0, CommittedOffset(offset, commit_timestamp_ms=0))
    )


def test_an_offset_of_a_transaction_counts_once_that_commits() -> None:
    offsets = new_offsets()
    commit(offsets, "g", "t", PartitionCommit(0, 1), PartitionCommit(1, 2))
    write(offsets, 7, 10)
    assert fetched(offsets, "g", "t", 0, 1) == [1, 2]
    (stable,) = offsets.fetch("g", [AskedTopic("t", [0, 1])], require_stable=True).topics
    unstable = FetchedOffset(0, error=ErrorCode.unstable_offset_commit)
    assert stable.partitions == [unstable, FetchedOffset(1, 2)]
    offsets.replay_end_of_transaction(7, is_committed=True)
    assert fetched(offsets, "g", "t", 0, 1) == [10, 2]
    (stable,) = offsets.fetch("g", None, require_stable=True).topics
    assert stable.partitions == [FetchedOffset(0, 10), FetchedOffset(1, 2)]


def test_an_offset_of_a_transaction_that_aborts_never_counts() -> None:
    offsets = new_offsets()
    write(offsets, 7, 10)
    assert "g" in offsets
    offsets.replay_end_of_transaction(7, is_committed=False)
    assert "g" not in offsets


def test_of_two_transactions_that_which_wrote_later_counts_whichever_ends_first() -> None:
    for first, second in ((1, 2), (2, 1)):
        offsets = new_offsets()
        write(offsets, 1, 10)
        write(offsets, 2, 20)
        offsets.replay_end_of_transaction(first, is_committed=True)
        offsets.replay_end_of_transaction(second, is_committed=True)
        assert fetched(offsets, "g", "t", 0) == [20]


def test_no_offset_expires_that_a_transaction_may_change() -> None:
    offsets = new_offsets()
    commit(offsets, "g", "t", PartitionCommit(0, 1), PartitionCommit(1, 2))
    write(offsets, 7, 10)
    expired = offsets.decide_expire("g", Owner(), 10**9)
    assert (len(expired.records), expired.leaves_none) == (1, False)
