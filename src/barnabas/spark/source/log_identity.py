"""Whether the log that a query goes on with is the one it has read before."""

from collections.abc import Mapping

from barnabas.client.metadata import TopicInfo
from barnabas.spark.source.source_options import EARLIEST, SourceOptions, TopicPartition
from barnabas.spark.source.stream_offset import UNKNOWN_EPOCH, Position, Positions
from barnabas.spark.spark_cluster import SparkCluster
from barnabas.spark.user_errors import DataLoss, SparkFailure

_GO_ON = "to go on with what is there now, set failOnDataLoss to false"


def still_valid(
    cluster: SparkCluster,
    topics: Mapping[str, TopicInfo],
    positions: Positions,
    options: SourceOptions,
    seen: Positions,
) -> Positions:
    """The positions to go on from: the same ones, if every log is still the one they were taken of.

    `seen` are positions asked for later: they may be of a leader that `topics` do not know yet.

    With `failOnDataLoss=false`, what is gone is left out, a topic made again is read from its
    beginning, and a log that was truncated from where it was cut.

    Raises  DataLoss, if a topic was deleted, was deleted and made again, or was truncated
            SparkFailure, if the positions are of topics that the query does not read
    """
    present = _of_topics_read(topics, positions, options)
    made_again = [each for each in present if _is_another(topics[each.topic], present[each])]
    for each in made_again:
        _lose(
            f"topic {each.topic} was deleted and made again since it was read last: its id was"
            f" {present[each].topic_id}, now it is {topics[each.topic].topic_id}",
            options,
        )
    beginnings = cluster.offsets(dict.fromkeys(made_again, EARLIEST))
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
                f"the checkpoint is of topic {each.topic}, the query reads {reads}; give it a"
                " checkpointLocation of its own, or let it read the topic again"
            )
        else:
            _lose(f"{each} was deleted since it was read last", options)
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
    """New positions for logs that were truncated; only a new leader can have done that."""
    led_anew = {}
    for each, position in positions.items():
        leader = topics[each.topic].leader(each.partition)
        newest = max(
            UNKNOWN_EPOCH if leader is None else leader.epoch,
            seen[each].epoch if each in seen else UNKNOWN_EPOCH,
        )
        if 0 <= position.epoch < newest:
            led_anew[each] = position.epoch
    changed = {}
    for each, end in cluster.epoch_ends(led_anew).items():
        position = positions[each]
        if 0 <= end.offset < position.offset:
            _lose(
                f"{each} was truncated: it was read to offset {position.offset} in leader epoch"
                f" {position.epoch}, and of that only offsets before {end.offset} are left",
                options,
            )
            changed[each] = Position(end.offset, end.epoch, position.topic_id)
    return changed


def _lose(what: str, options: SourceOptions) -> None:
    if options.fail_on_data_loss:
        raise DataLoss(f"{what}; {_GO_ON}")


def has_lost(partition: TopicPartition, end: int, latest: int, options: SourceOptions) -> None:
    """Raises  DataLoss, unless it shall be gone on, for a log that ends before it once did"""
    _lose(
        f"{partition} ends at offset {latest}, though it was read to offset {end} before", options
    )


def begins_late(partition: TopicPartition, start: int, options: SourceOptions) -> None:
    """Raises  DataLoss, unless it shall be gone on, for a new partition that begins after 0"""
    if start > 0:
        _lose(
            f"{partition} came since the query began, and its records before offset {start} were"
            " deleted before they were read",
            options,
        )
