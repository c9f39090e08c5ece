"""A follower's fetch session: whatever changes, the leader knows all that is wanted."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.randomness import Random
from barnabas.replication.fetch_session import FetchSession, Key
from barnabas.server.fetch_sessions import FetchSessions
from barnabas.wire.fetch import FetchPartition, FetchRequest

KEYS = [(UUID(int=topic), partition) for topic in (1, 2) for partition in range(3)]
WANTED = st.dictionaries(st.sampled_from(KEYS), st.integers(0, 2), min_size=1)


def partitions(offsets: dict[Key, int]) -> dict[Key, FetchPartition]:
    return {key: FetchPartition(key[1], offset, 100) for key, offset in offsets.items()}


@given(st.lists(st.tuples(WANTED, st.sampled_from(("", "lost", "forgotten"))), max_size=12))
def test_the_leader_always_knows_what_is_wanted(rounds: list[tuple[dict[Key, int], str]]) -> None:
    leader = FetchSessions(10, 60_000, Random(1), lambda: 0.0)
    session = FetchSession()
    for offsets, trouble in rounds:
        wanted = partitions(offsets)
        error = ErrorCode.invalid_request
        while error is not ErrorCode.none:
            topics, forgotten = session.decide(wanted)
            request = FetchRequest(
                2, 0, 1, 100, False, session.session_id, session.epoch, topics, forgotten, ""
            )
            try:
                context = leader.begin(request, by_id=True)
            except BrokerError as refused:
                error = refused.code
                assert not session.on_answer(error, 0)
                continue
            error = context.answering()
            found = {
                (each.topic, each.partition.partition): each.partition for each in context.wanted
            }
            assert found == wanted
            if trouble == "lost":
                session.on_lost()
            else:
                session.on_answer(error, context.session_id)
        if trouble == "forgotten":
            leader._sessions.clear()
    assert len(leader) <= 1 + sum(trouble == "lost" for _, trouble in rounds)


def test_only_what_has_changed_is_named() -> None:
    session = FetchSession()
    first, second, third = KEYS[0], KEYS[1], KEYS[3]
    session.decide(partitions({first: 0, second: 0}))
    session.on_answer(ErrorCode.none, 77)
    assert (session.session_id, session.epoch) == (77, 1)
    topics, forgotten = session.decide(partitions({first: 1, third: 0}))
    assert [(topic.topic_id, topic.partitions) for topic in topics] == [
        (UUID(int=1), [FetchPartition(0, 1, 100)]),
        (UUID(int=2), [FetchPartition(0, 0, 100)]),
    ]
    assert [(topic.topic_id, topic.partitions) for topic in forgotten] == [(UUID(int=1), (1,))]
    session.on_answer(ErrorCode.none, 77)
    assert session.decide(partitions({first: 1, third: 0})) == ([], [])


def test_the_epoch_goes_round_without_the_one_that_begins_a_session() -> None:
    session = FetchSession()
    session.decide({})
    session.on_answer(ErrorCode.none, 5)
    session.epoch = 2**31 - 1
    session.on_answer(ErrorCode.none, 5)
    assert session.epoch == 1


def test_a_leader_without_room_for_sessions_is_asked_for_everything_each_time() -> None:
    session = FetchSession()
    for _ in range(3):
        topics, _ = session.decide(partitions({KEYS[0]: 0}))
        assert len(topics) == 1
        assert session.on_answer(ErrorCode.none, 0)
