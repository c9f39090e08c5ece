"""Every promise that a history can break, each broken by hand; and that good histories pass."""

import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.ids import TopicPartition
from barnabas.sim.checkers.all_checkers import check
from barnabas.sim.checkers.history import (
    NOT_OURS,
    Create,
    Delete,
    Elect,
    Grow,
    Outcome,
    Poll,
    Reassign,
    Sent,
)
from barnabas.sim.checkers.violations import Final, Kind
from tests.sim.histories import AT, FAILED, GROUP, OK, OTHER, TOPIC_ID, UNKNOWN, Ideal, found

# -- records -----------------------------------------------------------------


def test_an_acknowledged_value_that_is_not_there_at_the_end_is_lost() -> None:
    ideal = Ideal()
    ideal.send(2)
    ideal.send(1, is_there=False)
    assert ideal.found() == [Kind.LOST]


def test_all_acknowledged_values_of_a_partition_that_is_gone_are_lost() -> None:
    ideal = Ideal()
    ideal.send(2)
    assert found(ideal.history, Final()) == [Kind.LOST]


@pytest.mark.parametrize(("outcome", "acks"), [(UNKNOWN, -1), (OK, 1), (UNKNOWN, 0)])
def test_what_was_not_promised_may_be_there_or_not(outcome: Outcome, acks: int) -> None:
    ideal = Ideal()
    ideal.send(1, outcome=outcome, acks=acks, is_there=True)
    ideal.send(1, outcome=outcome, acks=acks, is_there=False)
    assert ideal.found() == []


def test_records_of_a_topic_that_someone_wanted_deleted_may_be_gone() -> None:
    ideal = Ideal()
    ideal.send(2)
    ideal.done("admin", Delete(AT.topic), outcome=UNKNOWN)
    assert found(ideal.history, Final()) == []


def test_one_value_at_two_offsets_is_a_duplicate() -> None:
    ideal = Ideal()
    ideal.send(2)
    ideal.logs[AT].append(ideal.logs[AT][0])
    assert Kind.DUPLICATE in ideal.found()


def test_two_values_at_one_offset_are_inconsistent() -> None:
    ideal = Ideal()
    ideal.send(1, acks=1)
    ideal.poll()
    ideal.logs[AT].clear()
    ideal.send(1, acks=1)
    assert ideal.found() == [Kind.INCONSISTENT]


def test_an_offset_that_a_producer_was_told_must_be_where_its_value_is() -> None:
    ideal = Ideal()
    operation = ideal.send(1)
    ideal.send(1)
    operation.got = Sent(1)
    assert ideal.found() == [Kind.INCONSISTENT, Kind.DUPLICATE]


def test_an_offset_that_is_not_told_is_no_contradiction() -> None:
    ideal = Ideal()
    ideal.send(1)
    ideal.send(1).got = Sent(-1)
    assert ideal.found() == []


@pytest.mark.parametrize("value", [99, NOT_OURS])
def test_a_value_that_nobody_sent_is_a_phantom(value: int) -> None:
    ideal = Ideal()
    ideal.send(1)
    ideal.logs[AT].append(value)
    assert ideal.found() == [Kind.PHANTOM]


def test_a_value_in_another_partition_than_it_was_sent_to_is_a_phantom() -> None:
    ideal = Ideal()
    ideal.send(1, outcome=UNKNOWN, is_there=False)
    ideal.logs[OTHER] = [1]
    assert ideal.found() == [Kind.PHANTOM]


def test_a_value_that_was_refused_must_never_be_read() -> None:
    ideal = Ideal()
    ideal.send(1, outcome=FAILED, is_there=True)
    assert ideal.found() == [Kind.ABORTED]


def test_what_a_producer_sent_stays_in_its_order() -> None:
    ideal = Ideal()
    ideal.send(2, outcome=UNKNOWN)
    ideal.logs[AT].reverse()
    assert ideal.found() == [Kind.REORDERED]


def refused(ideal: Ideal, why: str, acks: int = -1) -> None:
    ideal.send(1, outcome=FAILED, acks=acks).why = why


def test_a_batch_that_is_there_before_a_later_one_may_be_no_longer_remembered() -> None:
    ideal = Ideal()
    ideal.send(1)
    ideal.send(1, outcome=UNKNOWN).why = "out_of_order_sequence_number"
    assert ideal.found() == [Kind.FORGOTTEN]
    ideal.send(1, outcome=UNKNOWN)
    assert ideal.found() == []


def test_a_batch_that_comes_next_must_not_be_refused_as_if_one_was_missing() -> None:
    ideal = Ideal()
    ideal.send(1)
    refused(ideal, "out_of_order_sequence_number")
    assert ideal.found() == [Kind.FORGOTTEN]


def test_after_a_batch_whose_fate_is_unknown_another_may_be_refused() -> None:
    ideal = Ideal()
    ideal.send(1, outcome=UNKNOWN, is_there=False)
    refused(ideal, "out_of_order_sequence_number")
    assert ideal.found() == []


def test_what_only_the_leader_had_may_be_missing_to_the_next() -> None:
    ideal = Ideal()
    ideal.send(1, acks=1, is_there=False)
    refused(ideal, "out_of_order_sequence_number", acks=1)
    assert ideal.found() == []


@pytest.mark.parametrize("why", ["invalid_producer_epoch", "unknown_producer_id"])
def test_nobody_knows_a_later_epoch_than_the_producer(why: str) -> None:
    ideal = Ideal()
    refused(ideal, why, acks=1)
    assert ideal.found() == [Kind.FORGOTTEN]


def test_a_poll_must_not_skip_what_lies_between() -> None:
    ideal = Ideal()
    ideal.send(3)
    records = list(enumerate(ideal.logs[AT]))
    ideal.polled(0, [records[0], records[2]])
    ideal.polled(0, records[1:])
    assert ideal.found() == [Kind.SKIPPED]


def test_a_poll_must_not_go_back() -> None:
    ideal = Ideal()
    ideal.send(3)
    records = list(enumerate(ideal.logs[AT]))
    ideal.polled(1, records)
    assert ideal.found() == [Kind.NON_MONOTONE]


def test_what_is_above_the_high_watermark_must_not_be_read() -> None:
    ideal = Ideal()
    ideal.send(3)
    ideal.polled(0, list(enumerate(ideal.logs[AT])), high_watermark=2)
    assert ideal.found() == [Kind.UNCOMMITTED]


def test_what_was_read_must_not_be_gone_later() -> None:
    ideal = Ideal()
    ideal.send(3, acks=1)
    ideal.poll()
    ideal.logs[AT].pop()
    assert ideal.found() == [Kind.UNCOMMITTED]


def test_a_position_that_was_read_up_to_must_not_be_out_of_range() -> None:
    ideal = Ideal()
    ideal.done("consumer", Poll(AT, TOPIC_ID, 3), outcome=FAILED, why="offset_out_of_range")
    assert ideal.found() == [Kind.UNCOMMITTED]


def test_a_past_leader_may_not_know_a_position_that_another_had_come_to() -> None:
    ideal = Ideal()
    ideal.send(3)
    ideal.done("member", Poll(AT, TOPIC_ID, 3, GROUP), outcome=FAILED, why="offset_out_of_range")
    assert ideal.found() == []
    ideal.done("consumer", Poll(AT, TOPIC_ID, 3), outcome=FAILED, why="offset_out_of_range")
    assert ideal.found() == [Kind.UNCOMMITTED]


def test_a_batch_whose_checksum_is_wrong_is_damaged() -> None:
    ideal = Ideal()
    ideal.done("consumer", Poll(AT, TOPIC_ID, 3), outcome=FAILED, why="corrupt")
    assert ideal.found() == [Kind.DAMAGED]


def test_a_topic_made_again_has_offsets_of_its_own() -> None:
    ideal = Ideal()
    ideal.send(1, acks=1)
    ideal.poll()
    ideal.done("admin", Delete(AT.topic))
    ideal.done("admin", Create(AT.topic, 1, 3))
    ideal.logs[AT].clear()
    ideal.send(1)
    (end,) = ideal.final.partitions
    assert found(ideal.history, Final((replace(end, topic_id=uuid.UUID(int=8)),))) == []
    assert found(ideal.history, ideal.final) == [Kind.INCONSISTENT]


# -- topics ------------------------------------------------------------------


def test_a_topic_that_was_made_must_be_there() -> None:
    ideal = Ideal()
    ideal.done("admin", Create("orders", 1, 3))
    assert ideal.found() == [Kind.TOPIC_LOST]


def test_a_topic_that_grew_must_have_its_partitions() -> None:
    ideal = Ideal()
    ideal.done("admin", Create("orders", 1, 3))
    ideal.send(1)
    ideal.done("admin", Grow("orders", 2), outcome=UNKNOWN)
    assert ideal.found() == []
    ideal.done("admin", Grow("orders", 2))
    assert ideal.found() == [Kind.TOPIC_LOST]


def test_a_topic_that_was_deleted_must_be_gone() -> None:
    ideal = Ideal()
    ideal.done("admin", Create("orders", 1, 3))
    ideal.logs[AT] = []
    ideal.done("admin", Delete("orders"))
    assert ideal.found() == [Kind.TOPIC_BACK]
    ideal.done("admin", Create("orders", 1, 3), outcome=UNKNOWN)
    assert ideal.found() == []


def test_a_partition_is_where_it_was_last_moved_to() -> None:
    ideal = Ideal()
    ideal.logs[AT] = []
    (end,) = ideal.final.partitions
    on_others = Final((replace(end, assigned=(1, 2), replicas={1: b"", 2: b""}),))
    ideal.done("admin", Reassign(AT, (2, 1)))
    assert found(ideal.history, on_others) == []
    ideal.done("admin", Elect(AT))
    ideal.done("admin", Reassign(AT, (0, 1)))
    assert found(ideal.history, on_others) == [Kind.MISPLACED]
    ideal.done("admin", Reassign(AT, None))
    assert found(ideal.history, on_others) == []


def test_where_a_topic_was_moved_does_not_bind_the_next_of_its_name() -> None:
    ideal = Ideal()
    ideal.logs[AT] = []
    (end,) = ideal.final.partitions
    ideal.done("admin", Reassign(AT, (0, 1)))
    ideal.done("admin", Delete(AT.topic))
    ideal.done("admin", Create(AT.topic, 1, 2))
    assert (
        found(ideal.history, Final((replace(end, assigned=(1, 2), replicas={1: b"", 2: b""}),)))
        == []
    )


# -- all of it ---------------------------------------------------------------


def test_an_error_that_no_broker_should_give_is_told() -> None:
    ideal = Ideal()
    ideal.done("admin", Elect(AT), outcome=UNKNOWN, why="unknown_server_error")
    assert ideal.found() == [Kind.UNEXPECTED]


def test_of_many_violations_of_a_kind_a_few_are_told() -> None:
    ideal = Ideal()
    for _ in range(10):
        ideal.send(1, is_there=False)
    *_, last = violations = check(ideal.history, ideal.final)
    assert len(violations) == 4
    assert str(last) == "lost write: and 7 more of this kind"


steps = st.lists(
    st.tuples(
        st.sampled_from(["send", "poll", "group", "commit", "recall", "lost"]),
        st.integers(1, 5),
        st.sampled_from([AT, OTHER]),
        st.sampled_from([OK, FAILED, UNKNOWN]),
    ),
    max_size=60,
)


@given(steps)
def test_any_history_of_a_cluster_that_does_right_passes(
    steps: list[tuple[str, int, TopicPartition, Outcome]],
) -> None:
    ideal = Ideal()
    position = dict.fromkeys((AT, OTHER), 0)
    group_position = dict.fromkeys((AT, OTHER), 0)
    for step, count, at, outcome in steps:
        if step == "send":
            ideal.send(count, at=at, outcome=outcome, producer=count % 2)
        elif step == "lost" and outcome is not FAILED:
            ideal.send(count, at=at, outcome=outcome, acks=1, producer=2, is_there=False)
        elif step == "poll":
            position[at] = ideal.poll(position[at], count, at=at)
        elif step == "group":
            group_position[at] = ideal.poll(group_position[at], count, at=at, group=GROUP)
        elif step == "commit" and group_position[at]:
            ideal.commit(group_position[at], at=at, outcome=outcome)
        else:
            ideal.generation += 1
            ideal.owned("one", at)
            group_position[at] = max(0, ideal.recall(at=at))
    assert check(ideal.history, ideal.final) == []
