"""Violations of groups: double ownership, lost commits, skipped records."""

import uuid

import pytest

from barnabas.base.ids import TopicPartition
from barnabas.sim.checkers.history import Hold, Owned
from barnabas.sim.checkers.violations import ViolationKind
from tests.sim.histories import AT, FAILED, GROUP, OTHER, TOPIC_ID, UNKNOWN, Ideal


def test_a_partition_must_not_be_owned_twice_in_a_generation() -> None:
    ideal = Ideal()
    ideal.owned("one", AT)
    ideal.owned("two", OTHER)
    ideal.generation += 1
    ideal.owned("two", AT)
    assert ideal.found() == []
    ideal.owned("one", AT)
    assert ideal.found() == [ViolationKind.OWNED_TWICE]


def held(
    ideal: Ideal,
    member: str,
    *partitions: TopicPartition,
    epoch: int = 1,
    topic_id: uuid.UUID = TOPIC_ID,
) -> None:
    asked = Hold(GROUP, member, epoch, partitions, (topic_id,) * len(partitions))
    ideal.done(member, asked, Owned(member, epoch, tuple(partitions)))


def test_a_partition_may_move_from_one_member_to_the_next() -> None:
    ideal = Ideal()
    for member in ("one", "one", "two", "two", "one"):
        held(ideal, member, AT)
        held(ideal, "one" if member == "two" else "two", OTHER)
    assert ideal.found() == []


def test_a_partition_must_be_revoked_before_another_member_owns_it() -> None:
    ideal = Ideal()
    for member in ("one", "two", "one"):
        held(ideal, member, AT)
    assert ideal.found() == [ViolationKind.OWNED_TWICE]


def test_a_partition_of_a_recreated_topic_is_another_one() -> None:
    ideal = Ideal()
    held(ideal, "one", AT)
    held(ideal, "two", AT, topic_id=uuid.UUID(int=8))
    held(ideal, "one", AT)
    assert ideal.found() == []
    held(ideal, "two", AT)
    held(ideal, "one", AT)
    assert ideal.found() == [ViolationKind.OWNED_TWICE]


def test_an_epoch_of_a_member_must_not_go_back() -> None:
    ideal = Ideal()
    held(ideal, "one", AT, epoch=3)
    held(ideal, "one", AT, epoch=2)
    assert ideal.found() == [ViolationKind.GENERATION_WENT_BACK]


def test_a_generation_must_not_go_back() -> None:
    ideal = Ideal()
    ideal.generation = 2
    ideal.owned("one", AT)
    ideal.generation = 1
    ideal.owned("one", AT)
    assert ideal.found() == [ViolationKind.GENERATION_WENT_BACK]


def test_a_member_that_joined_earlier_may_get_its_generation_later() -> None:
    ideal = Ideal()
    late = ideal.owned("one", AT)
    ideal.generation += 1
    ideal.owned("two", AT)
    late.ended = 100.0
    assert ideal.found() == []


def test_a_committed_offset_must_not_be_lost() -> None:
    ideal = Ideal()
    ideal.send(5)
    ideal.commit(ideal.poll(group=GROUP))
    ideal.recall(offset=-1)
    assert ideal.found() == [ViolationKind.COMMIT_WENT_BACK]


def test_an_unanswered_commit_may_count_or_not() -> None:
    ideal = Ideal()
    ideal.send(5)
    ideal.commit(ideal.poll(group=GROUP, most=2))
    ideal.commit(ideal.poll(2, group=GROUP), outcome=UNKNOWN)
    ideal.recall(offset=2)
    ideal.recall(offset=5)
    assert ideal.found() == []


@pytest.mark.parametrize("offset", [3, 5])
def test_an_offset_that_was_never_committed_must_not_be_returned(offset: int) -> None:
    ideal = Ideal()
    ideal.send(5)
    ideal.poll(group=GROUP)
    ideal.commit(2)
    ideal.commit(5, outcome=FAILED)
    ideal.recall(offset=offset)
    assert ideal.found() == [ViolationKind.COMMIT_INVENTED]


def test_a_group_must_not_skip_a_record() -> None:
    ideal = Ideal()
    ideal.send(5)
    ideal.poll(0, 2, group=GROUP)
    ideal.poll(3, group=GROUP)
    ideal.commit(5)
    assert ideal.found() == [ViolationKind.GROUP_SKIPPED]
