"""Every violation is found in a handmade history, and correct histories pass."""

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
    OperationOutcome,
    Poll,
    Reassign,
    Sent,
)
from barnabas.sim.checkers.violations import FinalState, ViolationKind
from tests.sim.histories import AT, FAILED, GROUP, OK, OTHER, TOPIC_ID, UNKNOWN, Ideal, found

# -- records -----------------------------------------------------------------


def test_an_acknowledged_value_missing_at_the_end_is_lost() -> None:
    ideal = Ideal()
    ideal.send(2)
    ideal.send(1, is_there=False)
    assert ideal.found() == [ViolationKind.LOST]


def test_acknowledged_values_of_a_missing_partition_are_lost() -> None:
    ideal = Ideal()
    ideal.send(2)
    assert found(ideal.history, FinalState()) == [ViolationKind.LOST]


@pytest.mark.parametrize(("outcome", "acks"), [(UNKNOWN, -1), (OK, 1), (UNKNOWN, 0)])
def test_unacknowledged_values_may_be_present_or_missing(
    outcome: OperationOutcome, acks: int
) -> None:
    ideal = Ideal()
    ideal.send(1, outcome=outcome, acks=acks, is_there=True)
    ideal.send(1, outcome=outcome, acks=acks, is_there=False)
    assert ideal.found() == []


def test_records_of_a_topic_with_a_delete_request_may_be_gone() -> None:
    ideal = Ideal()
    ideal.send(2)
    ideal.done("admin", Delete(AT.topic), outcome=UNKNOWN)
    assert found(ideal.history, FinalState()) == []


def test_one_value_at_two_offsets_is_a_duplicate() -> None:
    ideal = Ideal()
    ideal.send(2)
    ideal.logs[AT].append(ideal.logs[AT][0])
    assert ViolationKind.DUPLICATE in ideal.found()


def test_two_values_at_one_offset_are_inconsistent() -> None:
    ideal = Ideal()
    ideal.send(1, acks=1)
    ideal.poll()
    ideal.logs[AT].clear()
    ideal.send(1, acks=1)
    assert ideal.found() == [ViolationKind.INCONSISTENT]


def test_an_acknowledged_offset_must_hold_the_value() -> None:
    ideal = Ideal()
    operation = ideal.send(1)
    ideal.send(1)
    operation.got = Sent(1)
    assert ideal.found() == [ViolationKind.INCONSISTENT, ViolationKind.DUPLICATE]


def test_an_acknowledgement_without_an_offset_is_consistent() -> None:
    ideal = Ideal()
    ideal.send(1)
    ideal.send(1).got = Sent(-1)
    assert ideal.found() == []


@pytest.mark.parametrize("value", [99, NOT_OURS])
def test_a_value_that_was_never_sent_is_a_phantom(value: int) -> None:
    ideal = Ideal()
    ideal.send(1)
    ideal.logs[AT].append(value)
    assert ideal.found() == [ViolationKind.PHANTOM]


def test_a_value_in_the_wrong_partition_is_a_phantom() -> None:
    ideal = Ideal()
    ideal.send(1, outcome=UNKNOWN, is_there=False)
    ideal.logs[OTHER] = [1]
    assert ideal.found() == [ViolationKind.PHANTOM]


def test_a_rejected_value_must_never_be_read() -> None:
    ideal = Ideal()
    ideal.send(1, outcome=FAILED, is_there=True)
    assert ideal.found() == [ViolationKind.ABORTED]


def test_records_of_a_producer_stay_in_order() -> None:
    ideal = Ideal()
    ideal.send(2, outcome=UNKNOWN)
    ideal.logs[AT].reverse()
    assert ideal.found() == [ViolationKind.REORDERED]


def refused(ideal: Ideal, why: str, acks: int = -1) -> None:
    ideal.send(1, outcome=FAILED, acks=acks).why = why


def test_a_batch_before_the_last_of_its_producer_may_be_forgotten() -> None:
    ideal = Ideal()
    ideal.send(1)
    ideal.send(1, outcome=UNKNOWN).why = "out_of_order_sequence_number"
    assert ideal.found() == [ViolationKind.FORGOTTEN]
    ideal.send(1, outcome=UNKNOWN)
    assert ideal.found() == []


def test_the_next_batch_of_a_producer_must_not_be_out_of_order() -> None:
    ideal = Ideal()
    ideal.send(1)
    refused(ideal, "out_of_order_sequence_number")
    assert ideal.found() == [ViolationKind.FORGOTTEN]


def test_after_an_unknown_outcome_the_next_batch_may_be_out_of_order() -> None:
    ideal = Ideal()
    ideal.send(1, outcome=UNKNOWN, is_there=False)
    refused(ideal, "out_of_order_sequence_number")
    assert ideal.found() == []


def test_records_with_acks_1_may_be_missing_on_the_next_leader() -> None:
    ideal = Ideal()
    ideal.send(1, acks=1, is_there=False)
    refused(ideal, "out_of_order_sequence_number", acks=1)
    assert ideal.found() == []


@pytest.mark.parametrize("why", ["invalid_producer_epoch", "unknown_producer_id"])
def test_no_broker_knows_a_later_epoch_than_the_producer(why: str) -> None:
    ideal = Ideal()
    refused(ideal, why, acks=1)
    assert ideal.found() == [ViolationKind.FORGOTTEN]


def test_a_poll_must_not_skip_records() -> None:
    ideal = Ideal()
    ideal.send(3)
    records = list(enumerate(ideal.logs[AT]))
    ideal.polled(0, [records[0], records[2]])
    ideal.polled(0, records[1:])
    assert ideal.found() == [ViolationKind.SKIPPED]


def test_a_poll_must_not_go_back() -> None:
    ideal = Ideal()
    ideal.send(3)
    records = list(enumerate(ideal.logs[AT]))
    ideal.polled(1, records)
    assert ideal.found() == [ViolationKind.NON_MONOTONE]


def test_records_above_the_high_watermark_must_not_be_read() -> None:
    ideal = Ideal()
    ideal.send(3)
    ideal.polled(0, list(enumerate(ideal.logs[AT])), high_watermark=2)
    assert ideal.found() == [ViolationKind.UNCOMMITTED]


def test_records_that_were_read_must_not_disappear() -> None:
    ideal = Ideal()
    ideal.send(3, acks=1)
    ideal.poll()
    ideal.logs[AT].pop()
    assert ideal.found() == [ViolationKind.UNCOMMITTED]


def test_a_position_reached_by_reading_must_not_be_out_of_range() -> None:
    ideal = Ideal()
    ideal.done("consumer", Poll(AT, TOPIC_ID, 3), outcome=FAILED, why="offset_out_of_range")
    assert ideal.found() == [ViolationKind.UNCOMMITTED]


def test_a_past_leader_may_reject_a_groups_position() -> None:
    ideal = Ideal()
    ideal.send(3)
    ideal.done("member", Poll(AT, TOPIC_ID, 3, GROUP), outcome=FAILED, why="offset_out_of_range")
    assert ideal.found() == []
    ideal.done("consumer", Poll(AT, TOPIC_ID, 3), outcome=FAILED, why="offset_out_of_range")
    assert ideal.found() == [ViolationKind.UNCOMMITTED]


def test_a_batch_with_a_wrong_crc_is_damaged() -> None:
    ideal = Ideal()
    ideal.done("consumer", Poll(AT, TOPIC_ID, 3), outcome=FAILED, why="corrupt")
    assert ideal.found() == [ViolationKind.DAMAGED]


def test_a_recreated_topic_has_its_own_offsets() -> None:
    ideal = Ideal()
    ideal.send(1, acks=1)
    ideal.poll()
    ideal.done("admin", Delete(AT.topic))
    ideal.done("admin", Create(AT.topic, 1, 3))
    ideal.logs[AT].clear()
    ideal.send(1)
    (end,) = ideal.final.partitions
    assert found(ideal.history, FinalState((replace(end, topic_id=uuid.UUID(int=8)),))) == []
    assert found(ideal.history, ideal.final) == [ViolationKind.INCONSISTENT]


# -- topics ------------------------------------------------------------------


def test_a_created_topic_must_exist() -> None:
    ideal = Ideal()
    ideal.done("admin", Create("orders", 1, 3))
    assert ideal.found() == [ViolationKind.TOPIC_LOST]


def test_a_grown_topic_must_have_its_partitions() -> None:
    ideal = Ideal()
    ideal.done("admin", Create("orders", 1, 3))
    ideal.send(1)
    ideal.done("admin", Grow("orders", 2), outcome=UNKNOWN)
    assert ideal.found() == []
    ideal.done("admin", Grow("orders", 2))
    assert ideal.found() == [ViolationKind.TOPIC_LOST]


def test_a_deleted_topic_must_be_gone() -> None:
    ideal = Ideal()
    ideal.done("admin", Create("orders", 1, 3))
    ideal.logs[AT] = []
    ideal.done("admin", Delete("orders"))
    assert ideal.found() == [ViolationKind.TOPIC_BACK]
    ideal.done("admin", Create("orders", 1, 3), outcome=UNKNOWN)
    assert ideal.found() == []


def test_a_partition_is_on_its_last_reassigned_brokers() -> None:
    ideal = Ideal()
    ideal.logs[AT] = []
    (end,) = ideal.final.partitions
    on_others = FinalState((replace(end, assigned=(1, 2), replicas={1: b"", 2: b""}),))
    ideal.done("admin", Reassign(AT, (2, 1)))
    assert found(ideal.history, on_others) == []
    ideal.done("admin", Elect(AT))
    ideal.done("admin", Reassign(AT, (0, 1)))
    assert found(ideal.history, on_others) == [ViolationKind.MISPLACED]
    ideal.done("admin", Reassign(AT, None))
    assert found(ideal.history, on_others) == []


def test_a_reassignment_does_not_bind_a_recreated_topic() -> None:
    ideal = Ideal()
    ideal.logs[AT] = []
    (end,) = ideal.final.partitions
    ideal.done("admin", Reassign(AT, (0, 1)))
    ideal.done("admin", Delete(AT.topic))
    ideal.done("admin", Create(AT.topic, 1, 2))
    assert (
        found(
            ideal.history, FinalState((replace(end, assigned=(1, 2), replicas={1: b"", 2: b""}),))
        )
        == []
    )


# -- all of it ---------------------------------------------------------------


def test_an_unexpected_error_is_reported() -> None:
    ideal = Ideal()
    ideal.done("admin", Elect(AT), outcome=UNKNOWN, why="unknown_server_error")
    assert ideal.found() == [ViolationKind.UNEXPECTED]


def test_only_a_few_violations_of_a_kind_are_listed() -> None:
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
def test_any_correct_history_passes(
    steps: list[tuple[str, int, TopicPartition, OperationOutcome]],
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
