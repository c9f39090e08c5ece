"""The offsets of tasks and batches, and positions in checkpoints."""

import json
import uuid

import pytest

from barnabas.spark.source.offset_ranges import OffsetRange, available, divide, limited
from barnabas.spark.source.query_group import group_of
from barnabas.spark.source.source_options import TopicPartition
from barnabas.spark.source.stream_offset import Position, from_json, to_json
from barnabas.spark.user_errors import SparkFailure

ID = uuid.UUID(int=7)
A, B, C = (TopicPartition("t", number) for number in range(3))


def of(partition: TopicPartition, start: int, end: int) -> OffsetRange:
    return OffsetRange(partition, ID, start, end, None)


def ends(ranges: list[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(each.partition.partition, each.start, each.end) for each in ranges]


def test_each_partition_is_a_task_and_empty_ones_are_none() -> None:
    assert ends(divide([of(A, 0, 5), of(B, 3, 3), of(C, 9, 8)], None, None)) == [(0, 0, 5)]


def test_several_tasks_share_a_large_partition() -> None:
    shared = divide([of(A, 0, 100), of(B, 0, 2)], 5, None)

    assert ends(shared) == [(0, 0, 25), (0, 25, 50), (0, 50, 75), (0, 75, 100), (1, 0, 2)]


def test_no_task_has_more_than_max_records() -> None:
    assert ends(divide([of(A, 0, 7)], None, 3)) == [(0, 0, 2), (0, 2, 4), (0, 4, 7)]


def test_more_tasks_than_offsets_is_a_task_for_each_offset() -> None:
    assert ends(divide([of(A, 0, 3)], 8, None)) == [(0, 0, 1), (0, 1, 2), (0, 2, 3)]


def test_a_limit_is_shared_by_what_each_partition_has() -> None:
    assert limited({A: 0, B: 0}, {A: 900, B: 100}, 100) == {A: 90, B: 10}


def test_a_small_partition_is_not_starved() -> None:
    assert limited({A: 0, B: 0}, {A: 10_000, B: 1}, 10) == {A: 9, B: 1}


def test_less_than_the_limit_is_one_batch() -> None:
    assert limited({A: 5, B: 5}, {A: 8, B: 5}, 10) == {A: 8, B: 5}
    assert limited({A: 5}, {A: 5}, 10) == {A: 5}
    assert available({A: 5, B: 5}, {A: 8, B: 5}) == 3


def test_positions_survive_the_checkpoint() -> None:
    positions = {B: Position(9, 4, ID), A: Position(3, 2, ID)}

    kept = json.dumps(to_json(positions))

    assert from_json(json.loads(kept)) == positions
    assert kept == json.dumps(to_json(dict(sorted(positions.items()))))


def test_a_checkpoint_of_the_kafka_source_is_read() -> None:
    assert from_json({"t": {"0": 3, "1": 9}}) == {A: Position(3), B: Position(9)}


@pytest.mark.parametrize(
    "text", ['{"logOffset": 3}', '{"t": {"partitions": {"0": 1}}}', '{"t": 1}']
)
def test_a_checkpoint_of_another_source_is_refused(text: str) -> None:
    with pytest.raises(SparkFailure, match="not written by a query that reads topics"):
        from_json(json.loads(text))


@pytest.mark.parametrize(
    ("description", "group"),
    [
        ("orders\nid = 5-6\nrunId = 7\nbatch = 0", "spark-orders"),
        ("\nid = 5-6\nrunId = 7\nbatch = init", "spark-5-6"),
        ("a job of somebody", None),
        (None, None),
    ],
)
def test_a_group_is_named_by_its_query(description: str | None, group: str | None) -> None:
    assert group_of(description) == group
