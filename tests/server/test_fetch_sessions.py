"""Fetch sessions: what a client need not say again, and what it need not be told again."""

import uuid
from typing import Any

import pytest

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.randomness import Random
from barnabas.server.fetching import cached_partitions
from barnabas.server.fetching.cached_partitions import (
    CachedPartition,
    NamedPartitions,
    Reader,
    TopicKey,
)
from barnabas.server.fetching.fetch_sessions import FetchContext, FetchSessions
from barnabas.wire.fetch.fetch_codec import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionFetched,
)

STALE_MS = 120_000
LAST_EPOCH = 2**31 - 1


class Clock:
    def __init__(self) -> None:
        self.ms = 1000.0

    def now_ms(self) -> float:
        return self.ms


def make(slots: int = 10) -> tuple[FetchSessions, Clock]:
    clock = Clock()
    return FetchSessions(slots, STALE_MS, Random(1), clock), clock


def asked(
    session_id: int,
    epoch: int,
    *wanted: tuple[TopicKey, int],
    forget: Any = (),
    offset: int = 0,
    replica_id: int = -1,
) -> FetchRequest:
    def split(topic: TopicKey) -> tuple[str | None, uuid.UUID | None]:
        return (topic, None) if isinstance(topic, str) else (None, topic)

    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1000,
        read_committed=False,
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(*split(topic), [FetchPartition(index, offset, 100)])
            for topic, index in wanted
        ],
        forgotten=[ForgottenTopic(*split(topic), (index,)) for topic, index in forget],
        rack_id="",
    )


def opened(
    sessions: FetchSessions,
    *wanted: tuple[TopicKey, int],
    by_id: bool = False,
    replica_id: int = -1,
) -> int:
    """A session by a full fetch that was answered; its id, or 0."""
    context = sessions.begin(asked(0, 0, *wanted, replica_id=replica_id), by_id=by_id)
    return answered(sessions, context)[1]


def answered(
    sessions: FetchSessions, context: FetchContext, **got: Any
) -> tuple[list[tuple[TopicKey, int]], int]:
    """Answer the fetch with the same of every partition; what was told, and the session's id."""
    assert sessions.complete(context) == ErrorCode.none
    told = [
        (wanted.topic, wanted.partition.partition)
        for wanted in context.wanted
        if is_sent(context, wanted, fetched(wanted.partition.partition, **got))
    ]
    return told, context.session_id


def is_sent(context: FetchContext, wanted: CachedPartition, got: PartitionFetched) -> bool:
    is_sent = context.is_worth_sending(wanted, got)
    context.on_sent(wanted, got)
    return is_sent


def fetched(partition: int, **got: Any) -> PartitionFetched:
    values = {"code": 0, "high_watermark": 5, "last_stable_offset": 5, "log_start_offset": 0}
    return PartitionFetched(partition, **{**values, **got})


def refused(sessions: FetchSessions, request: FetchRequest, by_id: bool = False) -> ErrorCode:
    with pytest.raises(BrokerError) as failure:
        sessions.begin(request, by_id=by_id)
    return failure.value.code


def test_a_fetch_without_a_session_opens_none_and_gets_every_partition() -> None:
    sessions, _ = make()
    for _ in range(2):
        context = sessions.begin(asked(0, -1, ("a", 0), ("b", 1)), by_id=False)
        assert answered(sessions, context) == ([("a", 0), ("b", 1)], 0)
    assert len(sessions) == 0


def test_a_full_fetch_has_a_session_only_once_it_is_answered() -> None:
    sessions, _ = make()
    context = sessions.begin(asked(0, 0, ("a", 0)), by_id=False)
    assert len(sessions) == 0
    told, session_id = answered(sessions, context)
    assert told == [("a", 0)]
    assert session_id > 0
    assert len(sessions) == 1


def test_an_empty_incremental_fetch_gets_only_what_changed() -> None:
    sessions, _ = make()
    session_id = opened(sessions, ("a", 0), ("a", 1))
    assert answered(sessions, sessions.begin(asked(session_id, 1), by_id=False)) == ([], session_id)
    context = sessions.begin(asked(session_id, 2), by_id=False)
    assert [(w.topic, w.partition.partition) for w in context.wanted] == [("a", 0), ("a", 1)]
    assert answered(sessions, context, high_watermark=6)[0] == [("a", 0), ("a", 1)]
    assert (
        answered(sessions, sessions.begin(asked(session_id, 3), by_id=False), high_watermark=6)[0]
        == []
    )


@pytest.mark.parametrize(
    "news",
    [
        {"records": b"batch"},
        {"high_watermark": 9},
        {"log_start_offset": 2},
        {"code": 1},
        {"diverging_epoch": (1, 2)},
    ],
    ids=lambda news: next(iter(news)),
)
def test_each_kind_of_news_is_worth_telling(news: dict[str, Any]) -> None:
    sessions, _ = make()
    session_id = opened(sessions, ("a", 0))
    assert answered(sessions, sessions.begin(asked(session_id, 1), by_id=False), **news)[0] == [
        ("a", 0)
    ]


def test_after_an_error_the_partition_is_returned_again() -> None:
    sessions, _ = make()
    session_id = opened(sessions, ("a", 0))
    answered(sessions, sessions.begin(asked(session_id, 1), by_id=False), code=1)
    assert answered(sessions, sessions.begin(asked(session_id, 2), by_id=False))[0] == [("a", 0)]
    assert answered(sessions, sessions.begin(asked(session_id, 3), by_id=False))[0] == []


def test_partitions_are_added_moved_and_forgotten() -> None:
    sessions, _ = make()
    session_id = opened(sessions, ("a", 0), ("a", 1))
    request = asked(session_id, 1, ("a", 1), ("b", 0), forget=[("a", 0), ("z", 9)], offset=77)
    context = sessions.begin(request, by_id=False)
    assert [(w.topic, w.partition.partition, w.partition.fetch_offset) for w in context.wanted] == [
        ("a", 1, 77),
        ("b", 0, 77),
    ]
    # A partition that is new to the session is in the response, even without records.
    assert answered(sessions, context)[0] == [("b", 0)]


def test_a_partition_that_had_records_goes_to_the_end_of_the_order() -> None:
    sessions, _ = make()
    session_id = opened(sessions, ("a", 0), ("a", 1), ("a", 2))
    context = sessions.begin(asked(session_id, 1), by_id=False)
    assert sessions.complete(context) == ErrorCode.none
    assert is_sent(context, context.wanted[0], fetched(0, records=b"batch"))
    context = sessions.begin(asked(session_id, 2), by_id=False)
    assert [wanted.partition.partition for wanted in context.wanted] == [1, 2, 0]


def test_a_session_that_has_nothing_left_is_over() -> None:
    sessions, _ = make()
    session_id = opened(sessions, ("a", 0))
    context = sessions.begin(asked(session_id, 1, forget=[("a", 0)]), by_id=False)
    assert (context.wanted, context.session_id, len(sessions)) == ([], 0, 0)
    assert refused(sessions, asked(session_id, 2)) == ErrorCode.fetch_session_id_not_found


def test_an_unknown_session_gets_an_error() -> None:
    sessions, _ = make()
    assert refused(sessions, asked(123, 1)) == ErrorCode.fetch_session_id_not_found


@pytest.mark.parametrize("epoch", [2, 99, -7, LAST_EPOCH])
def test_a_wrong_epoch_is_refused_and_the_session_stays(epoch: int) -> None:
    sessions, _ = make()
    session_id = opened(sessions, ("a", 0))
    assert refused(sessions, asked(session_id, epoch)) == ErrorCode.invalid_fetch_session_epoch
    assert answered(sessions, sessions.begin(asked(session_id, 1), by_id=False))[1] == session_id


def test_an_answer_that_another_fetch_of_the_session_overtook_has_failed() -> None:
    sessions, _ = make()
    session_id = opened(sessions, ("a", 0))
    slow = sessions.begin(asked(session_id, 1), by_id=False)
    answered(sessions, sessions.begin(asked(session_id, 2), by_id=False))
    assert sessions.complete(slow) == ErrorCode.invalid_fetch_session_epoch


def test_session_epochs_wrap_around_after_the_last() -> None:
    sessions, _ = make()
    session_id = opened(sessions, ("a", 0))
    sessions._sessions[session_id].epoch = LAST_EPOCH
    answered(sessions, sessions.begin(asked(session_id, LAST_EPOCH), by_id=False))
    assert answered(sessions, sessions.begin(asked(session_id, 1), by_id=False))[1] == session_id


@pytest.mark.parametrize("by_id", [True, False])
def test_a_session_cannot_change_between_names_and_ids(by_id: bool) -> None:
    sessions, _ = make()
    topic: TopicKey = uuid.UUID(int=1) if by_id else "a"
    session_id = opened(sessions, (topic, 0), by_id=by_id)
    code = refused(sessions, asked(session_id, 1), by_id=not by_id)
    assert code == ErrorCode.fetch_session_topic_id_error


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_ends_the_session_that_it_names(epoch: int) -> None:
    sessions, _ = make()
    session_id = opened(sessions, ("a", 0))
    _, new_id = answered(sessions, sessions.begin(asked(session_id, epoch, ("a", 0)), by_id=False))
    assert len(sessions) == (1 if epoch == 0 else 0)
    assert new_id != session_id
    assert refused(sessions, asked(session_id, 1)) == ErrorCode.fetch_session_id_not_found


def test_a_partition_named_twice_is_fetched_once_as_last_named() -> None:
    sessions, _ = make()
    request = asked(0, 0, ("a", 0), ("a", 1))
    request.topics.append(FetchTopic("a", None, [FetchPartition(0, 42, 100)]))
    context = sessions.begin(request, by_id=False)
    assert [(w.partition.partition, w.partition.fetch_offset) for w in context.wanted] == [
        (0, 42),
        (1, 0),
    ]


# -- room --------------------------------------------------------------------


def test_where_there_is_no_room_the_client_goes_on_without_a_session() -> None:
    sessions, _ = make(slots=2)
    opened(sessions, ("a", 0))
    opened(sessions, ("b", 0))
    assert opened(sessions, ("c", 0)) == 0
    assert len(sessions) == 2


def test_all_sessions_together_have_a_bounded_number_of_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cached_partitions, "MOST_CACHED", 3)
    sessions, clock = make()
    first = opened(sessions, ("a", 0), ("a", 1))
    assert opened(sessions, ("b", 0), ("b", 1)) == 0  # served without a session
    # Nor can a session grow beyond it.
    with pytest.raises(BrokerError) as refused:
        sessions.begin(asked(first, 1, ("a", 2), ("a", 3)), by_id=False)
    assert refused.value.code is ErrorCode.fetch_session_id_not_found
    assert (len(sessions), sessions.count.cached) == (0, 0)
    # One that is not used any more makes room.
    opened(sessions, ("a", 0), ("a", 1))
    clock.ms += STALE_MS + 1
    assert opened(sessions, ("b", 0), ("b", 1))
    assert (len(sessions), sessions.count.cached) == (1, 2)


def test_what_clients_without_sessions_name_counts_until_they_disconnect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cached_partitions, "MOST_CACHED", 3)
    sessions, _ = make()
    named = NamedPartitions(Reader(-1, False), 12, sessions.count)
    request = asked(0, -1, ("a", 0), ("a", 1), ("a", 1))
    sessions.begin(request, by_id=False, named=named)
    sessions.begin(request, by_id=False, named=named)
    assert (len(named), sessions.count.cached) == (2, 2)
    assert opened(sessions, ("b", 0), ("b", 1)) == 0
    named.close()
    assert opened(sessions, ("b", 0), ("b", 1))
    assert sessions.count.cached == 2


def test_no_slots_means_no_sessions() -> None:
    sessions, _ = make(slots=0)
    assert opened(sessions, ("a", 0)) == 0


def test_the_longest_unused_makes_room_once_it_is_stale() -> None:
    sessions, clock = make(slots=2)
    first, second = opened(sessions, ("a", 0)), opened(sessions, ("b", 0))
    clock.ms += STALE_MS
    answered(sessions, sessions.begin(asked(first, 1), by_id=False))
    clock.ms += 1
    assert opened(sessions, ("c", 0)) > 0
    assert refused(sessions, asked(second, 1)) == ErrorCode.fetch_session_id_not_found
    assert answered(sessions, sessions.begin(asked(first, 2), by_id=False))[1] == first


def test_a_larger_session_takes_the_place_of_a_smaller_one_that_is_not_new() -> None:
    sessions, clock = make(slots=2)
    small, large = opened(sessions, ("a", 0)), opened(sessions, ("b", 0), ("b", 1), ("b", 2))
    assert opened(sessions, ("c", 0), ("c", 1)) == 0
    clock.ms += STALE_MS + 1
    for session_id in (small, large):
        answered(sessions, sessions.begin(asked(session_id, 1), by_id=False))
    assert opened(sessions, ("c", 0)) == 0
    assert opened(sessions, ("c", 0), ("c", 1)) > 0
    assert refused(sessions, asked(small, 2)) == ErrorCode.fetch_session_id_not_found
    assert answered(sessions, sessions.begin(asked(large, 2), by_id=False))[1] == large


def test_a_follower_takes_the_place_of_a_consumer_and_never_the_other_way_round() -> None:
    sessions, clock = make(slots=1)
    consumer = opened(sessions, ("a", 0), ("a", 1))
    follower = opened(sessions, ("b", 0), replica_id=2)
    assert follower > 0
    assert refused(sessions, asked(consumer, 1)) == ErrorCode.fetch_session_id_not_found
    assert opened(sessions, ("b", 0), ("b", 1), replica_id=3) == 0
    clock.ms += STALE_MS + 1
    context = sessions.begin(asked(follower, 1, replica_id=2), by_id=False)
    assert answered(sessions, context)[1] == follower
    assert opened(sessions, ("c", 0), ("c", 1), ("c", 2)) == 0
    assert opened(sessions, ("b", 0), ("b", 1), replica_id=3) > 0
