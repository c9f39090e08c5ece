"""Checks that a query resumes with the logs it has read before: detects data loss."""

from collections.abc import Mapping

from barnabas.client.metadata import TopicInfo
from barnabas.spark.source.source_options import EARLIEST, SourceOptions, TopicPartition
from barnabas.spark.source.stream_offset import UNKNOWN_EPOCH, Position, Positions
from barnabas.spark.spark_cluster import SparkCluster
from barnabas.spark.user_errors import DataLoss, SparkFailure

_GO_ON = "to continue without these records, set failOnDataLoss to false"


def validated(
    cluster: SparkCluster,
    topics: Mapping[str, TopicInfo],
    positions: Positions,
    options: SourceOptions,
    seen: Positions,
) -> Positions:
    """Return the positions to resume from: unchanged if every log is still the same.

    `seen` are newer positions, which may come from a leader that `topics` do not know yet.

    With `failOnDataLoss=false` a deleted partition is skipped, a recreated topic is read from its
    beginning, and a truncated log is read from the offset of the truncation.

    Raises  DataLoss if a topic was deleted, recreated or truncated
            SparkFailure if the query does not read the topics of these positions
    """
    present = _of_topics_read(topics, positions, options)
    recreated = [each for each in present if _is_another(topics[each.topic], present[each])]
    for each in recreated:
        _lose(
            f"topic {each.topic} was deleted and recreated since it was last read: its id was"
            f" {present[each].topic_id} and is now {topics[each.topic].topic_id}",
            options,
        )
    beginnings = cluster.offsets(dict.fromkeys(recreated, EARLIEST))
    for each, beginning in beginnings.items():
        present[each] = Position(beginning.offset, beginning.epoch, topics[each.topic].topic_id)
    return present | _cut(cluster, topics, present, options, seen)


def _of_topics_read(
    topics: Mapping[str, TopicInfo], positions: Positions, options: SourceOptions
) -> Positions:
    present = {}
    for each, position in positions.items():
        topic = topics.get(each.topic)
        if topic is not None and each.partition in topic.partitions:
            present[each] = position
        elif topic is None and options.subscribe_pattern is None and options.fail_on_data_loss:
            reads = ", ".join(topics)
            raise SparkFailure(
                f"the checkpoint is for topic {each.topic} but the query reads {reads}; give the"
                " query its own checkpointLocation, or make it read that topic"
            )
        else:
            _lose(f"{each} was deleted since it was last read", options)
    return present


def _is_another(topic: TopicInfo, position: Position) -> bool:
    return position.topic_id is not None and position.topic_id != topic.topic_id


def _cut(
    cluster: SparkCluster,
    topics: Mapping[str, TopicInfo],
    positions: Positions,
    options: SourceOptions,
    seen: Positions,
) -> Positions:
    """New positions for truncated logs; only logs with a new leader can be truncated."""
    new_leader = {}
    for each, position in positions.items():
        leader = topics[each.topic].leader(each.partition)
        newest = max(
            UNKNOWN_EPOCH if leader is None else leader.epoch,
            seen[each].epoch if each in seen else UNKNOWN_EPOCH,
        )
        if 0 <= position.epoch < newest:
            new_leader[each] = position.epoch
    changed = {}
    for each, end in cluster.epoch_ends(new_leader).items():
        position = positions[each]
        if 0 <= end.offset < position.offset:
            _lose(
                f"{each} was truncated: it was read up to offset {position.offset} in leader epoch"
                f" {position.epoch}, of which only offsets before {end.offset} are left",
                options,
            )
            changed[each] = Position(end.offset, end.epoch, position.topic_id)
    return changed


def _lose(what: str, options: SourceOptions) -> None:
    if options.fail_on_data_loss:
        raise DataLoss(f"{what}; {_GO_ON}")


def check_end(partition: TopicPartition, end: int, latest: int, options: SourceOptions) -> None:
    """Raises  DataLoss, with failOnDataLoss, because the log ends before it did"""
    _lose(f"{partition} ends at offset {latest} but was read up to offset {end} before", options)


def check_start(partition: TopicPartition, start: int, options: SourceOptions) -> None:
    """Raises  DataLoss, with failOnDataLoss, if a new partition begins after offset 0"""
    if start > 0:
        _lose(
            f"{partition} is new since the query began, and its records before offset {start} were"
            " deleted before they were read",
            options,
        )
