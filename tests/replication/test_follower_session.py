"""A follower's fetch session: whatever changes, the leader knows all that is wanted."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import BrokerId, TopicPartition
from barnabas.base.randomness import Random
from barnabas.replication.follower.fetch_state import Changes, Following, Followings
from barnabas.replication.follower.fetcher_ports import FetcherSettings
from barnabas.replication.follower.follower_replica import FollowerReplica
from barnabas.replication.follower.follower_session import (
    FollowerSession,
    Key,
    forgotten_of,
    topics_of,
)
from barnabas.replication.replication_throttle import ReplicationThrottle
from barnabas.server.fetching.fetch_sessions import FetchSessions
from barnabas.wire.fetch.fetch_codec import FetchPartition, FetchRequest
from tests.replication.scripted_leader import StoppedTime

PARTITIONS = [TopicPartition(topic, partition) for topic in "ab" for partition in range(3)]
SETTINGS = FetcherSettings(max_bytes=100, backoff_ms=4000)
ME = BrokerId(2)
ADDED_AT_ONCE = 4


def follower_of(partition: TopicPartition, epoch: int = 0, topic_id: int = 0) -> FollowerReplica:
    """As much of a follower as a fetch loop looks at to ask for it."""
    log = SimpleNamespace(
        log_end_offset=0, log_start_offset=0, epochs=SimpleNamespace(latest=epoch)
    )
    known_by = UUID(int=topic_id or ord(partition.topic))
    follower = SimpleNamespace(
        topic_partition=partition, topic_id=known_by, epoch=epoch, lag=None, log=log
    )
    return cast(FollowerReplica, follower)


class Follower:
    """One that follows partitions in a session with a leader, and what it should ask for."""

    def __init__(self) -> None:
        self.now = 0.0
        self.throttle = ReplicationThrottle(ME, lambda: self.now)
        self.followings = Followings(self.throttle, added_at_once=ADDED_AT_ONCE)
        self.session = FollowerSession()
        self.leader = FetchSessions(10, 60_000, Random(1), StoppedTime())
        self.followed: dict[TopicPartition, FollowerReplica] = {}
        self.waits_until: dict[TopicPartition, float] = {}
        self._epoch = 0

    # The events

    def follow(self, partition: TopicPartition) -> None:
        self._epoch += 1
        self.followed[partition] = follower_of(partition, self._epoch)
        self.waits_until.pop(partition, None)
        assert self.followings.add(self.followed[partition])

    def recreate(self, partition: TopicPartition) -> None:
        """Follow a partition of another topic that has the same name."""
        self.stop(partition)
        self._epoch += 1
        self.followed[partition] = follower_of(partition, self._epoch, 1000 + self._epoch)
        assert self.followings.add(self.followed[partition])

    def stop(self, partition: TopicPartition) -> None:
        self.followed.pop(partition, None)
        self.waits_until.pop(partition, None)
        self.followings.remove(partition)

    def take_records(self, partition: TopicPartition) -> None:
        if (following := self._answered(partition)) is not None:
            log = cast(Any, following.follower.log)
            log.log_end_offset += 1
            self.followings.move_to_end(following)

    def complain(self, partition: TopicPartition) -> None:
        if (following := self._answered(partition)) is not None:
            self.followings.wait(following, self.now, SETTINGS.backoff_s, passing=True)
            self.waits_until[partition] = following.not_before

    def catch_up(self, partition: TopicPartition) -> None:
        if (following := self._answered(partition)) is not None:
            following.follower.lag = 0

    def exceed(self, partition: TopicPartition) -> None:
        self.throttle.set_topic(partition.topic, (f"{partition.partition}:{ME}",))
        self.throttle.bytes_per_second = 1
        self.throttle.record(1000)

    def unthrottle(self, _: TopicPartition) -> None:
        self.throttle.bytes_per_second = 2**40

    def time_passes(self, _: TopicPartition) -> None:
        self.now += 0.03

    def lose_connection(self, _: TopicPartition) -> None:
        self.session.on_lost()

    def lose_session(self, _: TopicPartition) -> None:
        self.leader._sessions.clear()

    def refuse_sessions(self, _: TopicPartition) -> None:
        self.leader._sessions.clear()
        self.leader._slots = 0

    def grant_sessions(self, _: TopicPartition) -> None:
        self.leader._slots = 10

    def _answered(self, partition: TopicPartition) -> Following | None:
        follower = self.followed.get(partition)
        if follower is None or follower.topic_id is None:
            return None
        return self.followings.on_answered(follower.topic_id, partition.partition)

    # The requests

    def wanted(self) -> dict[Key, FetchPartition]:
        return {
            (follower.topic_id or "", each.partition): FetchPartition(
                each.partition,
                follower.log.log_end_offset,
                SETTINGS.max_bytes,
                follower.epoch,
                follower.log.epochs.latest,
                follower.log.log_start_offset,
            )
            for each, follower in self.followed.items()
            if self.waits_until.get(each, 0.0) <= self.now and not self._is_held_back(follower)
        }

    def _is_held_back(self, follower: FollowerReplica) -> bool:
        is_throttled = self.throttle.is_throttled(*follower.topic_partition)
        return self.throttle.is_exceeded and is_throttled and follower.lag != 0

    def changes(self) -> Changes:
        return self.followings.next_changes(self.now, SETTINGS, self.session)

    def fetch(self) -> None:
        """Ask until the leader answers, and look at what it understood."""
        error, has_more, requests = ErrorCode.invalid_request, True, 0
        while error is not ErrorCode.none or has_more:
            requests += 1
            assert requests <= 5, "the follower asks on and on"
            had = set() if self.session.is_full else set(self.in_session())
            changes, wanted = self.changes(), self.wanted()
            assert changes.is_any_asked == bool(wanted)
            if len(wanted) < len(self.followed):
                assert changes.wait_s is not None
            if not wanted:
                return
            try:
                context = self.leader.begin(self._request(changes), by_id=True)
            except BrokerError as refused:
                error = refused.code
                assert not self.session.on_answer(error, 0)
                continue
            error, has_more = self.leader.complete(context), changes.has_more
            self.session.on_answer(error, context.session_id)
            found = self.in_session() if self.session.session_id else _named(changes)
            assert found.items() <= wanted.items()
            assert len(found.keys() - had) == ADDED_AT_ONCE if has_more else found == wanted

    def in_session(self) -> dict[Key, FetchPartition]:
        """The partitions of the leader's session."""
        session = self.leader._sessions.get(self.session.session_id, ())
        return {(each.topic, each.partition.partition): each.partition for each in session}

    def _request(self, changes: Changes) -> FetchRequest:
        topics, forgotten = topics_of(changes.named), forgotten_of(changes.forgotten)
        session = self.session
        return FetchRequest(
            ME, 0, 1, 100, False, session.session_id, session.epoch, topics, forgotten, ""
        )


def _named(changes: Changes) -> dict[Key, FetchPartition]:
    """The partitions that a leader knows of a request without a session."""
    return {(topic, each.partition): each for topic, each in changes.named}


EVENTS: list[Callable[[Follower, TopicPartition], None]] = [
    Follower.follow,
    Follower.recreate,
    Follower.stop,
    Follower.take_records,
    Follower.complain,
    Follower.catch_up,
    Follower.exceed,
    Follower.unthrottle,
    Follower.time_passes,
    Follower.lose_connection,
    Follower.lose_session,
    Follower.refuse_sessions,
    Follower.grant_sessions,
]
HAPPENS = st.tuples(st.sampled_from(EVENTS), st.sampled_from(PARTITIONS))


@given(st.lists(st.lists(HAPPENS, max_size=4), max_size=15))
def test_the_leader_always_knows_what_is_wanted(
    rounds: list[list[tuple[Callable[[Follower, TopicPartition], None], TopicPartition]]],
) -> None:
    here = Follower()
    for partition in PARTITIONS[::2]:
        here.follow(partition)
    for events in rounds:
        for happen, partition in events:
            happen(here, partition)
        here.fetch()


def in_session(*partitions: TopicPartition) -> Follower:
    here = Follower()
    for each in partitions:
        here.follow(each)
    here.fetch()
    return here


def test_only_what_has_changed_is_named() -> None:
    first, second, third = PARTITIONS[0], PARTITIONS[1], PARTITIONS[3]
    here = in_session(first, second)
    here.take_records(first)
    here.stop(second)
    here.follow(third)
    changes = here.changes()
    assert [(topic.topic_id, topic.partitions) for topic in topics_of(changes.named)] == [
        (UUID(int=ord("a")), [FetchPartition(0, 1, 100, 1, 1, 0)]),
        (UUID(int=ord("b")), [FetchPartition(0, 0, 100, 3, 3, 0)]),
    ]
    assert [(topic.topic_id, topic.partitions) for topic in forgotten_of(changes.forgotten)] == [
        (UUID(int=ord("a")), (1,))
    ]
    assert here.changes() == ([], [], True, None, False)


def test_an_answer_without_records_names_nothing() -> None:
    here = in_session(*PARTITIONS)
    here.catch_up(PARTITIONS[0])
    assert here.changes() == ([], [], True, None, False)


def test_a_log_start_that_retention_moved_is_named_after_the_next_answer() -> None:
    """A leader that deletes records answers with its own log start, and needs the follower's."""
    here = in_session(*PARTITIONS)
    cast(Any, here.followed[PARTITIONS[0]].log).log_start_offset = 7
    here.catch_up(PARTITIONS[0])
    assert [wanted.log_start_offset for _, wanted in here.changes().named] == [7]


def test_a_wait_that_ends_makes_exactly_that_partition_due() -> None:
    here = in_session(*PARTITIONS)
    here.complain(PARTITIONS[1])
    here.now += 0.01
    here.complain(PARTITIONS[2])
    assert [key[1] for key in here.changes().forgotten] == [1, 2]
    here.now += 0.01
    changes = here.changes()
    assert [wanted.partition for _, wanted in changes.named] == [1]
    assert changes.wait_s is not None
    here.now += changes.wait_s
    named, forgotten, _, wait_s, _ = here.changes()
    assert [wanted.partition for _, wanted in named] == [2]
    assert (forgotten, wait_s) == ([], None)


def test_a_request_looks_only_at_partitions_that_are_due() -> None:
    here = in_session(*PARTITIONS)
    for partition in PARTITIONS[1:]:
        cast(Any, here.followed[partition]).log = None  # looking at it would fail
    here.take_records(PARTITIONS[0])
    assert [wanted.fetch_offset for _, wanted in here.changes().named] == [1]


def test_the_epoch_goes_round_without_the_one_that_begins_a_session() -> None:
    session = FollowerSession()
    session.on_answer(ErrorCode.none, 5)
    session.epoch = 2**31 - 1
    session.on_answer(ErrorCode.none, 5)
    assert session.epoch == 1


def test_a_leader_without_room_for_sessions_is_asked_for_everything_each_time() -> None:
    here = Follower()
    here.leader = FetchSessions(0, 60_000, Random(1), StoppedTime())
    for each in PARTITIONS:
        here.follow(each)
    here.fetch()
    for _ in range(3):
        changes = here.changes()
        assert (len(changes.named), changes.has_more) == (len(PARTITIONS), False)
        assert here.session.on_answer(ErrorCode.none, 0)
