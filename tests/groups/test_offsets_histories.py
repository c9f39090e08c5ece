"""Any history of offsets: the log tells what was decided, and transactions count as in Kafka."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.coordinator.result import CoordinatorRecord
from barnabas.groups.offsets.committed_offsets import Offsets
from barnabas.groups.offsets.offset_messages import (
    AskedTopic,
    FetchedOffset,
    OffsetSettings,
    PartitionCommit,
    TopicCommits,
)
from barnabas.groups.records.group_records import CommittedOffset, OffsetCommit, decode, encode

SETTINGS = OffsetSettings(metadata_max_bytes=3, retention_ms=50)
NO_PRODUCER = -1

GROUPS, TOPICS = st.sampled_from(["g", "h"]), st.sampled_from(["t", "ü"])
PARTITIONS, PRODUCERS = st.integers(0, 1), st.integers(1, 3)
COMMITS = st.builds(
    PartitionCommit,
    PARTITIONS,
    st.integers(0, 100),
    st.integers(-1, 3),
    st.sampled_from([None, "", "m", "long"]),
    st.sampled_from([-1, 7]),
)
TOPIC_COMMITS = st.lists(
    st.builds(TopicCommits, TOPICS, st.lists(COMMITS, min_size=1, max_size=3)), max_size=2
)
ASKED = st.lists(st.builds(AskedTopic, TOPICS, st.lists(PARTITIONS, max_size=2)), max_size=2)

Key = tuple[str, str, int]


class Logged(NamedTuple):
    """A record and whose transaction it is of; without a record, the end of that."""

    producer_id: int
    record: CoordinatorRecord | None
    is_committed: bool = False


class Owner(NamedTuple):
    subscribed: str
    since_ms: int | None

    def is_subscribed_to(self, topic: str) -> bool:
        return topic == self.subscribed

    def unused_since_ms(self, commit_timestamp_ms: int) -> int | None:
        return self.since_ms


class Model:
    """Kafka's own way: offsets remember where in the log they were written, and the later wins."""

    def __init__(self) -> None:
        self.offsets: dict[Key, tuple[int, CommittedOffset]] = {}
        self.pending: dict[int, dict[Key, tuple[int, CommittedOffset]]] = {}

    def replay(self, position: int, logged: Logged) -> None:
        if logged.record is None:
            self._end(logged)
            return
        commit = decode(*logged.record)
        assert isinstance(commit, OffsetCommit)
        key = commit[:3]
        if commit.value is None:
            for known in (self.offsets, *self.pending.values()):
                known.pop(key, None)
        elif logged.producer_id == NO_PRODUCER:
            self.offsets[key] = (position, commit.value)
        else:
            self.pending.setdefault(logged.producer_id, {})[key] = (position, commit.value)

    def _end(self, logged: Logged) -> None:
        for key, (position, value) in self.pending.pop(logged.producer_id, {}).items():
            is_later = key not in self.offsets or self.offsets[key][0] < position
            if logged.is_committed and is_later:
                self.offsets[key] = (position, value)

    def is_pending(self, key: Key) -> bool:
        return any(key in each for each in self.pending.values())


def replay(offsets: Offsets, logged: Logged) -> None:
    if logged.record is None:
        offsets.replay_end_of_transaction(logged.producer_id, logged.is_committed)
        return
    commit = decode(*logged.record)
    assert isinstance(commit, OffsetCommit)
    if logged.producer_id == NO_PRODUCER:
        offsets.replay(commit)
    else:
        offsets.replay_transactional(logged.producer_id, commit)


def replayed(log: Sequence[Logged]) -> Offsets:
    offsets = Offsets(SETTINGS)
    for logged in log:
        replay(offsets, logged)
    return offsets


def stored(offsets: Offsets) -> dict[Key, CommittedOffset | None]:
    return {commit[:3]: commit.value for commit in offsets}


def unstable(offsets: Offsets, keys: Iterable[Key]) -> set[Key]:
    return {
        (group, topic, partition)
        for group, topic, partition in keys
        for found in offsets.fetch(group, [AskedTopic(topic, [partition])], True).topics
        if found.partitions == [FetchedOffset(partition, error=ErrorCode.unstable_offset_commit)]
    }


# Few places and producers: they get into each other's way.
RECORDS = st.builds(
    OffsetCommit,
    st.just("g"),
    st.just("t"),
    PARTITIONS,
    st.none() | st.builds(CommittedOffset, st.integers(0, 100), *map(st.just, (-1, "", 0, -1))),
).map(encode)
WRITTEN = st.builds(Logged, st.sampled_from([NO_PRODUCER, 1, 2]), RECORDS)
ENDED = st.builds(Logged, st.sampled_from([1, 2]), st.none(), st.sampled_from([True, True, False]))


@settings(max_examples=300)
@given(st.lists(WRITTEN | ENDED, max_size=12))
def test_of_transactional_and_plain_commits_the_later_in_the_log_counts(log: list[Logged]) -> None:
    offsets, model = Offsets(SETTINGS), Model()
    for position, logged in enumerate(log):
        replay(offsets, logged)
        model.replay(position, logged)
        assert stored(offsets) == {key: each[1] for key, each in model.offsets.items()}
        keys = [("g", "t", 0), ("g", "t", 1)]
        assert unstable(offsets, keys) == {key for key in keys if model.is_pending(key)}
        gone = [TopicPartition(*key[1:]) for key in keys]
        known = len(set(model.offsets) | {key for key in keys if model.is_pending(key)})
        assert len(offsets.decide_delete_all("g")) == known
        assert len(offsets.decide_partitions_deleted(gone)) == known
        assert ("g" in offsets) == (known > 0)


class OffsetsAgainstTheModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.offsets = Offsets(SETTINGS)
        self.model = Model()
        self.log: list[Logged] = []
        self.now_ms = 0

    def append(self, *all_logged: Logged) -> None:
        self.now_ms += 5
        for logged in all_logged:
            self.model.replay(len(self.log), logged)
            replay(self.offsets, logged)
            self.log.append(logged)

    def append_plain(self, records: tuple[CoordinatorRecord, ...]) -> None:
        self.append(*(Logged(NO_PRODUCER, record) for record in records))

    @rule(group=GROUPS, topics=TOPIC_COMMITS, retention_ms=st.sampled_from([-1, -1, 10]))
    def commit(self, group: str, topics: list[TopicCommits], retention_ms: int) -> None:
        self.append_plain(
            self.offsets.decide_commit(group, topics, self.now_ms, retention_ms).records
        )

    @rule(producer_id=PRODUCERS, group=GROUPS, topics=TOPIC_COMMITS)
    def commit_in_a_transaction(
        self, producer_id: int, group: str, topics: list[TopicCommits]
    ) -> None:
        records = self.offsets.decide_commit(group, topics, self.now_ms).records
        self.append(*(Logged(producer_id, record) for record in records))

    @rule(producer_id=PRODUCERS, is_committed=st.booleans())
    def end_transaction(self, producer_id: int, is_committed: bool) -> None:
        self.append(Logged(producer_id, None, is_committed))

    @rule(group=GROUPS, asked=ASKED)
    def delete(self, group: str, asked: list[AskedTopic]) -> None:
        self.append_plain(self.offsets.decide_delete(group, asked, lambda _: False).records)
        for topic, partitions in asked:
            assert all(self.offsets.get(group, topic, each) is None for each in partitions)

    @rule(group=GROUPS)
    def delete_group(self, group: str) -> None:
        self.append_plain(self.offsets.decide_delete_all(group))
        assert group not in self.offsets

    @rule(topic=TOPICS)
    def delete_topic(self, topic: str) -> None:
        gone = [TopicPartition(topic, partition) for partition in range(2)]
        self.append_plain(self.offsets.decide_partitions_deleted(gone))
        assert topic not in {commit.topic for commit in self.offsets}

    @rule(group=GROUPS, subscribed=TOPICS, since_ms=st.none() | st.integers(0, 60))
    def expire(self, group: str, subscribed: str, since_ms: int | None) -> None:
        expired = self.offsets.decide_expire(group, Owner(subscribed, since_ms), self.now_ms)
        spared = {
            key
            for key in self.model.offsets
            if key[0] == group and (key[1] == subscribed or self.model.is_pending(key))
        }
        self.append_plain(expired.records)
        assert spared <= set(stored(self.offsets))
        assert expired.leaves_none == (group not in self.offsets)

    @invariant()
    def offsets_are_those_of_the_model(self) -> None:
        assert stored(self.offsets) == {key: each[1] for key, each in self.model.offsets.items()}

    def teardown(self) -> None:
        """The log tells all of it, and so does what compaction leaves of plain commits."""
        assert stored(replayed(self.log)) == stored(self.offsets)
        plain = [each for each in self.log if each.producer_id == NO_PRODUCER]
        last = {each.record.key: each for each in plain if each.record is not None}
        assert stored(replayed(list(last.values()))) == stored(replayed(plain))


TestOffsetsAgainstTheModel = OffsetsAgainstTheModel.TestCase
TestOffsetsAgainstTheModel.settings = settings(max_examples=25, stateful_step_count=20)
