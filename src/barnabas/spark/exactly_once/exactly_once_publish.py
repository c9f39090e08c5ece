"""Puts a decided micro-batch into its topics, from wherever an attempt before has ended.

Every batch has its numbers from the decision: the same producer, the same sequence, whoever sends
it. So a broker appends it once, also if two drivers publish at the same time; and whoever comes
later finds in the topic itself how far the one before had come.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from barnabas.client.metadata import TopicInfo
from barnabas.spark.exactly_once.exactly_once_log import Decided, History, Published, Share, Staged
from barnabas.spark.exactly_once.exactly_once_staging import Staging
from barnabas.spark.sink.batch_sender import ProducerId, Sender, next_sequence, numbered
from barnabas.spark.sink.sink_cluster import new_producer_id
from barnabas.spark.source.offset_ranges import OffsetRange
from barnabas.spark.source.partition_fetcher import PartitionFetcher
from barnabas.spark.source.source_options import EARLIEST, LATEST, SourceOptions, TopicPartition
from barnabas.spark.spark_cluster import SparkCluster
from barnabas.spark.user_errors import SparkFailure
from barnabas.wire.records.batch import LOG_OVERHEAD, BatchHeader, stamp

_SEQUENCE_MASK: Final = 0x7FFFFFFF
_NO_EPOCH: Final = -1

Counts = dict[TopicPartition, int]


def publish(decided: Decided, staging: Staging, options: SourceOptions, there: Counts) -> None:
    """Append what is not yet `there`, by partition the records that are; all of it on return.

    Raises  SparkFailure, part of it appended; then it can be called again with what is there
    """
    topic = staging.found()
    if topic is None:
        raise SparkFailure(
            f"topic {staging.topic} is gone, and with it micro-batch {decided.batch_id}; it must"
            " not be deleted while its query may go on"
        )
    shares = {share.partition: share for share in decided.shares}
    passed: defaultdict[TopicPartition, int] = defaultdict(int)
    with Sender(options) as sender:
        for task in decided.tasks:
            for target, batch, count in _staged(task, staging, topic):
                sequence = next_sequence(shares[target].base_sequence, passed[target])
                passed[target] += count
                if passed[target] > there.get(target, 0):
                    producer = shares[target].own or decided.producer
                    sender.send(target, numbered(batch, producer, sequence))
        sender.flush()
    for share in decided.shares:
        if passed[share.partition] != share.record_count:
            raise SparkFailure(
                f"of micro-batch {decided.batch_id} {share.record_count} records belong to"
                f" {share.partition}, but {passed[share.partition]} were found in {staging.topic}"
            )


def _staged(
    task: Staged, staging: Staging, topic: TopicInfo
) -> Iterator[tuple[TopicPartition, bytearray, int]]:
    """The task's batches in order, each with its partition and its number of records."""
    targets = iter(task.targets)
    for batches in staging.read(topic, task.partition, task.start, task.end):
        for header, read in batches:
            if header.producer_id == task.producer_id:
                batch = bytearray(read)
                stamp(batch, 0, len(batch) - LOG_OVERHEAD, _NO_EPOCH)
                yield next(targets), batch, header.record_count


def already_there(decided: Decided, options: SourceOptions) -> Counts:
    """How many records of the micro-batch each partition has. Raises SparkFailure."""
    lenient = replace(options, fail_on_data_loss=False)
    partitions = [share.partition for share in decided.shares]
    with SparkCluster(options) as cluster:
        ends = cluster.offsets(dict.fromkeys(partitions, LATEST))
        topics = cluster.topics({each.topic for each in partitions})
    found = {}
    for share in decided.shares:
        topic = topics[share.partition.topic]
        wanted = OffsetRange(
            share.partition,
            topic.topic_id,
            share.start_offset,
            ends[share.partition].offset,
            topic.leader(share.partition.partition),
        )
        with PartitionFetcher(wanted, lenient) as fetcher:
            headers = (header for batches in fetcher for header, _ in batches)
            found[share.partition] = _furthest(headers, share, share.own or decided.producer)
    return found


def _furthest(headers: Iterator[BatchHeader], share: Share, producer: ProducerId) -> int:
    """How many of the share's records have been appended, by the last of its batches."""
    furthest = 0
    for header in headers:
        first = (header.base_sequence - share.base_sequence) & _SEQUENCE_MASK
        if header.producer_id == producer.number and first < share.record_count:
            furthest = max(furthest, first + header.last_offset_delta + 1)
    return furthest


def renewed(decided: Decided, refused: TopicPartition, options: SourceOptions) -> Decided | None:
    """The decision as a partition can take it that refuses its numbers; None if there is no way.

    A broker refuses a number if the one before it is not the last it knows. If nothing of the
    micro-batch is there, then what came before it is gone: an unclean election has cut the log. No
    driver can publish there any more by the numbers it has, so others are safe. If some of it is
    there, then earlier in the log than was thought. What retention may have deleted, may have been
    read: of that nothing is published again.
    """
    share = decided.share_of(refused)
    with SparkCluster(options) as cluster:
        start = cluster.offsets({refused: EARLIEST})[refused].offset
        end = cluster.offsets({refused: LATEST})[refused].offset
    if start > share.start_offset:
        return None
    whole = share._replace(start_offset=start)
    if already_there(decided._replace(shares=(whole,)), options)[refused]:
        return decided.revised(whole) if whole != share else None
    return decided.revised(
        share._replace(base_sequence=0, start_offset=end, own=new_producer_id(options))
    )


def published(decided: Decided, history: History) -> Published:
    """What to note when it is done; `history` is that before the micro-batch."""
    after = {
        share.partition: next_sequence(share.base_sequence, share.record_count)
        for share in decided.shares
    }
    own = {share.partition: share.own for share in decided.shares if share.own is not None}
    return Published(
        decided.batch_id,
        decided.producer,
        {**history.sequences, **after},
        {**history.own, **own},
    )
