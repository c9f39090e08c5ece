"""A client's view of the cluster, and the look-ups and retries that need it, without I/O."""

import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.client.coordinator import CoordinatorRefused, ask_coordinator
from barnabas.client.metadata import Leader, Metadata, NoBrokerReached, fields
from barnabas.client.retries import (
    Address,
    Ask,
    Pause,
    RetriableError,
    Steps,
    attempts,
    retried,
    within,
)
from barnabas.wire.apis import ApiKey

T = TypeVar("T")
A, B, C = ("a", 1), ("b", 2), ("c", 3)
TOPIC_ID, OTHER_ID = uuid.UUID(int=1), uuid.UUID(int=2)


def drive(steps: Steps[T], answer: Callable[[Ask], Any]) -> T:
    """Give each request its answer; one that is an exception is thrown in."""
    try:
        step = next(steps)
        while True:
            given = None if isinstance(step, Pause) else answer(step)
            step = steps.throw(given) if isinstance(given, PeerGone) else steps.send(given)
    except StopIteration as end:
        result: T = end.value
        return result


def described(
    leader: int, epoch: int, *, controller: int = 1, topic_id: uuid.UUID = TOPIC_ID
) -> Any:
    """A Metadata response: brokers 1 and 2, and a topic of one partition."""
    partition = fields(
        partition_index=0,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=(1, 2),
        isr_nodes=(1,),
    )
    topic = fields(
        name="t",
        topic_id=topic_id,
        partitions=(partition,),
        is_internal=False,
        error_code=ErrorCode.none,
    )
    brokers = (fields(node_id=1, host="a", port=1), fields(node_id=2, host="b", port=2))
    return fields(brokers=brokers, controller_id=controller, topics=(topic,))


def test_the_next_broker_is_asked_if_the_first_does_not_answer() -> None:
    metadata = Metadata([C, A])
    asked: list[Address] = []

    def answer(ask: Ask) -> Any:
        asked.append(ask.address)
        return PeerGone("nobody") if ask.address == C else described(2, 5)

    found = drive(metadata.refresh(), answer)
    drive(metadata.refresh(), answer)

    assert asked == [C, A, A]  # the one that answered is asked first
    assert found["t"].leader(0) == metadata.leader("t", 0) == Leader(2, "b", 2, 5)
    assert (found["t"].leader(1), metadata.leader("u", 0)) == (None, None)
    assert metadata.brokers == {1: A, 2: B}


def test_brokers_that_were_not_named_are_asked_when_those_named_are_gone() -> None:
    metadata = Metadata([A])
    drive(metadata.refresh(), lambda _: described(1, 1))

    drive(metadata.refresh(), lambda ask: PeerGone("!") if ask.address == A else described(2, 2))

    assert metadata.leader("t", 0) == Leader(2, "b", 2, 2)


def test_no_broker_at_all_has_a_reason_for_each() -> None:
    with pytest.raises(NoBrokerReached) as none:
        drive(Metadata([A, B]).refresh(), lambda ask: PeerGone(ask.address[0]))

    assert [str(each) for each in none.value.reasons] == ["a", "b"]


def test_a_broker_that_has_just_started_is_not_believed_that_topics_are_gone() -> None:
    metadata = Metadata([A, B])
    drive(metadata.refresh(), lambda _: described(2, 7))
    blank = fields(brokers=(), controller_id=-1, topics=())

    drive(metadata.refresh(), lambda ask: blank if ask.address == A else described(2, 8))
    assert metadata.leader("t", 0) == Leader(2, "b", 2, 8)

    with pytest.raises(RetriableError, match="do not know the cluster yet"):
        drive(metadata.refresh(), lambda ask: PeerGone("!") if ask.address == A else blank)
    assert metadata.leader("t", 0) == Leader(2, "b", 2, 8)
    assert metadata.brokers == {1: A, 2: B}


def test_a_broker_that_is_cut_off_does_not_bring_back_a_past_leader() -> None:
    metadata = Metadata([A])
    drive(metadata.refresh(), lambda _: described(2, 7))

    drive(metadata.refresh(), lambda _: described(1, 6))
    assert metadata.leader("t", 0) == Leader(2, "b", 2, 7)

    drive(metadata.refresh(), lambda _: described(-1, 8))
    assert metadata.leader("t", 0) is None

    drive(metadata.refresh(), lambda _: described(1, 0, topic_id=OTHER_ID))
    assert metadata.leader("t", 0) == Leader(1, "a", 1, 0)


def test_topics_that_were_not_asked_for_stay_known() -> None:
    metadata = Metadata([A])
    drive(metadata.refresh(), lambda _: described(2, 7))

    def none(_: Ask) -> Any:
        return SimpleNamespace(**{**vars(described(2, 7)), "topics": ()})

    drive(metadata.refresh(()), none)
    assert "t" in metadata.topics
    drive(metadata.refresh(), none)
    assert not metadata.topics


def test_a_controller_that_moves_is_followed() -> None:
    asked: list[Address] = []
    controllers = iter([-1, 1, 2])

    def answer(ask: Ask) -> Any:
        if ask.key is ApiKey.METADATA:
            return described(1, 1, controller=next(controllers))
        asked.append(ask.address)
        moved = ask.address == A
        return fields(error_code=ErrorCode.not_controller if moved else ErrorCode.none)

    drive(Metadata([A]).ask_controller(ApiKey.CREATE_TOPICS, fields(), attempts(3)), answer)

    assert asked == [A, B]


def test_without_a_controller_the_last_attempt_says_so() -> None:
    steps = Metadata([A]).ask_controller(ApiKey.CREATE_TOPICS, fields(), attempts(3))
    with pytest.raises(RetriableError, match="there is no controller"):
        drive(steps, lambda _: described(1, 1, controller=-1))


def test_a_coordinator_that_loads_or_moves_is_asked_again() -> None:
    found = iter([ErrorCode.coordinator_not_available, ErrorCode.none, ErrorCode.none])
    answered = iter([ErrorCode.not_coordinator, ErrorCode.none])

    def answer(ask: Ask) -> Any:
        if ask.key is ApiKey.FIND_COORDINATOR:
            return fields(coordinators=(fields(error_code=next(found), host="b", port=2),))
        assert ask.address == B
        return fields(error_code=next(answered))

    response = drive(
        ask_coordinator(Metadata([A]), "g", ApiKey.OFFSET_COMMIT, fields(), attempts(3)), answer
    )

    assert response.error_code is ErrorCode.none


def test_a_group_that_may_not_be_used_is_refused_at_once() -> None:
    refused = fields(error_code=ErrorCode.group_authorization_failed, host="", port=-1)

    with pytest.raises(CoordinatorRefused, match=r"^group g: .*GROUP_AUTHORIZATION_FAILED"):
        drive(
            ask_coordinator(Metadata([A]), "g", ApiKey.OFFSET_COMMIT, fields(), attempts(3)),
            lambda _: fields(coordinators=(refused,)),
        )


def test_a_broker_that_is_not_known_is_gone() -> None:
    with pytest.raises(PeerGone, match="broker 9 is not in the cluster"):
        drive(Metadata([A]).ask(9, ApiKey.METADATA, fields()), lambda _: None)


def test_attempts_and_time_end_a_retry() -> None:
    made: list[int] = []

    def fails() -> Steps[None]:
        made.append(1)
        yield Ask(A, ApiKey.METADATA, None)

    with pytest.raises(PeerGone, match="still"):
        drive(retried(fails, attempts(4)), lambda _: PeerGone("still"))
    assert len(made) == 4
    with pytest.raises(PeerGone, match="still"):
        drive(retried(fails, within(-1)), lambda _: PeerGone("still"))
    assert len(made) == 5
    with pytest.raises(PeerGone, match="at once"):
        drive(retried(fails, attempts(4), fatal=(PeerGone,)), lambda _: PeerGone("at once"))
    assert len(made) == 6
