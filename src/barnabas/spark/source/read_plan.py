"""The plan of a batch read: its topics, and the offsets at which it begins and ends."""

import re
from collections.abc import Iterable, Mapping

from barnabas.client.metadata import TopicInfo
from barnabas.spark.side_topics import is_side_topic
from barnabas.spark.source.filters import Selection
from barnabas.spark.source.offset_ranges import OffsetRange, divide
from barnabas.spark.source.record_decoder import MOST_LONG
from barnabas.spark.source.source_options import (
    EARLIEST,
    LATEST,
    Bound,
    SourceOptions,
    TopicPartition,
)
from barnabas.spark.spark_cluster import EpochOffset, SparkCluster
from barnabas.spark.user_errors import SparkFailure, WrongOption

Offsets = dict[TopicPartition, EpochOffset]
UNKNOWN_EPOCH = -1


def find_topics(cluster: SparkCluster, options: SourceOptions) -> dict[str, TopicInfo]:
    """Return the current topics that the options select.

    Raises  SparkFailure if a topic that is named does not exist
    """
    if options.subscribe_pattern is not None:
        pattern = re.compile(options.subscribe_pattern)
        return {
            name: topic
            for name, topic in cluster.topics(None).items()
            if pattern.fullmatch(name) and not topic.is_internal and not is_side_topic(name)
        }
    assigned = options.assign or ()
    names = options.subscribe or tuple(dict.fromkeys(each.topic for each in assigned))
    topics = cluster.topics(names)
    for name in names:
        if name not in topics:
            raise SparkFailure(
                f"topic {name} does not exist; create it with `barnabas topics create {name}`, or"
                " correct the option subscribe or assign"
            )
    for each in assigned:
        if each.partition not in topics[each.topic].partitions:
            count = len(topics[each.topic].partitions)
            raise SparkFailure(f"topic {each.topic} has {count} partitions; {each} does not exist")
    return topics


def partitions_of(topics: Mapping[str, TopicInfo], options: SourceOptions) -> list[TopicPartition]:
    """All partitions of the topics, or the assigned ones, sorted."""
    if options.assign is not None:
        return sorted(each for each in options.assign if each.topic in topics)
    return sorted(
        TopicPartition(name, partition)
        for name, topic in topics.items()
        for partition in topic.partitions
    )


def resolve(
    cluster: SparkCluster,
    bound: Bound,
    partitions: Iterable[TopicPartition],
    options: SourceOptions,
) -> Offsets:
    """Return the offset of `bound` in each partition.

    Raises  WrongOption if it names other partitions, or if a partition has no record at or after
            the starting timestamp and the strategy is not `latest`
    """
    chosen = list(partitions)
    if bound.each is not None:
        _check_same(bound, chosen)
    asked = {each: _number(bound, each) for each in chosen}
    if not bound.by_time:
        known = {each: EpochOffset(n, UNKNOWN_EPOCH) for each, n in asked.items() if n >= 0}
        wanted = {each: n for each, n in asked.items() if n < 0}
        return known | cluster.offsets(wanted, read_committed=options.read_committed)
    found = cluster.offsets(asked)
    without = {each: LATEST for each, at in found.items() if at.offset < 0}
    if without and bound.name.startswith("starting") and not options.latest_if_no_match:
        each = min(without)
        raise WrongOption(
            f"{bound.name}: {each} has no record at or after {asked[each]}; to begin at its end,"
            " set startingOffsetsByTimestampStrategy to latest"
        )
    return found | cluster.offsets(without, read_committed=options.read_committed)


def _number(bound: Bound, partition: TopicPartition) -> int:
    if bound.each is not None:
        return bound.each[partition]
    assert bound.everywhere is not None
    return bound.everywhere


def _check_same(bound: Bound, partitions: list[TopicPartition]) -> None:
    named = bound.each or {}
    for each in partitions:
        if each not in named:
            least = "" if bound.by_time else f" (-1 for latest, {EARLIEST} for earliest)"
            raise WrongOption(
                f"option {bound.name} must name every partition that is read{least};"
                f" {each} is missing"
            )
    for each in named:
        if each not in partitions:
            raise WrongOption(f"option {bound.name} names {each}, which is not read")


def plan(options: SourceOptions, selection: Selection) -> list[OffsetRange]:
    """Return the range of each task of a batch read. Raises SparkFailure."""
    with SparkCluster(options) as cluster:
        topics = find_topics(cluster, options)
        chosen = partitions_of(topics, options)
        starts = resolve(cluster, options.starting, chosen, options)
        ends = resolve(cluster, options.ending, chosen, options)
        wanted = [each for each in chosen if selection.wants(each.partition)]
        first_in_time = _first_in_time(cluster, wanted, selection)
    for each in chosen:
        _check_order(each, starts[each].offset, ends[each].offset)
    ranges = []
    for each in wanted:
        topic = topics[each.topic]
        start = max(starts[each].offset, selection.offsets.least, first_in_time.get(each, 0))
        end = min(ends[each].offset, selection.offsets.most + 1)
        leader = topic.leader(each.partition)
        ranges.append(OffsetRange(each, topic.topic_id, start, end, leader))
    return divide(ranges, options.min_partitions, options.max_records_per_partition)


def _first_in_time(
    cluster: SparkCluster, partitions: list[TopicPartition], selection: Selection
) -> dict[TopicPartition, int]:
    """The first offset that can match the filter on timestamp; MOST_LONG if none can."""
    earliest = selection.times_ms.least
    if earliest < 0:
        return {}
    found = cluster.offsets(dict.fromkeys(partitions, earliest))
    return {each: MOST_LONG if at.offset < 0 else at.offset for each, at in found.items()}


def _check_order(partition: TopicPartition, start: int, end: int) -> None:
    if start > end:
        raise WrongOption(
            f"{partition}: the starting offset {start} is after the ending offset {end}"
        )
